#include "base/weight.h"
#include "passes/pass_test.h"

namespace onnx_native::passes {
namespace {

class JoinedWeightsTest : public PassTest {
 protected:
  // A parameter with numbers from `first` on.
  Value* parameter(std::string_view name, const Ints& shape, double first) {
    std::vector<double> numbers;
    const int64_t count = shape[0] * (shape.size() > 1 ? shape[1] : 1);
    for (int64_t i = 0; i < count; ++i) numbers.push_back(first + static_cast<double>(i));
    return graph_.add_initializer(name, make_tensor(DType::f32, shape, numbers));
  }
  Values split(Value* value, size_t count) {
    onnx::Node* node =
        graph_.add_node("Split", {value, ints(Ints(count, 1))}, count, {{"axis", 0}});
    Shape part = *value->shape;
    part[0] = 1;
    for (Value* output : node->outputs) onnx::Typing::set(*output, DType::f32, part);
    return node->outputs;
  }
  // The rows 1, 0 and 2: the gates of a GRU with one hidden element.
  Value* ordered(Value* value) {
    const Values parts = split(value, 3);
    return op("Concat", {parts[1], parts[0], parts[2]}, *value->shape, {{"axis", 0}});
  }
  Value* unsqueezed(Value* value) {
    Shape shape = *value->shape;
    shape.insert(shape.begin(), 1);
    return op("Unsqueeze", {value, ints({0})}, shape);
  }
  Value* biases(Value* a, Value* b) {
    return unsqueezed(op("Concat", {ordered(a), ordered(b)}, {6}, {{"axis", 0}}));
  }
  Value* gru(Value* w, Value* r, Value* b, int64_t directions = 1) {
    Attributes attributes{{"hidden_size", int64_t{1}}};
    if (directions == 2) attributes.push_back({"direction", std::string("bidirectional")});
    return op("GRU", {input_, w, r, b}, {5, directions, batch_, 1}, attributes);
  }
  Ints stored(std::string_view name) {
    for (const Value* value : graph_.initializers) {
      if (value->name == name) return current(*value->constant).integers();
    }
    return {};
  }

  Value* input_ = input("x", {5, batch_, 2});
};

TEST_F(JoinedWeightsTest, GatesAreReorderedInTheInitializers) {
  Value* w = unsqueezed(ordered(parameter("w", {3, 2}, 0)));
  Value* r = unsqueezed(ordered(parameter("r", {3, 1}, 10)));
  result(gru(w, r, biases(parameter("p", {3}, 20), parameter("q", {3}, 30))), "y");
  EXPECT_EQ(after(join_weights),
            "y = GRU <hidden_size: int = 1> (x, \"w[1:2,0:1,2:3]\", \"r[1:2,0:1,2:3]\", "
            "\"p[1:2,0:1,2:3]+q[1:2,0:1,2:3]\")\n");
  EXPECT_EQ(stored("w[1:2,0:1,2:3]"), (Ints{2, 3, 0, 1, 4, 5}));
  EXPECT_EQ(stored("r[1:2,0:1,2:3]"), (Ints{11, 10, 12}));
  EXPECT_EQ(stored("p[1:2,0:1,2:3]+q[1:2,0:1,2:3]"), (Ints{21, 20, 22, 31, 30, 32}));
}

TEST_F(JoinedWeightsTest, TwoDirectionsAreJoined) {
  const auto both = [&](std::string_view a, std::string_view b, int64_t columns) {
    Value* first = unsqueezed(ordered(parameter(a, {3, columns}, 0)));
    Value* second = unsqueezed(ordered(parameter(b, {3, columns}, 10)));
    return op("Concat", {first, second}, {2, 3, columns}, {{"axis", 0}});
  };
  onnx::Node& node = *gru(both("w", "v", 2), both("r", "s", 1), nullptr, 2)->producer;
  result(node.outputs[0], "y");
  after(join_weights);
  EXPECT_EQ(node.inputs[1]->name, "w[1:2,0:1,2:3]+v[1:2,0:1,2:3]");
  EXPECT_EQ(stored(node.inputs[1]->name), (Ints{2, 3, 0, 1, 4, 5, 12, 13, 10, 11, 14, 15}));
  EXPECT_EQ(node.inputs[1]->constant->shape, (Ints{2, 3, 2}));
}

TEST_F(JoinedWeightsTest, AStridedWeightIsGathered) {
  TensorData columns = make_tensor(DType::f32, {2, 3}, std::vector<double>{0, 1, 2, 3, 4, 5});
  columns.shape = {3, 2};
  columns.strides = {1, 3};
  Value* w = unsqueezed(ordered(graph_.add_initializer("w", columns)));
  result(gru(w, parameter("r", {1, 3, 1}, 0), nullptr), "y");
  EXPECT_NE(after(join_weights), "");
  EXPECT_EQ(stored("w[1:2,0:1,2:3]"), (Ints{1, 4, 0, 3, 2, 5}));
}

TEST_F(JoinedWeightsTest, RowsThatFollowEachOtherAreOneRange) {
  const Values parts = split(parameter("w", {3, 2}, 0), 3);
  Value* w = op("Concat", {parts[2], parts[0], parts[1]}, {3, 2}, {{"axis", 0}});
  result(gru(unsqueezed(w), weight("r", {1, 3, 1}), nullptr), "y");
  EXPECT_EQ(after(join_weights), "y = GRU <hidden_size: int = 1> (x, \"w[2:3,0:2]\", r, \"\")\n");
}

TEST_F(JoinedWeightsTest, AWeightWithAnotherUseStays) {
  Value* parameter_ = parameter("w", {3, 2}, 0);
  result(gru(unsqueezed(ordered(parameter_)), weight("r", {1, 3, 1}), nullptr), "y");
  result(op("Neg", {parameter_}, {3, 2}), "z");
  after(join_weights);
  EXPECT_FALSE(changed_);
}

TEST_F(JoinedWeightsTest, AnOrderedWeightWithAnotherUseStays) {
  Value* w = unsqueezed(ordered(parameter("w", {3, 2}, 0)));
  result(gru(w, weight("r", {1, 3, 1}), nullptr), "y");
  result(w, "z");
  after(join_weights);
  EXPECT_FALSE(changed_);
}

TEST_F(JoinedWeightsTest, PartOfAWeightStays) {
  const Values parts = split(parameter("w", {4, 2}, 0), 4);
  Value* w = op("Concat", {parts[1], parts[0], parts[2]}, {3, 2}, {{"axis", 0}});
  result(gru(unsqueezed(w), weight("r", {1, 3, 1}), nullptr), "y");
  result(op("Neg", {parts[3]}, {1, 2}), "z");
  after(join_weights);
  EXPECT_FALSE(changed_);
}

TEST_F(JoinedWeightsTest, AComputedWeightStays) {
  Value* w = unsqueezed(op("Neg", {ordered(parameter("w", {3, 2}, 0))}, {3, 2}));
  result(gru(w, weight("r", {1, 3, 1}), nullptr), "y");
  after(join_weights);
  EXPECT_FALSE(changed_);
}

TEST_F(JoinedWeightsTest, OtherOperatorsKeepTheirOperands) {
  Value* w = ordered(parameter("w", {3, 2}, 0));
  result(op("MatMul", {input_, op("Transpose", {w}, {2, 3})}, {5, batch_, 3}), "y");
  after(join_weights);
  EXPECT_FALSE(changed_);
}

TEST_F(JoinedWeightsTest, TheModulesLayoutStaysIfAskedFor) {
  model_.weights = WeightLayout::module;
  result(gru(unsqueezed(ordered(parameter("w", {3, 2}, 0))), weight("r", {1, 3, 1}), nullptr), "y");
  after(join_weights);
  EXPECT_FALSE(changed_);
}

}  // namespace
}  // namespace onnx_native::passes
