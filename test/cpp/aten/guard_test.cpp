#include "aten/guard.h"

#include <gtest/gtest.h>

namespace onnx_native::aten {
namespace {

using Names = std::vector<std::string>;

TEST(Guard, AnEquationOfOneSizePinsIt) {
  EXPECT_EQ(pinned_sizes("Eq(TruncToInt(0.5*ToFloat(s10)), 2)"), Names{"s10"});
  EXPECT_EQ(pinned_sizes("math.trunc(0.5*torch.sym_float(L['a'][0].size()[0])) == 2"),
            Names{"L['a'][0].size()[0]"});
  EXPECT_EQ(pinned_sizes("(L['x'].size()[0] // 2) == 2"), Names{"L['x'].size()[0]"});
  EXPECT_EQ(pinned_sizes("Eq((s10//2), 2)"), Names{"s10"});
  EXPECT_EQ(pinned_sizes("Eq(s10, 1)"), Names{"s10"});
  EXPECT_EQ(pinned_sizes("Eq(-2*s0 + 3, -5)"), Names{"s0"});
  EXPECT_EQ(pinned_sizes("Eq(OpaqueUnaryFn_log2(ToFloat(s0)), 2.0)"), Names{"s0"});
}

TEST(Guard, AProductOfSizesPinsAll) {
  EXPECT_EQ(pinned_sizes("Eq(s10*s21, 12)"), (Names{"s10", "s21"}));
}

TEST(Guard, RelationsAndDivisibilityLeaveSizesOpen) {
  for (const char* guard : {"Eq(s0, s1)",
                            "Eq(s0, 2*s1 + 1)",
                            "Eq(Mod(s0, 2), 0)",
                            "(L['x'].size()[0] % 2) == 0",
                            "Eq(3*s10, 2*(((3*s10)//2)))",
                            "Eq(Mod(3*((s10//2)), ((3*s10)//2)), 0)",
                            "Eq(Min(8, s0), 8)",
                            "Eq(Max(4, s0), 4)",
                            "max(4, L['x'].size()[0]) == 4",
                            "torch.sym_max(4, s0) == 4",
                            "Eq(Min(5, s0), s0)",
                            "torch.sym_min(5, s0) == s0",
                            "min(8, L['x'].size()[0]) == 8",
                            "torch.sym_min(8, s0) == 8",
                            "Eq(Max(1, s0), s0)",
                            "max(1, L['x'].size()[0]) == L['x'].size()[0]",
                            "torch.sym_max(1, L['Max(']) == L['Max(']",
                            "2*max(s0, 5) - 5 == s0 + max(s0, 5) - 5",
                            "Ne(s0, 2)",
                            "s0 > 3",
                            "True",
                            "L['x'].size()[0] != 2"}) {
    EXPECT_EQ(pinned_sizes(guard), Names()) << guard;
  }
}

TEST(Guard, ANameIsNoMaximum) {
  EXPECT_EQ(pinned_sizes("L['Max('].size()[0] == 2"), Names{"L['Max('].size()[0]"});
}

TEST(Guard, OtherTextsPinNothing) {
  EXPECT_EQ(pinned_sizes(""), Names());
  EXPECT_EQ(pinned_sizes("Eq(s0, unknown(2))"), Names());
  EXPECT_EQ(pinned_sizes("L['x"), Names());
  EXPECT_EQ(pinned_sizes("s0 == 2 and s1 == 3"), Names());
  EXPECT_EQ(pinned_sizes(std::string(100000, '(')), Names());
  EXPECT_EQ(pinned_sizes(std::string(100000, '-')), Names());
}

TEST(Guard, KeysOfArgumentsAreAnyText) {
  EXPECT_EQ(pinned_sizes("(L['a]b'][\"c'd\"].size()[1] // 3) == 2"),
            Names{"L['a]b'][\"c'd\"].size()[1]"});
  EXPECT_EQ(pinned_sizes("L['a == b'].size()[1] // 3 == 2"), Names{"L['a == b'].size()[1]"});
}

TEST(Guard, AssertionsOfTheCaptureSayTheirGuard) {
  EXPECT_EQ(asserted_guard("Runtime assertion failed for expression Eq(s10, 1) on node 'eq_1'"),
            "Eq(s10, 1)");
  EXPECT_EQ(asserted_guard("n must be even"), "");
}

}  // namespace
}  // namespace onnx_native::aten
