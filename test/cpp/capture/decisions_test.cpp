#include "capture/decisions.h"

#include <c10/core/SymInt.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "capture/symbolic_size.h"

namespace onnx_native::capture {
namespace {

struct DecisionsTest : testing::Test {
  Decisions decisions{{{"n", {.example = 5, .range = DimRange::input_size(0, 64)}},
                       {"batch", {.example = 1, .range = DimRange::input_size()}}},
                      [] { return std::string("model.py:7"); }};
  Dim n = decisions.symbol("n");
  Dim batch = decisions.symbol("batch");

  DecisionsTest() { set_active_decisions(&decisions); }
  ~DecisionsTest() override { set_active_decisions(nullptr); }
};

TEST_F(DecisionsTest, RangesProveConditionsWithoutGuard) {
  EXPECT_TRUE(decisions.decide(n - 64, Relation::less_equal, "n <= 64"));
  EXPECT_FALSE(decisions.decide(batch, Relation::equal, "batch == 0"));
  EXPECT_TRUE(decisions.guards().empty());
}

TEST_F(DecisionsTest, ABranchRecordsItsConditionAndLine) {
  EXPECT_FALSE(decisions.decide(n - 3, Relation::less, "n < 3"));
  ASSERT_EQ(decisions.guards().size(), 1);
  EXPECT_EQ(decisions.guards()[0].text, "n < 3");
  EXPECT_FALSE(decisions.guards()[0].holds);
  EXPECT_EQ(decisions.guards()[0].source, "model.py:7");
  EXPECT_EQ(decisions.guards()[0].statement(), "n >= 3");
}

TEST_F(DecisionsTest, AUseInAnotherThreadIsRefused) {
  note_use_outside();
  EXPECT_THROW(decisions.check(), c10::Error);
  EXPECT_TRUE(decisions.reason().starts_with("the program uses a tensor or a size of the capture"));
}

TEST_F(DecisionsTest, AnEquationThatTheExampleSatisfiesIsRefused) {
  EXPECT_THROW(decisions.decide(batch - 1, Relation::equal, "batch == 1"), c10::Error);
  EXPECT_EQ(decisions.reason(),
            "the program depends on batch == 1, which holds for the example (model.py:7)");
}

TEST_F(DecisionsTest, AnEquationIsAGuardOfOneWay) {
  decisions.follow_equations();
  EXPECT_TRUE(decisions.decide(n - 5, Relation::equal, "n == 5"));
  EXPECT_EQ(decisions.pinned(n * Dim(2), "a loop"), 10);  // the way has this number
  EXPECT_EQ(decisions.proven(n - 6, Relation::less), true);
  ASSERT_EQ(decisions.guards().size(), 1);
  EXPECT_EQ(decisions.guards()[0].statement(), "n == 5");
  EXPECT_TRUE(decisions.fix("n", {0}));
  EXPECT_FALSE(decisions.fix("n", {}));
  EXPECT_TRUE(decisions.holds(0, {{"batch", 3}}));
  EXPECT_FALSE(decisions.holds(0, {{"n", 6}}));
  decisions.check();
}

TEST_F(DecisionsTest, SizesAgainstAGuardKeepTheOthers) {
  decisions.decide(n - 40, Relation::less_equal, "n <= 40");
  decisions.decide(Dim::mod(n, 4), Relation::equal, "n % 4 == 0");
  decisions.decide(n - 1, Relation::less_equal, "n <= 1");
  const auto against = [&](size_t i) { return decisions.sizes_against(i).value(); };
  EXPECT_GT(against(0).sizes.at("n"), 40);
  EXPECT_EQ(against(1).sizes.at("n"), 8);
  EXPECT_TRUE(against(1).fixed.empty());
  EXPECT_EQ(against(2).sizes.at("n"), 1);
  EXPECT_EQ(against(2).fixed, std::vector<std::string>{"n"});
}

TEST_F(DecisionsTest, SizesAgainstAnEquationOfAProduct) {
  decisions.follow_equations();
  EXPECT_FALSE(decisions.decide(n * batch - 15, Relation::equal, "n*batch == 15"));
  const auto sizes = decisions.sizes_against(0);
  ASSERT_TRUE(sizes);
  EXPECT_EQ(sizes->sizes.at("batch"), 3);
}

TEST_F(DecisionsTest, SizesAgainstAGuardAreInTheRangesOfTheUser) {
  decisions.decide(n * Dim(2) - 128, Relation::less, "2*n < 128");
  decisions.decide(n - n * batch, Relation::less_equal, "n <= n*batch");
  EXPECT_EQ(decisions.sizes_against(0).value().sizes.at("n"), 64);
  EXPECT_FALSE(decisions.sizes_against(1));
}

TEST_F(DecisionsTest, TheFirstReasonIsKept) {
  decisions.note_refusal("first");
  decisions.note_refusal("second");
  EXPECT_EQ(decisions.reason(), "first (model.py:7)");
}

TEST_F(DecisionsTest, GuardsThatLeaveOneValueAreRefused) {
  decisions.decide(n - 6, Relation::less, "n < 6");
  decisions.check();
  decisions.decide(n - 5, Relation::less, "n < 5");
  EXPECT_THROW(decisions.check(), c10::Error);
  EXPECT_TRUE(decisions.reason().starts_with("the conditions of the program leave only n == 5"));
}

TEST_F(DecisionsTest, MinimaAreDecided) {
  EXPECT_EQ(decisions.resolved(Dim::min(n * 2, 100) + 1), n * 2 + 1);
  ASSERT_EQ(decisions.guards().size(), 1);
  EXPECT_EQ(decisions.guards()[0].text, "2*n <= 100");
}

TEST_F(DecisionsTest, SizesComputeLikePythonInts) {
  const c10::SymInt size = to_sym_int(n, decisions);
  const c10::SymInt odd = size * 2 + 1;
  EXPECT_EQ(to_dim(odd, decisions), n * 2 + 1);
  EXPECT_EQ(decisions.example(to_dim((odd - 1) / 2, decisions)), 5);
  EXPECT_TRUE(TORCH_GUARD_OR_FALSE(size.sym_lt(6)));
  EXPECT_EQ((size - size).maybe_as_int(), 0);
}

TEST_F(DecisionsTest, AnIntOrTextOfASizeIsRefused) {
  const c10::SymInt size = to_sym_int(n, decisions);
  EXPECT_THROW(size.guard_int(__FILE__, __LINE__), c10::Error);
  EXPECT_THROW(size.toSymNodeImplUnowned()->str(), c10::Error);
}

TEST_F(DecisionsTest, SizesAreOfNoUseOutsideTheirRecording) {
  const c10::SymInt size = to_sym_int(n, decisions);
  set_active_decisions(nullptr);
  EXPECT_THROW(size.guard_int(__FILE__, __LINE__), c10::Error);
  Decisions other({}, [] { return std::string(); });
  EXPECT_THROW(to_dim(size, other), c10::Error);
}

}  // namespace
}  // namespace onnx_native::capture
