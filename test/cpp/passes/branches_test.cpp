#include <memory>
#include <utility>

#include "passes/pass_test.h"

namespace onnx_native::passes {
namespace {

class BranchesTest : public PassTest {
 protected:
  using Body = std::shared_ptr<onnx::Graph>;

  Body body(onnx::Graph* outer = nullptr) {
    return std::make_shared<onnx::Graph>(outer ? outer : &graph_);
  }
  Value* in(const Body& graph, std::string_view op_type, Values inputs) {
    return op(op_type, std::move(inputs), {2}, {}, DType::f32, graph.get());
  }
  Values choice(const Body& yes, const Body& no, onnx::Graph* graph = nullptr) {
    onnx::Node* node = (graph ? *graph : graph_)
                           .add_node("If", {condition_}, yes->outputs.size(),
                                     {{"then_branch", yes}, {"else_branch", no}});
    for (Value* output : node->outputs) onnx::Typing::set(*output, DType::f32, Shape{2});
    return node->outputs;
  }
  // Returns the operators of a branch of the last If.
  std::string operators(std::string_view branch) const {
    const auto* body = graph_.nodes.back()->attribute(branch);
    std::string text;
    for (const onnx::Node* each : (*std::get_if<Body>(body))->nodes) text += each->op_type + " ";
    return text;
  }

  Value* x_ = input("x", {2});
  Value* condition_ = input("c", {}, DType::boolean);
};

TEST_F(BranchesTest, WhatBothComputeComesBefore) {
  const Body yes = body(), no = body();
  yes->outputs = {in(yes, "Neg", {in(yes, "Exp", {in(yes, "Relu", {x_})})})};
  no->outputs = {in(no, "Abs", {in(no, "Exp", {in(no, "Relu", {x_})})})};
  result(choice(yes, no)[0], "y");
  const std::string text = after(hoist_from_branches);
  EXPECT_TRUE(text.starts_with("_0 = Relu (x)\n_1 = Exp (_0)\n")) << text;
  EXPECT_EQ(operators("then_branch"), "Neg ");
  EXPECT_EQ(operators("else_branch"), "Abs ");
}

TEST_F(BranchesTest, SquaresComeBeforeOnce) {
  const Body yes = body(), no = body();
  for (const auto& [branch, last] : {std::pair(yes, "Neg"), std::pair(no, "Abs")}) {
    Value* exponential = in(branch, "Exp", {x_});
    Value* square = in(branch, "Mul", {exponential, exponential});
    branch->outputs = {in(branch, last, {in(branch, "Mul", {square, exponential})})};
  }
  result(choice(yes, no)[0], "y");
  const std::string text = after(hoist_from_branches);
  EXPECT_TRUE(text.starts_with("_0 = Exp (x)\n_1 = Mul (_0, _0)\n_2 = Mul (_1, _0)\n")) << text;
  EXPECT_EQ(operators("then_branch"), "Neg ");
  EXPECT_EQ(operators("else_branch"), "Abs ");
}

TEST_F(BranchesTest, EqualResultsAreNoneOfTheIf) {
  const Body yes = body(), no = body();
  yes->outputs = {in(yes, "Identity", {x_}), in(yes, "Neg", {x_}), in(yes, "Exp", {x_})};
  no->outputs = {in(no, "Identity", {x_}), in(no, "Abs", {x_}), in(no, "Exp", {x_})};
  const Values chosen = choice(yes, no);
  result(op("Relu", {chosen[0]}, {2}), "a");
  result(chosen[1], "b");
  result(op("Add", {chosen[1], chosen[2]}, {2}), "z");
  after(hoist_from_branches);
  EXPECT_EQ(graph_.outputs[0]->producer->inputs[0]->producer->op_type, "Identity");
  EXPECT_EQ(graph_.outputs[1]->producer->outputs.size(), 1u);
  EXPECT_EQ(graph_.outputs[1]->name, "b");
  EXPECT_EQ(graph_.outputs[2]->producer->inputs[1]->producer->op_type, "Exp");
}

TEST_F(BranchesTest, AResultOfTheModelStaysOneOfTheIf) {
  const Body yes = body(), no = body();
  yes->outputs = {in(yes, "Exp", {x_})};
  no->outputs = {in(no, "Exp", {x_})};
  result(choice(yes, no)[0], "y");
  after(hoist_from_branches);
  EXPECT_EQ(operators("then_branch"), "Identity ");
  EXPECT_EQ(operators("else_branch"), "Identity ");
}

TEST_F(BranchesTest, AnIfWithoutOtherResultsGoes) {
  const Body yes = body(), no = body();
  yes->outputs = {in(yes, "Exp", {x_})};
  no->outputs = {in(no, "Exp", {x_})};
  result(op("Relu", choice(yes, no), {2}), "y");
  EXPECT_EQ(after(hoist_from_branches), "_0 = Exp (x)\ny = Relu (_0)\n");
}

TEST_F(BranchesTest, InnerBranchesGiveToOuterOnes) {
  const Body yes = body(), no = body();
  const Body inner_yes = body(yes.get()), inner_no = body(yes.get());
  inner_yes->outputs = {in(inner_yes, "Neg", {in(inner_yes, "Exp", {x_})})};
  inner_no->outputs = {in(inner_no, "Abs", {in(inner_no, "Exp", {x_})})};
  yes->outputs = choice(inner_yes, inner_no, yes.get());
  no->outputs = {in(no, "Exp", {x_})};
  result(choice(yes, no)[0], "y");
  const std::string text = after(hoist_from_branches);
  EXPECT_TRUE(text.starts_with("_0 = Exp (x)\n")) << text;
  EXPECT_EQ(operators("then_branch"), "If ");
  EXPECT_EQ(operators("else_branch"), "Identity ");
}

TEST_F(BranchesTest, EqualNodesOfOneBranch) {
  const Body yes = body(), no = body();
  yes->outputs = {in(yes, "Add", {in(yes, "Exp", {x_}), in(yes, "Exp", {x_})})};
  no->outputs = {in(no, "Mul", {in(no, "Exp", {x_}), x_})};
  result(choice(yes, no)[0], "y");
  after(hoist_from_branches);
  EXPECT_EQ(operators("then_branch"), "Exp Add ");
  EXPECT_EQ(operators("else_branch"), "Mul ");
}

TEST_F(BranchesTest, DifferentNodesStay) {
  const Body yes = body(), no = body();
  Value* own = in(yes, "Neg", {x_});
  yes->outputs = {in(yes, "Exp", {own}), in(yes, "Bernoulli", {x_})};
  no->outputs = {in(no, "Exp", {in(no, "Abs", {x_})}), in(no, "Bernoulli", {x_})};
  const Values chosen = choice(yes, no);
  result(chosen[0], "y");
  result(chosen[1], "z");
  after(hoist_from_branches);
  EXPECT_FALSE(changed_);
}

}  // namespace
}  // namespace onnx_native::passes
