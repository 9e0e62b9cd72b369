#include "base/weight.h"
#include "passes/pass_test.h"

namespace onnx_native::passes {
namespace {

class WeightExpressionsTest : public PassTest {
 protected:
  // A weight of 1200 elements: 0, 1, 2 ...
  Value* large(DType dtype = DType::f32) {
    std::vector<double> elements(1200);
    for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<double>(i);
    return graph_.add_initializer("w", make_tensor(dtype, {30, 40}, elements));
  }
  // The weight minus the mean of each row.
  Value* centered(Value* w) {
    Value* mean = op("ReduceMean", {w, ints({1})}, {30, 1}, {}, w->dtype);
    return op("Sub", {w, mean}, {30, 40}, {}, w->dtype);
  }
  Value* multiplied(Value* w) {
    return op("MatMul", {input("x", {batch_, 30}, w->dtype), w}, {batch_, 40}, {}, w->dtype);
  }
};

TEST_F(WeightExpressionsTest, AStandardizedWeightIsOneConstant) {
  Value* w = centered(large());
  result(multiplied(op("Mul", {w, number(2)}, {30, 40})), "y");
  EXPECT_EQ(after(fold_weight_expressions), "y = MatMul (x, w)\n");
  const TensorData& data = *graph_.outputs[0]->producer->inputs[1]->constant;
  EXPECT_TRUE(is_on_demand(data));
  EXPECT_EQ(current(data).number(0), -39);
  EXPECT_EQ(current(data).number(1199), 39);
}

TEST_F(WeightExpressionsTest, AnotherShapeHasNoName) {
  Value* w = op("Reshape", {centered(large()), ints({40, 30})}, {40, 30});
  result(op("MatMul", {input("x", {batch_, 40}), w}, {batch_, 30}), "y");
  EXPECT_EQ(after(fold_weight_expressions), "y = MatMul (x, _0)\n");
}

TEST_F(WeightExpressionsTest, AWeightWithAnotherUseStays) {
  Value* w = large();
  result(multiplied(centered(w)), "y");
  result(op("Add", {input("z", {30, 40}), w}, {30, 40}), "sum");
  after(fold_weight_expressions);
  EXPECT_FALSE(changed_);
}

TEST_F(WeightExpressionsTest, AnExpressionWithMoreMemoryStays) {
  Value* wide = op(
      "Add",
      {op("Unsqueeze", {large(), ints({0})}, {1, 30, 40}),
       graph_.add_initializer("b", make_tensor(DType::f32, {2, 1, 1}, std::vector<double>{1, 2}))},
      {2, 30, 40});
  result(op("Add", {input("x", {2, 30, 40}), wide}, {2, 30, 40}), "y");
  after(fold_weight_expressions);
  EXPECT_FALSE(changed_);
}

TEST_F(WeightExpressionsTest, WhatOnlyMovesElementsStays) {
  Value* turned = op("Transpose", {large()}, {40, 30});
  result(op("MatMul", {input("x", {batch_, 40}), turned}, {batch_, 30}), "y");
  after(fold_weight_expressions);
  EXPECT_FALSE(changed_);
}

TEST_F(WeightExpressionsTest, SumsOfDoublesStay) {
  result(multiplied(centered(large(DType::f64))), "y");
  after(fold_weight_expressions);
  EXPECT_FALSE(changed_);
}

TEST_F(WeightExpressionsTest, ResultsStay) {
  result(centered(large()), "y");
  after(fold_weight_expressions);
  EXPECT_FALSE(changed_);
}

}  // namespace
}  // namespace onnx_native::passes
