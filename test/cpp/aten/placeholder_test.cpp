#include "aten/placeholder.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/transpose.h>
#include <gtest/gtest.h>

#include "aten/torch_tensor.h"
#include "base/error.h"

namespace onnx_native::aten {
namespace {

at::Tensor on_meta(at::IntArrayRef sizes) {
  return at::empty(sizes, at::TensorOptions().dtype(c10::kFloat).device(c10::kMeta));
}

TEST(PlaceholderTest, HasTheTypeAndNoElements) {
  const at::Tensor meta = at::transpose(on_meta({3, 5}), 0, 1);
  const at::Tensor made = make_placeholder(meta);
  EXPECT_TRUE(made.is_cpu());
  EXPECT_EQ(made.sizes(), meta.sizes());
  EXPECT_EQ(made.strides(), meta.strides());
  EXPECT_NE(placeholder_address(made), nullptr);
  EXPECT_THROW(made.const_data_ptr(), c10::Error);
  EXPECT_THROW(made.clone(), c10::Error);
}

TEST(PlaceholderTest, OtherTensorsHaveElements) {
  EXPECT_EQ(placeholder_address(at::ones({2})), nullptr);
  EXPECT_FALSE(lacks_elements(at::ones({2})));
  EXPECT_TRUE(lacks_elements(on_meta({2})));
}

TEST(PlaceholderTest, AWeightGetsItsElementsLater) {
  const TensorData data = tensor_data(on_meta({2, 3}), "w");
  EXPECT_FALSE(has_elements(&data));
  EXPECT_THROW(data.number(0), ExportError);
  auto* weight = dynamic_cast<TensorWeight*>(weight_of(data));
  ASSERT_NE(weight, nullptr);
  EXPECT_THROW(weight->assign(on_meta({2, 3})), ExportError);
  weight->assign(at::ones({2, 3}));
  EXPECT_TRUE(has_elements(&data));
  EXPECT_EQ(data.number(5), 1);
  EXPECT_TRUE(to_tensor(data).equal(at::ones({2, 3})));
}

TEST(PlaceholderTest, EmptyTensors) {
  const TensorData data = tensor_data(on_meta({0, 3}), "w");
  EXPECT_EQ(data.numel(), 0);
  EXPECT_TRUE(to_tensor(data).is_cpu());
}

}  // namespace
}  // namespace onnx_native::aten
