#include "base/weight_names.h"

#include <gtest/gtest.h>

#include <set>

namespace onnx_native {
namespace {

StoredWeight layout_of(std::string_view name, const std::set<std::string, std::less<>>& weights) {
  return weight_layout(name, [&](std::string_view each) { return weights.contains(each); });
}

StoredWeight whole(const std::string& name) { return {.parts = {{name, {}}}}; }

TEST(WeightNamesTest, AMatrixAndAStackAreTransposed) {
  EXPECT_EQ(transposed_name("a.weight", 2), "a.weight.T");
  EXPECT_EQ(transposed_name("a.weight", 3), "a.weight.mT");
  EXPECT_EQ(transposed_name("", 2), "");
  const StoredWeight expected{.parts = {{"a.weight", {}}}, .is_transposed = true};
  EXPECT_EQ(layout_of("a.weight.T", {"a.weight"}), expected);
  EXPECT_EQ(layout_of("a.weight.mT", {"a.weight"}), expected);
}

TEST(WeightNamesTest, PartsMayBePartsOfParts) {
  const std::string expert = part_name("experts", {.start = 3});
  const std::string half = transposed_name(part_name(expert, {0, 2}), 2);
  EXPECT_EQ(half, "experts[3][0:2].T");
  const StoredWeight expected{.parts = {{"experts", {{3, std::nullopt}, {0, 2}}}},
                              .is_transposed = true};
  EXPECT_EQ(layout_of(half, {"experts"}), expected);
}

TEST(WeightNamesTest, RangesOfRowsAreJoined) {
  const std::vector<WeightPart> parts{{"a", {{0, 2}}}, {"a", {{4, 6}}}, {"b", {{0, 4}}}};
  EXPECT_EQ(joined_name(parts), "a[0:2,4:6]+b[0:4]");
  EXPECT_EQ(layout_of("a[0:2,4:6]+b[0:4]", {"a", "b"}), StoredWeight{parts});
  EXPECT_EQ(joined_name(std::vector<WeightPart>{{"a", {{0, 2}}}, {"", {{0, 2}}}}), "");
}

TEST(WeightNamesTest, NamesOfTheModuleComeFirst) {
  EXPECT_EQ(layout_of("layer.T", {"layer", "layer.T"}), whole("layer.T"));
  EXPECT_EQ(layout_of("dict.a[0]", {"dict.a[0]"}), whole("dict.a[0]"));
  EXPECT_EQ(layout_of("dict.a[0][2:4]", {"dict.a[0]"}),
            (StoredWeight{.parts = {{"dict.a[0]", {{2, 4}}}}}));
}

TEST(WeightNamesTest, OtherNamesAreThoseOfWholeWeights) {
  for (const std::string name :
       {"x", "b.T", "a[", "a[]", "a[0:]", "a[-1]", "a[0:2", "a[0:2,3:4][0]", "a[0:2]+b[0:2]",
        "a+a[0:2]", "a[0]+a[1]", "a[0:2,2:4].T", "", ".T"})
    EXPECT_EQ(layout_of(name, {"a"}), whole(name)) << name;
}

}  // namespace
}  // namespace onnx_native
