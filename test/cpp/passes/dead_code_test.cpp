#include "onnx/typing.h"
#include "passes/pass_test.h"

namespace onnx_native::passes {
namespace {

TEST_F(PassTest, DeadCodeGoesWithItsInitializers) {
  Value* x = input("x", {batch_, 4});
  input("unused", {4});
  Value* dead = op("Add", {x, weight("dead.weight", {4})}, {batch_, 4});
  op("Relu", {dead}, {batch_, 4});
  result(op("Add", {x, weight("weight", {4})}, {batch_, 4}), "y");
  EXPECT_EQ(after(eliminate_dead_code), "y = Add (x, weight)\n");
  EXPECT_TRUE(changed_);
  EXPECT_EQ(graph_.inputs.size(), 2u);
  ASSERT_EQ(graph_.initializers.size(), 1u);
  EXPECT_EQ(graph_.initializers[0]->name, "weight");
}

TEST_F(PassTest, DeadCodeInSubGraphsReleasesOuterValues) {
  Value* x = input("x", {4});
  Value* c = input("c", {}, DType::boolean);
  Value* only_dead = op("Exp", {x}, {4});
  const auto branch = [&](std::string_view op_type) {
    auto body = std::make_shared<onnx::Graph>(&graph_);
    op("Neg", {only_dead}, {4}, {}, DType::f32, body.get());
    body->outputs = {op(op_type, {x}, {4}, {}, DType::f32, body.get())};
    return body;
  };
  result(op("If", {c}, {4}, {{"then_branch", branch("Relu")}, {"else_branch", branch("Abs")}}),
         "y");
  after(eliminate_dead_code);
  EXPECT_EQ(graph_.nodes.size(), 1u);
}

TEST_F(PassTest, DeadCodeKeepsWhatIsUsed) {
  Value* x = input("x", {4});
  onnx::Node* split = graph_.add_node("Split", {x}, 2, {{"num_outputs", 2}});
  for (Value* output : split->outputs) {
    onnx::Typing::set(*output, DType::f32, Shape{2});
  }
  result(op("Relu", {split->outputs[1]}, {2}), "y");
  EXPECT_EQ(after(eliminate_dead_code),
            "_0, _1 = Split <num_outputs: int = 2> (x)\ny = Relu (_1)\n");
  EXPECT_FALSE(changed_);
}

}  // namespace
}  // namespace onnx_native::passes
