#include "capture/meta_results.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

namespace onnx_native::capture {
namespace {

at::Tensor meta_tensor(at::IntArrayRef sizes, c10::ScalarType dtype = c10::kFloat) {
  return at::empty(sizes, at::TensorOptions().dtype(dtype).device(c10::kMeta));
}

struct MetaResultsTest : testing::Test {
  MetaResults results;

  at::Tensor call(const char* op, const char* overload, torch::jit::Stack stack) {
    results.call(c10::Dispatcher::singleton().findSchemaOrThrow(op, overload), stack);
    EXPECT_EQ(stack.size(), 1);
    return stack.front().toTensor();
  }
};

TEST_F(MetaResultsTest, ARepeatedCallHasANewTensorOfTheSameLayout) {
  const at::Tensor x = meta_tensor({2, 3}).t();
  const at::Tensor first = call("aten::sin", "", {x});
  const at::Tensor second = call("aten::sin", "", {meta_tensor({2, 3}).t()});
  EXPECT_FALSE(second.is_alias_of(first));
  EXPECT_EQ(second.sizes(), first.sizes());
  EXPECT_EQ(second.strides(), at::IntArrayRef({1, 3}));
  EXPECT_TRUE(call("aten::sin", "", {meta_tensor({3, 2})}).is_contiguous());
}

TEST_F(MetaResultsTest, ResultsThatAreViewsOrArgumentsStayThat) {
  for (const at::Tensor& x : {meta_tensor({2, 3}), meta_tensor({2, 3})}) {
    EXPECT_TRUE(call("aten::t", "", {x}).is_alias_of(x));
    EXPECT_TRUE(call("aten::dropout", "", {x, 0.5, false}).is_same(x));
    EXPECT_TRUE(call("aten::sin_", "", {x}).is_same(x));
  }
}

TEST_F(MetaResultsTest, NumbersAndTheContextAreParts) {
  const at::Tensor x = meta_tensor({4}, c10::kLong);
  EXPECT_EQ(call("aten::div", "Tensor", {x, x}).scalar_type(), c10::kFloat);
  EXPECT_EQ(call("aten::arange", "", {4, c10::kLong, {}, c10::Device(c10::kMeta), {}}).numel(), 4);
  EXPECT_EQ(call("aten::arange", "", {5, c10::kLong, {}, c10::Device(c10::kMeta), {}}).numel(), 5);
  c10::set_default_dtype(caffe2::TypeMeta::Make<double>());
  EXPECT_EQ(call("aten::div", "Tensor", {x, x}).scalar_type(), c10::kDouble);
  c10::set_default_dtype(caffe2::TypeMeta::Make<float>());
}

}  // namespace
}  // namespace onnx_native::capture
