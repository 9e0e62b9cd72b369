#include <memory>
#include <utility>

#include "passes/pass_test.h"

namespace onnx_native::passes {
namespace {

class LoopsTest : public PassTest {
 protected:
  // Adds a node to the body.
  Value* in(std::string_view op_type, Values inputs, Shape shape = {2, 3},
            std::vector<onnx::Attribute> attributes = {}) {
    return op(op_type, std::move(inputs), std::move(shape), std::move(attributes), DType::f32,
              body_.get());
  }
  // Adds a Scan over x whose body computes the next state and a result.
  void scan(Value* next, Value* row) {
    body_->outputs = {next, row};
    onnx::Node* node = graph_.add_node("Scan", {start_, x_}, 2,
                                       {{"body", body_}, {"num_scan_inputs", int64_t{1}}});
    onnx::Typing::set(*node->outputs[0], DType::f32, Shape{2, 3});
    onnx::Typing::set(*node->outputs[1], DType::f32, Shape{Dim::symbol("n"), 2, 3});
    result(node->outputs[1], "y");
  }
  std::string operators() const {
    std::string text;
    for (const onnx::Node* each : body_->nodes) text += each->op_type + " ";
    return text;
  }

  Value* x_ = input("x", {Dim::symbol("n"), 2, 4});
  Value* start_ = input("start", {2, 3});
  Value* weight_ = input("weight", {4, 3});
  Value* bias_ = input("bias", {3});
  std::shared_ptr<onnx::Graph> body_ = std::make_shared<onnx::Graph>(&graph_);
  Value* state_ = body_->add_input("", DType::f32, Shape{2, 3});
  Value* slice_ = body_->add_input("", DType::f32, Shape{2, 4});
};

TEST_F(LoopsTest, ProductsOfSlicesAreOneProduct) {
  Value* projected = in("Add", {in("MatMul", {slice_, weight_}), bias_});
  Value* next = in("Tanh", {in("Add", {projected, state_})});
  scan(next, next);
  const std::string text = after(hoist_from_loops);
  EXPECT_TRUE(text.starts_with("_0 = MatMul (x, weight)\n_1 = Add (_0, bias)\n")) << text;
  EXPECT_EQ(operators(), "Add Tanh ");
}

TEST_F(LoopsTest, GemmOfASliceIsAProduct) {
  Value* transposed = input("transposed", {3, 4});
  Value* gemm = in("Gemm", {slice_, transposed, bias_}, {2, 3}, {{"transB", int64_t{1}}});
  Value* next = in("Add", {gemm, state_});
  scan(next, next);
  const std::string text = after(hoist_from_loops);
  EXPECT_TRUE(
      text.starts_with("_0 = Transpose <perm: ints = [1, 0]> (transposed)\n"
                       "_1 = MatMul (x, _0)\n_2 = Add (_1, bias)\n"))
      << text;
  EXPECT_EQ(operators(), "Add ");
  EXPECT_NE(text.find("num_scan_inputs: int = 1"), std::string::npos) << text;
}

TEST_F(LoopsTest, WhatDoesNotChangeComesBefore) {
  Value* same = in("Exp", {in("Neg", {bias_}, {3})}, {3});
  Value* next = in("Mul", {in("Relu", {state_}), same});
  scan(next, next);
  const std::string text = after(hoist_from_loops);
  EXPECT_TRUE(text.starts_with("_0 = Neg (bias)\n_1 = Exp (_0)\n")) << text;
  EXPECT_EQ(operators(), "Relu Mul ");
}

TEST_F(LoopsTest, AResultThatDoesNotChangeIsCopied) {
  scan(in("Relu", {state_}), in("Neg", {start_}));
  after(hoist_from_loops);
  EXPECT_EQ(operators(), "Relu Identity ");
}

TEST_F(LoopsTest, ProductsWithStatesStay) {
  Value* square = input("square", {3, 3});
  Value* next = in("MatMul", {state_, square});
  scan(next, in("RandomNormalLike", {bias_}));
  after(hoist_from_loops);
  EXPECT_EQ(operators(), "MatMul RandomNormalLike ");
}

TEST_F(LoopsTest, ABiasOfAHigherRankStays) {
  Value* high = input("high", {1, 2, 3});
  Value* product = in("MatMul", {slice_, weight_});
  Value* next = in("Squeeze", {in("Add", {product, high}, {1, 2, 3})});
  scan(next, in("Add", {next, state_}));
  after(hoist_from_loops);
  EXPECT_EQ(operators(), "Add Squeeze Add ");
}

}  // namespace
}  // namespace onnx_native::passes
