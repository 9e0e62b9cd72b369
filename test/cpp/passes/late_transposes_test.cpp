#include "passes/pass_test.h"

namespace onnx_native::passes {
namespace {

class LateTransposesTest : public PassTest {
 protected:
  Value* turned(Value* x, const Ints& order, DType dtype) {
    Shape shape;
    for (const int64_t axis : order) shape.push_back(x->dim(axis));
    return op("Transpose", {x}, shape, {{"perm", order}}, dtype);
  }
  Value* half_weight(const Ints& shape) {
    size_t count = 1;
    for (const int64_t size : shape) count *= static_cast<size_t>(size);
    return graph_.add_initializer("w", make_tensor(DType::f16, shape, std::vector(count, 0.5)));
  }
  // x of (batch, seq, 3), its axes in this order, times a weight.
  std::string product(const Ints& order, const Ints& weight_shape, DType dtype = DType::f16) {
    Value* x = input("x", {batch_, seq_, 3}, dtype);
    Value* w = dtype == DType::f16 ? half_weight(weight_shape) : weight("w", weight_shape);
    Shape shape(static_cast<size_t>(std::max<size_t>(3, weight_shape.size())), Dim(3));
    Value* t = turned(x, order, dtype);
    for (int64_t i = 1; i <= 2; ++i) shape[shape.size() - 1 - i] = t->dim(2 - i);
    shape.back() = weight_shape.back();
    result(op("MatMul", {t, w}, shape, {}, dtype), "y");
    return after(move_transposes_late);
  }
};

TEST_F(LateTransposesTest, AHalfProductOfSequencesFirst) {
  EXPECT_EQ(product({1, 0, 2}, {3, 4}),
            "_0 = MatMul (x, w)\ny = Transpose <perm: ints = [1, 0, 2]> (_0)\n");
}

TEST_F(LateTransposesTest, ConstantsOfAnotherRankGetAxes) {
  EXPECT_EQ(
      product({1, 0, 2}, {2, 1, 3, 4}),
      "_0 = Transpose <perm: ints = [1, 0, 2]> (x)\n_1 = Unsqueeze (_0, _2)\ny = MatMul (_1, w)\n");
}

TEST_F(LateTransposesTest, ATransposeMayBeMergedWithOneAbove) {
  Value* first = turned(input("x", {batch_, 2, 3}), {0, 2, 1}, DType::f32);
  Value* half = op("Cast", {op("Relu", {first}, {batch_, 3, 2})}, {batch_, 3, 2},
                   {{"to", int64_t{10}}}, DType::f16);
  Value* last = turned(half, {2, 0, 1}, DType::f16);  // together {1, 0, 2}
  result(op("MatMul", {last, half_weight({3, 4})}, {2, batch_, 4}, {}, DType::f16), "y");
  const std::string text = after(move_transposes_late);
  EXPECT_NE(text.find("_4 = Unsqueeze (w, _5)"), std::string::npos) << text;
}

TEST_F(LateTransposesTest, ATransposeThatUndoesOneAboveStays) {
  Value* first = turned(input("x", {batch_, 2, 3}), {2, 0, 1}, DType::f32);
  Value* half = op("Cast", {op("Relu", {first}, {3, batch_, 2})}, {3, batch_, 2},
                   {{"to", int64_t{10}}}, DType::f16);
  Value* last = turned(half, {1, 0, 2}, DType::f16);  // together {0, 2, 1}
  result(op("MatMul", {last, half_weight({2, 4})}, {batch_, 3, 4}, {}, DType::f16), "y");
  const std::string text = after(move_transposes_late);
  EXPECT_NE(text.find("Unsqueeze (w"), std::string::npos) << text;  // it may not be merged
}

TEST_F(LateTransposesTest, OtherOrdersStay) {
  product({0, 1, 2}, {3, 4});
  EXPECT_FALSE(changed_);
}

TEST_F(LateTransposesTest, ConstantsOfEqualRankStay) {
  product({1, 0, 2}, {1, 3, 4});
  EXPECT_FALSE(changed_);
}

TEST_F(LateTransposesTest, Float32Stays) {  // ONNX Runtime casts nothing
  product({1, 0, 2}, {3, 4}, DType::f32);
  EXPECT_FALSE(changed_);
}

TEST_F(LateTransposesTest, ACastGoesFirst) {
  Value* t = turned(input("x", {batch_, seq_, 3}, DType::f16), {1, 0, 2}, DType::f16);
  Value* c = op("Cast", {t}, {seq_, batch_, 3}, {{"to", int64_t{1}}});
  result(op("MatMul", {c, weight("w", {3, 4})}, {seq_, batch_, 4}), "y");
  EXPECT_EQ(after(move_transposes_late),
            "_0 = Cast <to: int = 1> (x)\n_1 = Transpose <perm: ints = [1, 0, 2]> (_0)\ny = MatMul "
            "(_1, w)\n");
}

TEST_F(LateTransposesTest, ACastThatNoProductTakesStays) {
  Value* t = turned(input("x", {batch_, seq_, 3}, DType::f16), {1, 0, 2}, DType::f16);
  result(op("Cast", {t}, {seq_, batch_, 3}, {{"to", int64_t{1}}}), "y");
  after(move_transposes_late);
  EXPECT_FALSE(changed_);
}

}  // namespace
}  // namespace onnx_native::passes
