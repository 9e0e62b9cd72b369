#include "base/residues.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace onnx_native {
namespace {

const Dim n = Dim::symbol("n", DimRange::input_size(1));
const Dim m = Dim::symbol("m", DimRange::input_size(1));

// Returns what is missing to the next multiple.
Dim missing(const Dim& size, int64_t multiple) {
  return Dim::mod(Dim(multiple - 1) * size, multiple);
}

TEST(Residues, MultiplesHaveNoRemainder) {
  const Dim padded = n + missing(n, 8);
  const DimRange range = range_by_residues(Dim::floor_div(padded, 8) * Dim(8) - padded, {});
  EXPECT_EQ(range.low, 0);
  EXPECT_EQ(range.high, 0);
  const Dim windows = Dim::floor_div(n, 4);  // and a remainder, which the padding covers
  const Dim rows = Dim::floor_div(n + Dim(4) * missing(windows, 4), 16);
  const DimRange same = range_by_residues(Dim(4) * rows - windows - missing(windows, 4), {});
  EXPECT_EQ(same.low, 0);
  EXPECT_EQ(same.high, 0);
}

TEST(Residues, AreasOfTwoSizes) {
  const Dim rows = n + missing(n, 4), columns = m + missing(m, 4);
  const Dim windows = Dim::floor_div(rows, 4) * Dim::floor_div(columns, 4);
  const DimRange range = range_by_residues(windows * Dim(16) - rows * columns, {});
  EXPECT_EQ(range.low, 0);
  EXPECT_EQ(range.high, 0);
}

TEST(Residues, FactsExcludeSome) {
  const Dim rest = n - Dim(8) * Dim::floor_div(n, 8);
  EXPECT_EQ(range_by_residues(rest, {}).high, 7);
  const std::vector<DimFact> facts{{Dim::mod(n, 8), DimFact::Kind::zero}};
  EXPECT_EQ(range_by_residues(rest, facts).high, 0);
  EXPECT_EQ(range_by_residues(Dim::floor_div(n, 8), facts).low, 1);
  const std::vector<DimFact> two{{Dim::floor_div(n + 15, 16) - 2, DimFact::Kind::non_negative}};
  EXPECT_EQ(range_by_residues(n, two).low, 17);
}

TEST(Residues, LongPeriodsAreNotFound) {
  const Dim dim = Dim::mod(n, 997) - Dim::mod(n, 991);
  EXPECT_EQ(range_by_residues(dim, {}), DimRange{});
}

class Random {
 public:
  explicit Random(unsigned seed) : random_(seed) {}

  int64_t number(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }

  Dim expression(int depth) {
    if (depth == 0) return number(0, 3) == 0 ? Dim(number(-9, 9)) : number(0, 1) == 0 ? n : m;
    const Dim a = expression(depth - 1);
    switch (number(0, 6)) {
      case 0:
        return a + expression(depth - 1);
      case 1:
        return a - expression(depth - 1);
      case 2:
        return Dim(number(-4, 4)) * a;
      case 3:
        return Dim::floor_div(a, number(1, 6));
      case 4:
        return Dim::mod(a, number(1, 6));
      case 5:
        return Dim::min(a, expression(depth - 1));
      default:
        return a * expression(depth - 1);
    }
  }

 private:
  std::mt19937 random_;
};

TEST(Residues, BoundsHoldForAllSizes) {
  Random random(7);
  int found = 0;
  for (int trial = 0; trial < 1500; ++trial) {
    const Dim dim = random.expression(4);
    std::vector<DimFact> facts;
    for (int64_t i = random.number(0, 2); i > 0; --i)
      facts.push_back({random.expression(2), static_cast<DimFact::Kind>(random.number(0, 2))});
    const std::vector<std::string> symbols = dim.symbols();
    std::erase_if(facts, [&](const DimFact& fact) {
      return std::ranges::any_of(fact.dim.symbols(), [&](const std::string& name) {
        return std::ranges::find(symbols, name) == symbols.end();
      });
    });
    const DimRange range = range_by_residues(dim, facts);
    found += range.low || range.high ? 1 : 0;
    for (int64_t a = 1; a <= 40; ++a) {
      for (int64_t b = 1; b <= 40; b += 3) {
        const auto value = [&](std::string_view name) -> std::optional<int64_t> {
          return name == "n" ? a : b;
        };
        const bool holds = std::ranges::all_of(facts, [&](const DimFact& fact) {
          const int64_t now = *fact.dim.evaluate(value);
          return fact.kind == DimFact::Kind::non_negative ? now >= 0
                 : fact.kind == DimFact::Kind::zero       ? now == 0
                                                          : now != 0;
        });
        if (!holds) continue;
        const int64_t now = *dim.evaluate(value);
        ASSERT_GE(now, range.low.value_or(now)) << dim.str() << " at " << a << ", " << b;
        ASSERT_LE(now, range.high.value_or(now)) << dim.str() << " at " << a << ", " << b;
      }
    }
  }
  EXPECT_GT(found, 300);
}

}  // namespace
}  // namespace onnx_native
