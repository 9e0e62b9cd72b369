#include "passes/pass_test.h"

namespace onnx_native::passes {
namespace {

constexpr int64_t kEnd = INT64_MAX;

class SlicesTest : public PassTest {
 protected:
  Value* slice(Value* x, int64_t start, int64_t end, int64_t axis, Shape shape, int64_t step = 1) {
    return op("Slice", {x, ints({start}), ints({end}), ints({axis}), ints({step})},
              std::move(shape));
  }
  Value* relu(Value* value) { return op("Relu", {value}, *value->shape); }
};

TEST_F(SlicesTest, HalvesAreOneSplit) {
  Value* x = input("x", {batch_, 8});
  result(relu(slice(x, 4, kEnd, -1, {batch_, 4})), "y");
  result(relu(slice(x, 0, 4, 1, {batch_, 4})), "z");
  EXPECT_EQ(after(clean_slices),
            "_0, _1 = Split <axis: int = 1> (x, _2)\ny = Relu (_1)\nz = Relu (_0)\n");
  EXPECT_EQ(constant_input(graph_.nodes.front()->outputs[0], 1), (Ints{4, 4}));
}

TEST_F(SlicesTest, PiecesThatAreOutputsKeepTheirNames) {
  Value* x = input("x", {batch_, 8});
  result(slice(x, 0, 3, 1, {batch_, 3}), "y");
  result(slice(x, -5, kEnd, 1, {batch_, 5}), "z");
  EXPECT_EQ(after(clean_slices), "y, z = Split <axis: int = 1> (x, _0)\n");
}

TEST_F(SlicesTest, AGapBetweenPiecesStays) {
  Value* x = input("x", {batch_, 8});
  result(relu(slice(x, 0, 4, 1, {batch_, 4})), "y");
  result(relu(slice(x, 5, 8, 1, {batch_, 3})), "z");
  after(clean_slices);
  EXPECT_FALSE(changed_);
}

TEST_F(SlicesTest, PiecesThatOverlapStay) {
  Value* x = input("x", {batch_, 8});
  result(relu(slice(x, 0, 5, 1, {batch_, 5})), "y");
  result(relu(slice(x, 4, 8, 1, {batch_, 4})), "z");
  after(clean_slices);
  EXPECT_FALSE(changed_);
}

TEST_F(SlicesTest, PiecesOfAnUnknownSizeStay) {
  Value* x = input("x", {batch_, 8});
  result(relu(slice(x, 0, 1, 0, {1, 8})), "y");
  result(relu(slice(x, 1, kEnd, 0, {batch_ - Dim(1), 8})), "z");
  after(clean_slices);
  EXPECT_FALSE(changed_);
}

TEST_F(SlicesTest, EverySecondElementStays) {
  Value* x = input("x", {batch_, 8});
  result(relu(slice(x, 0, kEnd, 1, {batch_, 4}, 2)), "y");
  result(relu(slice(x, 1, kEnd, 1, {batch_, 4}, 2)), "z");
  after(clean_slices);
  EXPECT_FALSE(changed_);
}

TEST_F(SlicesTest, AlongTwoAxesIsOneSlice) {
  Value* x = input("x", {batch_, 8, 6});
  Value* rows = slice(x, 1, kEnd, 1, {batch_, 4, 6}, 2);
  result(slice(rows, 0, 2, -1, {batch_, 4, 2}), "y");
  EXPECT_EQ(after(clean_slices), "y = Slice (x, _0, _1, _2, _3)\n");
  EXPECT_EQ(constant_input(graph_.outputs[0], 1), (Ints{1, 0}));
  EXPECT_EQ(constant_input(graph_.outputs[0], 2), (Ints{kEnd, 2}));
  EXPECT_EQ(constant_input(graph_.outputs[0], 3), (Ints{1, 2}));
  EXPECT_EQ(constant_input(graph_.outputs[0], 4), (Ints{2, 1}));
}

TEST_F(SlicesTest, AlongOneAxisTwiceStays) {
  Value* x = input("x", {batch_, 8});
  Value* most = slice(x, 1, kEnd, 1, {batch_, 7});
  result(slice(most, 1, kEnd, 1, {batch_, 6}), "y");
  after(clean_slices);
  EXPECT_FALSE(changed_);
}

TEST_F(SlicesTest, APartOfAConcatIsItsOperand) {
  Value* x = input("x", {batch_, 3});
  Value* both = op("Concat", {x, input("w", {batch_, 2})}, {batch_, 5}, {{"axis", -1}});
  result(relu(slice(both, 0, 3, 1, {batch_, 3})), "y");
  EXPECT_EQ(after(clean_slices), "y = Relu (x)\n");
}

TEST_F(SlicesTest, APartOfTwoOperandsStays) {
  Value* both =
      op("Concat", {input("x", {batch_, 3}), input("w", {batch_, 2})}, {batch_, 5}, {{"axis", 1}});
  result(relu(slice(both, 0, 4, 1, {batch_, 4})), "y");
  after(clean_slices);
  EXPECT_FALSE(changed_);
}

}  // namespace
}  // namespace onnx_native::passes
