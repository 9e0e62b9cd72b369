#include "passes/pass_test.h"

namespace onnx_native::passes {
namespace {

class BatchNormTest : public PassTest {
 protected:
  Value* vector(std::string_view name, double value) {
    const std::vector<double> numbers(3, value);
    return graph_.add_initializer(name, make_tensor(DType::f32, {3}, numbers));
  }
  Value* batch_norm(Value* x) {
    return op("BatchNormalization",
              {x, vector("scale", 2), vector("shift", 1), vector("mean", 0.25), vector("var", 4)},
              *x->shape, {{"epsilon", 0.0}});
  }
};

TEST_F(BatchNormTest, FoldsIntoTheConvBeforeIt) {
  Value* x = input("x", {batch_, 2, 5});
  Value* conv = op("Conv", {x, weight("w", {3, 2, 1}), vector("b", 3)}, {batch_, 3, 5});
  result(batch_norm(conv), "y");
  after(fold_batch_norm);
  ASSERT_EQ(graph_.nodes.size(), 1u);
  const onnx::Node* node = graph_.nodes.front();
  EXPECT_EQ(node->op_type, "Conv");
  EXPECT_EQ(node->inputs[1]->name, "w");
  EXPECT_DOUBLE_EQ(node->inputs[1]->constant->number(5), 0.5);   // 0.5 * 2 / sqrt(4)
  EXPECT_DOUBLE_EQ(node->inputs[2]->constant->number(0), 3.75);  // (3 - 0.25) * 1 + 1
}

TEST_F(BatchNormTest, AConvThatIsUsedTwiceStays) {
  Value* x = input("x", {batch_, 2, 5});
  Value* conv = op("Conv", {x, weight("w", {3, 2, 1})}, {batch_, 3, 5});
  result(batch_norm(conv), "y");
  result(op("Relu", {conv}, {batch_, 3, 5}), "z");
  after(fold_batch_norm);
  EXPECT_FALSE(changed_);
}

TEST_F(BatchNormTest, ScaledWeightsAreWrittenScaled) {
  TensorData data = make_tensor(DType::f32, {2, 2}, std::vector<double>{1, 2, 3, 4});
  data.scale = std::make_shared<std::vector<double>>(std::vector<double>{10, 0.5});
  std::vector<float> written;
  data.stream([&](std::span<const std::byte> piece) {
    const auto* numbers = reinterpret_cast<const float*>(piece.data());
    written.insert(written.end(), numbers, numbers + piece.size() / sizeof(float));
  });
  EXPECT_EQ(written, (std::vector<float>{10, 20, 1.5, 2}));
  EXPECT_EQ(data.number(3), 2);
}

}  // namespace
}  // namespace onnx_native::passes
