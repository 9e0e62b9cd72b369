#include "passes/pass_test.h"

namespace onnx_native::passes {
namespace {

class MeanOfSquaresTest : public PassTest {
 protected:
  Value* mean(Value* value) {
    return op("ReduceMean", {value, ints({-1})}, {batch_, 1}, {}, value->dtype);
  }
  Value* product(Value* a, Value* b) { return op("Mul", {a, b}, {batch_, 4}, {}, a->dtype); }
};

TEST_F(MeanOfSquaresTest, AProductWithItselfIsASquare) {
  Value* x = input("x", {batch_, 4});
  result(mean(product(x, x)), "y");
  EXPECT_EQ(after(spell_means_of_squares), "_0 = Pow (x, _1)\ny = ReduceMean (_0, _2)\n");
}

TEST_F(MeanOfSquaresTest, AProductOfTwoValuesStays) {
  result(mean(product(input("x", {batch_, 4}), input("z", {batch_, 4}))), "y");
  after(spell_means_of_squares);
  EXPECT_FALSE(changed_);
}

TEST_F(MeanOfSquaresTest, ASquareWithAnotherUseStays) {
  Value* x = input("x", {batch_, 4});
  Value* square = product(x, x);
  result(mean(square), "y");
  result(square, "z");
  after(spell_means_of_squares);
  EXPECT_FALSE(changed_);
}

TEST_F(MeanOfSquaresTest, HalfPrecisionStays) {  // ONNX Runtime has no Pow for it
  Value* x = input("x", {batch_, 4}, DType::f16);
  result(mean(product(x, x)), "y");
  after(spell_means_of_squares);
  EXPECT_FALSE(changed_);
}

}  // namespace
}  // namespace onnx_native::passes
