#include "base/quantization.h"

#include <gtest/gtest.h>

#include <limits>
#include <span>
#include <vector>

#include "base/device_weight.h"
#include "base/error.h"
#include "base/packed.h"
#include "base/transposed.h"
#include "base/weight.h"

namespace onnx_native {
namespace {

const WeightQuantization kFour{.bits = 4, .block_size = 16};
const WeightQuantization kEight{.bits = 8, .block_size = 16, .symmetric = false};

std::vector<int> written_bytes(const TensorData& data) {
  std::vector<int> bytes;
  stream_current(data, [&bytes](std::span<const std::byte> piece) {
    for (const std::byte each : piece) bytes.push_back(static_cast<int>(each));
  });
  return bytes;
}

// Two rows of 18 elements: 0, 1, 2, ... and their negatives.
TensorData two_rows() {
  std::vector<double> elements;
  for (const double sign : {1.0, -1.0})
    for (int i = 0; i < 18; ++i) elements.push_back(sign * i);
  return make_tensor(DType::f32, {2, 18}, elements);
}

TEST(Quantization, PacksBlocksOfRows) {
  const TensorData codes = packed_blocks(two_rows(), kFour, BlockPart::codes, DType::f32, "w");
  EXPECT_EQ(codes.shape, (std::vector<int64_t>{2, 2, 8}));
  EXPECT_EQ(codes.dtype, DType::u8);
  const std::vector<int> bytes = written_bytes(codes);
  // The scale of the first block is -15 / 8, so that the largest element is -8.
  EXPECT_EQ(bytes[0], 8 | 7 << 4);
  EXPECT_EQ(bytes[7], 1 | 0 << 4);
  // Two elements, 16 and 17, and padding.
  EXPECT_EQ(std::vector<int>(bytes.begin() + 8, bytes.begin() + 16),
            (std::vector<int>{0, 0, 0, 0, 0, 0, 0, 0}));
  const TensorData scales =
      current(packed_blocks(two_rows(), kFour, BlockPart::scales, DType::f32, "w"));
  EXPECT_EQ(scales.number(0), -15.0F / 8);
  EXPECT_EQ(scales.number(1), -17.0F / 8);
  EXPECT_EQ(scales.number(3), 17.0F / 8);
}

TEST(Quantization, ZeroPointsOfFourBitsEndWithTheMiddle) {
  WeightQuantization settings = kFour;
  settings.symmetric = false;
  settings.block_size = 32;
  const TensorData zeros =
      packed_blocks(two_rows(), settings, BlockPart::zero_points, DType::f32, "w");
  EXPECT_EQ(zeros.shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(written_bytes(zeros), (std::vector<int>{0 | 8 << 4, 15 | 8 << 4}));
}

TEST(Quantization, ColumnsKeepTheShape) {
  const TensorData turned = transposed_constant(two_rows());
  const TensorData codes = column_blocks(turned, kFour, BlockPart::codes, DType::f16, "w");
  EXPECT_EQ(codes.dtype, kInt4);
  EXPECT_EQ(codes.shape, (std::vector<int64_t>{18, 2}));
  const std::vector<int> bytes = written_bytes(codes);
  EXPECT_EQ(bytes[0], 0);
  EXPECT_EQ(bytes[15], 8 | 8 << 4);
  const TensorData scales = column_blocks(turned, kFour, BlockPart::scales, DType::f16, "w");
  EXPECT_EQ(scales.shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(current(scales).number(0), -15.0 / 8);
  const TensorData wide = column_blocks(turned, kEight, BlockPart::codes, DType::f32, "w");
  EXPECT_EQ(wide.dtype, DType::u8);
  EXPECT_EQ(written_bytes(wide)[0], 0);
  EXPECT_EQ(written_bytes(wide)[1], 255);
}

TEST(Quantization, RefusesElementsThatAreNotFinite) {
  const TensorData data = make_tensor(
      DType::f32, {1, 2}, std::vector<double>{1, std::numeric_limits<double>::quiet_NaN()});
  const TensorData codes = packed_blocks(data, kFour, BlockPart::codes, DType::f32, "fc.weight");
  EXPECT_THROW(written_bytes(codes), ExportError);
}

TEST(Quantization, ChecksSettings) {
  check_settings(kFour);
  EXPECT_THROW(check_settings({.bits = 4, .block_size = 24}), ExportError);
  EXPECT_THROW(check_settings({.bits = 4, .block_size = 8}), ExportError);
  EXPECT_EQ(parse_weight_bits("int8"), 8);
  EXPECT_THROW(parse_weight_bits("int3"), ExportError);
}

}  // namespace
}  // namespace onnx_native
