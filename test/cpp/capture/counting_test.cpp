#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "capture/decisions.h"

namespace onnx_native::capture {
namespace {

struct Counting : testing::Test {
  Counting() {
    decisions.tell_decisions([this](const CountedDecision& each) { told.push_back(text(each)); });
  }

  static std::string text(const CountedDecision& each) {
    return concat(each.rest, " + ", each.number, " ", operator_of(each.relation), " ",
                  each.holds ? "true" : "false");
  }

  Decisions decisions{
      {{"n", {.example = 5, .range = DimRange::input_size(1, 64), .is_counted = true}},
       {"b", {.example = 2, .range = DimRange::input_size(1, 64)}}},
      [] { return std::string("model.py:7"); }};
  Dim n = decisions.symbol("n");
  Dim b = decisions.symbol("b");
  std::vector<std::string> told;
};

using Texts = std::vector<std::string>;

TEST_F(Counting, DecisionsAreToldAndAreNoGuards) {
  EXPECT_TRUE(decisions.decide(n - Dim(9), Relation::less, "n < 9"));
  EXPECT_TRUE(decisions.decide(n - Dim(5), Relation::equal, "n == 5"));
  EXPECT_FALSE(decisions.decide(-n, Relation::equal, "n == 0"));  // also where a range proves it
  EXPECT_FALSE(decisions.decide(b * n - Dim(3), Relation::less_equal, "b*n <= 3"));
  EXPECT_EQ(told, (Texts{"n + -9 python::lt true", "n + -5 python::eq true",
                         "-n + 0 python::eq false", "b*n + -3 python::le false"}));
  EXPECT_TRUE(decisions.guards().empty());
}

TEST_F(Counting, OnlyCountedSymbolsAreNumbers) {
  EXPECT_EQ(decisions.counted(n * Dim(2)), 10);
  EXPECT_EQ(decisions.counted(n * b), std::nullopt);
  EXPECT_EQ(decisions.count(n, 5), 5);
  EXPECT_FALSE(decisions.lost_count());
  EXPECT_EQ(decisions.pinned(n + Dim(1), "a loop"), 6);
  EXPECT_TRUE(decisions.lost_count());
  EXPECT_EQ(told, (Texts{"n + -5 python::eq true", "n + -5 python::eq true"}));
}

TEST_F(Counting, CallsTellNothing) {
  const Decisions::InCall in_call(decisions);
  EXPECT_TRUE(decisions.decide(n - Dim(5), Relation::equal, "n == 5"));
  EXPECT_TRUE(told.empty());
}

TEST(RepeatedDecisions, AreGuardsUnlessTheyAreProven) {
  Decisions decisions{{{"n", {.example = 5, .range = DimRange::input_size(1, 64)}}},
                      [] { return std::string("model.py:7"); }};
  const Dim n = decisions.symbol("n");
  EXPECT_TRUE(decisions.repeat(n - Dim(100), Relation::less, true, false));
  EXPECT_TRUE(decisions.guards().empty());
  EXPECT_TRUE(decisions.repeat(Dim(30) - n, Relation::less, false, false));
  EXPECT_FALSE(decisions.repeat(n - Dim(3), Relation::less, true, false));
  ASSERT_EQ(decisions.guards().size(), 2U);
  EXPECT_EQ(decisions.guards()[0].statement(), "n <= 30");
  EXPECT_EQ(decisions.guards()[1].statement(), "n >= 3");
}

}  // namespace
}  // namespace onnx_native::capture
