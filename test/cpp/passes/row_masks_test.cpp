#include <cmath>

#include "passes/pass_test.h"

namespace onnx_native::passes {
namespace {

class RowMasksTest : public PassTest {
 protected:
  Value* zeroed(Value* mask, double floor = -INFINITY) {
    const Shape shape{2, 3, 5}, rows{2, 3, 1};
    Value* open = op("Greater", {mask, number(floor)}, shape, {}, DType::boolean);
    Value* numbers = op("Where", {open, number(1), number(0)}, shape);
    Value* count = op("ReduceSum", {numbers, ints({-1})}, rows);
    Value* any = op("Cast", {count}, rows, {{"to", 9}}, DType::boolean);
    return op("Where", {any, input("x", {2, 3, 4}), number(0)}, {2, 3, 4});
  }
  Value* closed(double masked) {
    Value* open = input("open", {2, 3, 5}, DType::boolean);
    return op("Where", {open, number(0), number(masked)}, {2, 3, 5});
  }
  // Returns what is left of the rows of this mask.
  std::string after_zeroed(Value* rows) {
    result(op("Relu", {rows}, {2, 3, 4}), "y");
    return after(drop_row_masks);
  }
  std::string after_attention(Value* mask, double factor) {
    model_.opset = 23;
    Value* x = input("x", {2, 3, 5, 4});
    Value* moved = op("Mul", {mask, number(factor)}, {2, 3, 5});
    result(op("Attention", {x, x, x, moved}, {2, 3, 5, 4}), "y");
    return after(drop_row_masks);
  }
};

constexpr double kMoved = 1 - 0x1p-24;
constexpr double kLowestFloat = -0x1.fffffep127;

TEST_F(RowMasksTest, RowsOfAFiniteMaskAreNotZeroed) {
  EXPECT_EQ(after_zeroed(zeroed(closed(-100))), "y = Relu (x)\n");
}

TEST_F(RowMasksTest, ABoundOfASum) {
  Value* sum = op("Add", {closed(-100), weight("bias", {3, 5})}, {2, 3, 5});
  EXPECT_EQ(after_zeroed(zeroed(sum)), "y = Relu (x)\n");
}

TEST_F(RowMasksTest, RowsOfInfinityAreZeroed) {
  after_zeroed(zeroed(closed(-INFINITY)));
  EXPECT_FALSE(changed_);
}

TEST_F(RowMasksTest, RowsOfAnUnknownMaskAreZeroed) {
  after_zeroed(zeroed(input("mask", {2, 3, 5})));
  EXPECT_FALSE(changed_);
}

TEST_F(RowMasksTest, ASumThatOverflowsMayBeInfinite) {
  after_zeroed(zeroed(op("Add", {closed(kLowestFloat), closed(kLowestFloat)}, {2, 3, 5})));
  EXPECT_FALSE(changed_);
}

TEST_F(RowMasksTest, AnotherThresholdStays) {
  after_zeroed(zeroed(closed(-100), -50));
  EXPECT_FALSE(changed_);
}

TEST_F(RowMasksTest, AMaskOfAttentionAboveTheLowestNumberIsNotMoved) {
  EXPECT_EQ(after_attention(closed(-100), kMoved),
            "_0 = Where (open, _1, _2)\ny = Attention (x, x, x, _0)\n");
}

TEST_F(RowMasksTest, TheLowestNumberIsMoved) {
  after_attention(closed(kLowestFloat), kMoved);
  EXPECT_FALSE(changed_);
}

TEST_F(RowMasksTest, AnotherFactorStays) {
  after_attention(closed(-100), 0.5);
  EXPECT_FALSE(changed_);
}

}  // namespace
}  // namespace onnx_native::passes
