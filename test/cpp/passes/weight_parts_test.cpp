#include "passes/pass_test.h"

namespace onnx_native::passes {
namespace {

class WeightPartsTest : public PassTest {
 protected:
  Values split(Value* value, const Ints& sizes, Ints shape) {
    onnx::Node* node = graph_.add_node("Split", {value, ints(sizes)}, sizes.size(), {{"axis", 0}});
    for (size_t i = 0; i < sizes.size(); ++i) {
      shape[0] = sizes[i];
      onnx::Typing::set(*node->outputs[i], DType::f32, Shape(shape.begin(), shape.end()));
    }
    return node->outputs;
  }
  Value* packed() {
    std::vector<double> numbers(12);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i);
    return graph_.add_initializer("packed", make_tensor(DType::f32, {6, 2}, numbers));
  }
};

TEST_F(WeightPartsTest, ASplitWeightBecomesItsParts) {
  Value* x = input("x", {batch_, 4});
  const Values parts = split(packed(), {2, 4}, {6, 2});
  result(op("MatMul", {x, parts[1]}, {batch_, 2}), "y");
  result(op("Transpose", {parts[0]}, {2, 2}), "z");
  EXPECT_EQ(after(split_weights),
            "y = MatMul (x, \"packed[2:6]\")\nz = Transpose (\"packed[0:2]\")\n");
  ASSERT_EQ(graph_.initializers.size(), 2u);
  EXPECT_EQ(graph_.initializers[0]->constant->integers(), (Ints{0, 1, 2, 3}));
  EXPECT_EQ(graph_.initializers[1]->constant->integers(), (Ints{4, 5, 6, 7, 8, 9, 10, 11}));
}

TEST_F(WeightPartsTest, TheMatricesOfAStackBecomeWeights) {
  std::vector<double> numbers(12);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i);
  Value* stack = graph_.add_initializer("stack", make_tensor(DType::f32, {2, 3, 2}, numbers));
  const Values parts = split(stack, {1, 1}, {2, 3, 2});
  Value* x = input("x", {batch_, 3});
  result(op("MatMul", {x, op("Squeeze", {parts[0], ints({0})}, {3, 2})}, {batch_, 2}), "y");
  result(op("MatMul", {x, op("Squeeze", {parts[1], ints({0})}, {3, 2})}, {batch_, 2}), "z");
  EXPECT_EQ(after(split_weights), "y = MatMul (x, \"stack[0]\")\nz = MatMul (x, \"stack[1]\")\n");
  EXPECT_EQ(initializer("stack[1]").shape, (Ints{3, 2}));
  EXPECT_EQ(initializer("stack[1]").integers(), (Ints{6, 7, 8, 9, 10, 11}));
}

TEST_F(WeightPartsTest, AMatrixThatSomethingElseUsesKeepsTheStack) {
  Value* stack = graph_.add_initializer(
      "stack", make_tensor(DType::f32, {2, 1, 2}, std::vector<double>{1, 2, 3, 4}));
  const Values parts = split(stack, {1, 1}, {2, 1, 2});
  result(op("Neg", {op("Squeeze", {parts[0], ints({0})}, {1, 2})}, {1, 2}), "y");
  result(op("Squeeze", {parts[1], ints({0})}, {1, 2}), "z");
  after(split_weights);
  EXPECT_FALSE(changed_);
}

TEST_F(WeightPartsTest, AWeightWithAnotherUseStays) {
  Value* w = packed();
  const Values parts = split(w, {2, 4}, {6, 2});
  result(op("Transpose", {parts[0]}, {2, 2}), "y");
  result(op("Neg", {w}, {6, 2}), "z");
  after(split_weights);
  EXPECT_FALSE(changed_);
}

TEST_F(WeightPartsTest, PartsThatAreJoinedAgainStay) {
  const Values parts = split(packed(), {2, 4}, {6, 2});
  result(op("Concat", {parts[1], parts[0]}, {6, 2}, {{"axis", 0}}), "y");
  after(split_weights);
  EXPECT_FALSE(changed_);
}

TEST_F(WeightPartsTest, APartThatIsAnOutputStays) {
  const Values parts = split(packed(), {2, 4}, {6, 2});
  result(op("Transpose", {parts[0]}, {2, 2}), "y");
  result(parts[1], "z");
  after(split_weights);
  EXPECT_FALSE(changed_);
}

TEST_F(WeightPartsTest, TheModulesLayoutStaysIfAskedFor) {
  model_.weights = WeightLayout::module;
  result(op("Transpose", {split(packed(), {2, 4}, {6, 2})[0]}, {2, 2}), "y");
  after(split_weights);
  EXPECT_FALSE(changed_);
}

}  // namespace
}  // namespace onnx_native::passes
