#include "base/packed.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/weight.h"

namespace onnx_native {
namespace {

std::vector<int> bytes_of(const TensorData& data) {
  const TensorData now = current(data);
  std::vector<int> bytes;
  for (const std::byte each : now.bytes()) bytes.push_back(static_cast<int>(each));
  return bytes;
}

TEST(PackedTest, TheFirstOfTwoElementsIsInTheLowHalf) {
  const TensorData integers = make_tensor(DType::i8, {3, 1}, std::vector<int64_t>{-8, 7, -1});
  const TensorData data = packed(integers, kInt4);
  EXPECT_EQ(data.shape, (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(stored_bytes(data), 2);
  EXPECT_EQ(bytes_of(data), (std::vector<int>{0x78, 0x0F}));
}

TEST(PackedTest, ReadsViewsInTheirOrder) {
  TensorData integers = make_tensor(DType::u8, {2, 2}, std::vector<int64_t>{1, 2, 3, 15});
  integers.strides = {1, 2};
  EXPECT_EQ(bytes_of(packed(integers, kUint4)), (std::vector<int>{0x31, 0xF2}));
}

TEST(PackedTest, ElementsMustFit) {
  for (const int64_t number : {-9, 8, 127}) {
    const TensorData integers = make_tensor(DType::i8, {1}, std::vector<int64_t>{number});
    EXPECT_THROW(current(packed(integers, kInt4)), ExportError);
  }
}

}  // namespace
}  // namespace onnx_native
