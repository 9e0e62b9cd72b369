#include "passes/precision.h"

#include <limits>

#include "base/weight.h"
#include "passes/pass_test.h"

namespace onnx_native::passes {
namespace {

constexpr double kLowest = std::numeric_limits<float>::lowest();

int64_t to_float16(onnx::Model& model) {
  return lower_precision(model, {.precision = Precision::float16}).half_nodes;
}
int64_t to_float16_throughout(onnx::Model& model) {
  return lower_precision(model, {.precision = Precision::float16, .keep_io_types = false})
      .half_nodes;
}

class PrecisionTest : public PassTest {
 protected:
  Value* x() { return input("x", {batch_, 40}); }
  // A product with a weight of 1600 elements.
  Value* linear(Value* value, std::string_view name = "w") {
    return op("MatMul", {value, weight(name, {40, 40})}, {batch_, 40});
  }
  Value* softmax(Value* value) { return op("Softmax", {value}, {batch_, 40}); }
  Value* add(Value* a, Value* b) { return op("Add", {a, b}, {batch_, 40}); }
};

TEST_F(PrecisionTest, InputsAndOutputsStayFloat32) {
  result(op("Relu", {linear(x())}, {batch_, 40}), "y");
  EXPECT_EQ(after(to_float16),
            "_0 = Cast <to: int = 10> (x)\n"
            "_1 = MatMul (_0, w)\n"
            "_2 = Relu (_1)\n"
            "y = Cast <to: int = 1> (_2)\n");
  EXPECT_EQ(initializer("w").dtype, DType::f16);
  EXPECT_TRUE(is_on_demand(initializer("w")));
}

TEST_F(PrecisionTest, InputsAndOutputsMayBeHalf) {
  result(op("Relu", {linear(x())}, {batch_, 40}), "y");
  EXPECT_EQ(after(to_float16_throughout), "_0 = MatMul (x, w)\ny = Relu (_0)\n");
  EXPECT_EQ(graph_.inputs[0]->dtype, DType::f16);
  EXPECT_EQ(graph_.outputs[0]->dtype, DType::f16);
}

TEST_F(PrecisionTest, OneCastForAllReaders) {
  Value* normal = softmax(x());
  Value* first = linear(normal);
  result(add(first, linear(normal, "v")), "y");
  EXPECT_EQ(after(to_float16),
            "_0 = Softmax (x)\n"
            "_1 = Cast <to: int = 10> (_0)\n"
            "_2 = MatMul (_1, w)\n"
            "_3 = MatMul (_1, v)\n"
            "_4 = Add (_2, _3)\n"
            "y = Cast <to: int = 1> (_4)\n");
}

TEST_F(PrecisionTest, WhatOnlyFloat32ReadsIsFloat32) {
  Value* scores = op("Mul", {linear(x()), number(0.125)}, {batch_, 40});
  result(linear(softmax(scores), "v"), "y");
  EXPECT_EQ(after(to_float16),
            "_0 = Cast <to: int = 10> (x)\n"
            "_1 = MatMul (_0, w)\n"
            "_2 = Cast <to: int = 1> (_1)\n"
            "_3 = Mul (_2, _4)\n"
            "_5 = Softmax (_3)\n"
            "_6 = Cast <to: int = 10> (_5)\n"
            "_7 = MatMul (_6, v)\n"
            "y = Cast <to: int = 1> (_7)\n");
}

TEST_F(PrecisionTest, AMaskOutsideOfTheRangeStaysUpToTheSoftmax) {
  Value* mask = op("Where", {input("m", {40}, DType::boolean), number(0), number(kLowest)}, {40});
  Value* masked = add(linear(x()), mask);
  result(op("Relu", {masked}, {batch_, 40}), "other");  // more than the softmax reads it
  result(linear(softmax(masked), "v"), "y");
  after(to_float16);
  EXPECT_EQ(mask->producer->inputs[2]->constant->number(0), kLowest);
  for (const Value* value : {mask, masked}) EXPECT_EQ(value->dtype, DType::f32);
  EXPECT_EQ(graph_.outputs[0]->producer->op_type, "Relu");
  EXPECT_EQ(graph_.outputs[1]->producer->op_type, "Cast");
}

TEST_F(PrecisionTest, ATinyNumberStays) {
  Value* guarded = op("Max", {linear(x()), number(1e-12)}, {batch_, 40});
  Value* quotient = op("Div", {linear(guarded, "u"), guarded}, {batch_, 40});
  result(linear(quotient, "v"), "y");
  after(to_float16);
  EXPECT_EQ(guarded->dtype, DType::f32);
  EXPECT_EQ(initializer("v").dtype, DType::f16);
}

TEST_F(PrecisionTest, AWeightOutsideOfTheRangeStays) {
  std::vector<double> elements(1600, 1e5);
  Value* large = graph_.add_initializer("large", make_tensor(DType::f32, {40, 40}, elements));
  result(linear(op("MatMul", {x(), large}, {batch_, 40})), "y");
  after(to_float16);
  EXPECT_EQ(initializer("large").dtype, DType::f32);
  EXPECT_EQ(initializer("w").dtype, DType::f16);
}

TEST_F(PrecisionTest, SquaresAndTheirMeanAreFloat32) {
  Value* h = linear(x());
  Value* squares = op("Mul", {h, h}, {batch_, 40});
  Value* mean = op("ReduceMean", {squares, ints({1})}, {batch_, 1});
  Value* root = op("Sqrt", {op("Add", {mean, number(1e-6)}, {batch_, 1})}, {batch_, 1});
  Value* normal = op("Div", {h, root}, {batch_, 40});
  result(linear(normal, "v"), "y");
  after(to_float16);
  for (const Value* value : {squares, mean, root, normal}) EXPECT_EQ(value->dtype, DType::f32);
  EXPECT_EQ(h->dtype, DType::f16);
}

TEST_F(PrecisionTest, AnglesOfPositionsAreFloat32) {
  Value* positions = op("Cast", {input("p", {batch_, 1}, DType::i64)}, {batch_, 1},
                        {{"to", static_cast<int64_t>(DType::f32)}});
  Value* angles = op("MatMul", {positions, weight("f", {1, 40})}, {batch_, 40});
  Value* sines = op("Sin", {angles}, {batch_, 40});
  result(op("Mul", {linear(x()), sines}, {batch_, 40}), "y");
  after(to_float16);
  EXPECT_EQ(angles->dtype, DType::f32);
  EXPECT_EQ(sines->dtype, DType::f32);
  EXPECT_EQ(graph_.outputs[0]->producer->inputs[0]->dtype, DType::f16);
}

TEST_F(PrecisionTest, AConversionFromBooleansGoesToHalfAtOnce) {
  Value* mask = op("Cast", {input("m", {40}, DType::boolean)}, {40},
                   {{"to", static_cast<int64_t>(DType::f32)}});
  result(op("Mul", {linear(x()), mask}, {batch_, 40}), "y");
  EXPECT_EQ(after(to_float16),
            "_0 = Cast <to: int = 10> (x)\n"
            "_1 = Cast <to: int = 10> (m)\n"
            "_2 = MatMul (_0, w)\n"
            "_3 = Mul (_2, _1)\n"
            "y = Cast <to: int = 1> (_3)\n");
}

TEST_F(PrecisionTest, ATableWithBothUsesIsStoredOnce) {
  Value* table = weight("t", {40, 40});
  Value* product = op("MatMul", {x(), table}, {batch_, 40});
  Value* sums = op("ReduceSum", {table, ints({0})}, {1, 40});
  result(op("Add", {op("Exp", {product}, {batch_, 40}), sums}, {batch_, 40}), "y");
  after(to_float16);
  EXPECT_EQ(initializer("t").dtype, DType::f16);
  EXPECT_EQ(sums->producer->inputs[0]->producer->op_type, "Cast");
}

TEST_F(PrecisionTest, SizesOfAResizeStayFloat32) {
  model_.opset = 19;
  Value* image = input("i", {1, 3, 8, 8});
  Value* scales =
      graph_.add_initializer("s", make_tensor(DType::f32, {4}, std::vector<double>{1, 1, 2, 2}));
  result(op("Resize", {image, nullptr, scales}, {1, 3, 16, 16}), "y");
  EXPECT_EQ(after(to_float16_throughout), "y = Resize (i, \"\", s)\n");
  EXPECT_EQ(initializer("s").dtype, DType::f32);
}

TEST_F(PrecisionTest, QuantizedActivationsStay) {
  model_.opset = 21;
  Value* scale = number(0.1);
  const auto round_trip = [&](Value* value) {
    Value* quantized =
        op("QuantizeLinear", {value, scale, ints({0}, DType::u8)}, {batch_, 40}, {}, DType::u8);
    return op("DequantizeLinear", {quantized, scale, ints({0}, DType::u8)}, {batch_, 40});
  };
  Value* bytes =
      graph_.add_initializer("w", make_tensor(DType::i8, {40, 40}, std::vector<int64_t>(1600, 3)));
  Value* integers = op("DequantizeLinear", {bytes, number(0.01)}, {40, 40});
  Value* product = op("MatMul", {round_trip(x()), integers}, {batch_, 40});
  Value* back = round_trip(op("Relu", {product}, {batch_, 40}));
  result(linear(back, "v"), "y");
  after(to_float16);
  for (const Value* value : {product, integers, back}) EXPECT_EQ(value->dtype, DType::f32);
}

TEST_F(PrecisionTest, AQuantizedWeightIsDequantizedToHalf) {
  model_.opset = 21;
  Value* bytes =
      graph_.add_initializer("w", make_tensor(DType::i8, {40, 40}, std::vector<int64_t>(1600, 3)));
  Value* matrix = op("DequantizeLinear", {bytes, number(0.01)}, {40, 40});
  result(op("MatMul", {x(), matrix}, {batch_, 40}), "y");
  EXPECT_EQ(after(to_float16),
            "_0 = Cast <to: int = 10> (x)\n"
            "_1 = DequantizeLinear (w, _2)\n"
            "_3 = MatMul (_0, _1)\n"
            "y = Cast <to: int = 1> (_3)\n");
}

TEST_F(PrecisionTest, ScalesWithFewDigitsInHalfStay) {
  model_.opset = 21;
  Value* bytes =
      graph_.add_initializer("w", make_tensor(DType::i8, {40, 40}, std::vector<int64_t>(1600, 3)));
  Value* matrix = op("DequantizeLinear", {bytes, number(2e-5)}, {40, 40});
  result(op("MatMul", {x(), matrix}, {batch_, 40}), "y");
  after(to_float16);
  EXPECT_EQ(matrix->dtype, DType::f32);
  EXPECT_EQ(graph_.outputs[0]->producer->inputs[0]->dtype, DType::f16);
}

TEST_F(PrecisionTest, BranchesAndLoopsPassOnFloat32) {
  const auto branch = [this](std::string_view op_type, Value* value) {
    auto body = std::make_shared<onnx::Graph>(&graph_);
    body->outputs.push_back(op(op_type, {value}, {batch_, 40}, {}, DType::f32, body.get()));
    return body;
  };
  Value* h = linear(x());
  Value* chosen = op("If", {input("c", {}, DType::boolean)}, {batch_, 40},
                     {{"then_branch", branch("Relu", h)}, {"else_branch", branch("Exp", h)}});
  result(op("Neg", {chosen}, {batch_, 40}), "y");
  after(to_float16);
  EXPECT_EQ(chosen->dtype, DType::f32);
  EXPECT_EQ(graph_.outputs[0]->producer->op_type, "Neg");  // an exponential may be too large
}

TEST_F(PrecisionTest, ConvolutionsInBfloat16NeedTheirOpset) {
  const auto convolved = [this](int64_t opset) {
    model_.opset = opset;
    Value* image = input("i", {1, 3, 8, 8});
    Value* conv = op("Conv", {image, weight("k", {4, 3, 1, 1})}, {1, 4, 8, 8});
    result(conv, "y");
    lower_precision(model_, {.precision = Precision::bfloat16});
    return conv->dtype;
  };
  EXPECT_EQ(convolved(21), DType::f32);
}

TEST_F(PrecisionTest, TheProgramsPrecisionChangesNothing) {
  result(linear(x()), "y");
  const PrecisionCounts counts = lower_precision(model_, {});
  EXPECT_EQ(counts.half_nodes, 0);
  EXPECT_EQ(nodes(), "y = MatMul (x, w)\n");
}

TEST_F(PrecisionTest, OldOpsetsHaveNoBfloat16) {
  model_.final_opset = 12;
  result(linear(x()), "y");
  EXPECT_THROW(lower_precision(model_, {.precision = Precision::bfloat16}), ExportError);
}

TEST_F(PrecisionTest, LoopsCarryFloat32) {
  auto body = std::make_shared<onnx::Graph>(&graph_);
  body->add_input("", DType::i64, Shape{});
  Value* condition = body->add_input("", DType::boolean, Shape{});
  Value* sum = body->add_input("", DType::f32, Shape{batch_, 40});
  Value* product =
      op("MatMul", {sum, weight("v", {40, 40})}, {batch_, 40}, {}, DType::f32, body.get());
  Value* next = op("Add", {product, sum}, {batch_, 40}, {}, DType::f32, body.get());
  Value* go = op("Identity", {condition}, {}, {}, DType::boolean, body.get());
  body->outputs = {go, next};
  Value* count = graph_.add_initializer("", make_tensor(DType::i64, {}, std::vector<int64_t>{3}));
  Value* sums = op("Loop", {count, nullptr, linear(x())}, {batch_, 40}, {{"body", body}});
  result(linear(sums, "u"), "y");
  after(to_float16);
  EXPECT_EQ(sums->dtype, DType::f32);
  EXPECT_EQ(product->dtype, DType::f16);
  EXPECT_EQ(next->dtype, DType::f32);
}

TEST_F(PrecisionTest, CountsNodes) {
  result(softmax(linear(x())), "y");
  const PrecisionCounts counts = lower_precision(model_, {.precision = Precision::float16});
  EXPECT_EQ(counts.half_nodes, 1);
  EXPECT_EQ(counts.float32_nodes, (std::map<std::string, int64_t>{{"Softmax", 1}}));
}

}  // namespace
}  // namespace onnx_native::passes
