#include "onnx/providers.h"

#include "passes/pass_test.h"

namespace onnx_native::passes {
namespace {

class ProvidersTest : public PassTest {
 protected:
  std::vector<std::string> missing(Target target, int64_t opset = 20) {
    model_.opset = opset;
    model_.target = target;
    return onnx::missing_provider_kernels(model_);
  }
};

using Lines = std::vector<std::string>;

TEST_F(ProvidersTest, NodesWithoutAKernelForTheirTypes) {
  Value* x = input("x", {batch_, 4}, DType::i64);
  result(op("Add", {x, x}, {batch_, 4}, {}, DType::i64), "y");
  EXPECT_EQ(missing(Target::onnxruntime_webgpu), (Lines{"Add of i64, i64"}));
  EXPECT_EQ(missing(Target::onnxruntime_cuda), Lines{});
  EXPECT_EQ(missing(Target::onnxruntime_cpu), Lines{});
  EXPECT_EQ(missing(Target::onnx), Lines{});
}

TEST_F(ProvidersTest, EachOperatorWithItsTypesOnce) {
  Value* x = input("x", {batch_, 4}, DType::i64);
  Value* y = op("Add", {x, x}, {batch_, 4}, {}, DType::i64);
  result(op("Add", {y, x}, {batch_, 4}, {}, DType::i64), "z");
  EXPECT_EQ(missing(Target::onnxruntime_webgpu).size(), 1);
}

TEST_F(ProvidersTest, SizesAreComputedWhereTheyAre) {
  Value* x = input("x", {batch_, 4});
  Value* size = op("Shape", {x}, {2}, {}, DType::i64);
  Value* twice = op("Mul", {size, ints({2, 1})}, {2}, {}, DType::i64);
  result(op("Expand", {x, twice}, {batch_, 4}), "y");
  EXPECT_EQ(missing(Target::onnxruntime_webgpu), Lines{});
}

TEST_F(ProvidersTest, AnOpsetThatAProviderDoesNotKnow) {
  result(op("Sin", {input("x", {batch_, 4})}, {batch_, 4}), "y");
  EXPECT_EQ(missing(Target::onnxruntime_webgpu, 21), Lines{});
  EXPECT_EQ(missing(Target::onnxruntime_webgpu, 22), (Lines{"Sin of f32"}));
  EXPECT_EQ(missing(Target::onnxruntime_cuda, 22), Lines{});
}

TEST_F(ProvidersTest, KernelsByTheTypeOfTheFirstInput) {
  const auto has = [](Target target, DType dtype) {
    return onnx::may_have_kernel(target, "com.microsoft.MatMulNBits", 20, dtype);
  };
  EXPECT_TRUE(has(Target::onnxruntime_cuda, DType::bf16));
  EXPECT_FALSE(has(Target::onnxruntime_webgpu, DType::bf16));
  EXPECT_TRUE(has(Target::onnxruntime_webgpu, DType::f16));
  EXPECT_FALSE(onnx::may_have_kernel(Target::onnxruntime_webgpu, "Attention", 23, DType::f32));
  EXPECT_TRUE(onnx::may_have_kernel(Target::onnx, "Attention", 23, DType::f32));
}

TEST_F(ProvidersTest, HalfPrecision) {
  Value* x = input("x", {batch_, 4});
  result(op("Sin", {x}, {batch_, 4}), "y");
  const onnx::Node& node = *graph_.outputs[0]->producer;
  EXPECT_TRUE(onnx::has_kernel_in(Target::onnxruntime_cuda, node, 20, DType::f16));
  EXPECT_FALSE(onnx::has_kernel_in(Target::onnxruntime_cuda, node, 20, DType::bf16));
}

}  // namespace
}  // namespace onnx_native::passes
