#include "base/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "base/device_weight.h"
#include "base/error.h"
#include "base/weight.h"

namespace onnx_native {
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity();

TensorData floats(std::vector<double> elements) {
  const auto count = static_cast<int64_t>(elements.size());
  return make_tensor(DType::f32, {count}, elements);
}

std::vector<double> numbers(const TensorData& data) {
  std::vector<double> result;
  for (int64_t i = 0; i < data.numel(); ++i) result.push_back(data.number(i));
  return result;
}

TEST(Half, RoundsToNearestEven) {
  const TensorData data = in_half(floats({1, -1 - 0x1p-11, 1 + 3 * 0x1p-11, 65504, 65519, 0x1p-14,
                                          0x1.8p-24, 0x1p-26, -0.0, kInfinite}),
                                  DType::f16);
  EXPECT_EQ(data.dtype, DType::f16);
  EXPECT_EQ(numbers(data), (std::vector<double>{1, -1, 1 + 0x1p-9, 65504, 65504, 0x1p-14, 0x1p-23,
                                                0, 0, kInfinite}));
}

TEST(Half, AgreesWithTheExactConversion) {
  for (uint32_t bits = 1; bits < 0x47700000; bits += 104729) {
    const float value = std::bit_cast<float>(bits);
    const TensorData half = in_half(floats({value}), DType::f16);
    EXPECT_EQ(half.number(0), from_f16_bits(to_f16_bits(value))) << value;
    const TensorData brain = make_tensor(DType::bf16, {1}, std::vector<double>{value});
    EXPECT_EQ(in_half(floats({value}), DType::bf16).number(0), brain.number(0)) << value;
  }
}

TEST(Half, NanStays) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(in_half(floats({nan}), DType::f16).number(0)));
  EXPECT_TRUE(std::isnan(in_half(floats({nan}), DType::bf16).number(0)));
}

TEST(Half, ALargeConstantIsConvertedWhileItIsWritten) {
  std::vector<double> elements(5000);
  for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<double>(i);
  const TensorData half = in_half(floats(elements), DType::bf16);
  EXPECT_TRUE(is_on_demand(half));
  EXPECT_EQ(half.nbytes(), 10000);
  std::vector<std::byte> bytes;
  stream_current(half, [&bytes](std::span<const std::byte> piece) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  });
  const TensorData all = current(half);
  const std::span<const std::byte> at_once = all.bytes();
  EXPECT_EQ(bytes, std::vector<std::byte>(at_once.begin(), at_once.end()));
  EXPECT_EQ(all.number(4999), 4992);
}

TEST(Half, ATransposedMatrixIsConvertedInItsOrder) {
  std::vector<double> elements(3000);
  for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<double>(i % 1000);
  TensorData turned = make_tensor(DType::f32, {1000, 3}, elements);
  turned.shape = {3, 1000};
  turned.strides = {1, 3};
  const TensorData half = current(in_half(turned, DType::f16));
  EXPECT_EQ(half.number(1), 3);
  EXPECT_EQ(half.number(1000), 1);
  EXPECT_EQ(fit_of(turned, DType::f16), Fit::good);
}

TEST(Half, WritingAnOverflowIsAnError) {
  std::vector<double> elements(2000, 1e5);
  const TensorData half = in_half(floats(elements), DType::f16);
  EXPECT_THROW(current(half), ExportError);
  EXPECT_THROW(stream_current(half, [](std::span<const std::byte>) {}), ExportError);
  EXPECT_THROW(in_half(floats({1e5}), DType::f16), ExportError);
}

TEST(Half, Fits) {
  EXPECT_EQ(fit_of(floats({0.5, 65519, -kInfinite}), DType::f16), Fit::good);
  EXPECT_EQ(fit_of(floats({1, -65520}), DType::f16), Fit::overflows);
  EXPECT_EQ(fit_of(floats({-1e30, 1}), DType::bf16), Fit::good);
  EXPECT_EQ(fit_of(floats({std::numeric_limits<float>::lowest(), 1}), DType::bf16), Fit::overflows);
  EXPECT_EQ(fit_of(floats({1e-5}), DType::f16), Fit::good);
  EXPECT_EQ(fit_of(floats({1e-6}), DType::f16), Fit::imprecise);
  EXPECT_EQ(fit_of(floats({1e-12}), DType::f16), Fit::imprecise);
  EXPECT_EQ(fit_of(floats({1e-12}), DType::bf16), Fit::good);
  EXPECT_EQ(fit_of(floats({1e-12, 1.5}), DType::f16), Fit::good);  // the elements of a weight
  EXPECT_EQ(fit_of(floats({0, 2048}), DType::f16), Fit::good);
  EXPECT_EQ(fit_of(floats({0, 2049}), DType::f16), Fit::imprecise);
  EXPECT_EQ(fit_of(floats({0, 2049.5}), DType::f16), Fit::good);
  EXPECT_EQ(fit_of(floats({1, 257}), DType::bf16), Fit::imprecise);
}

TEST(Half, NormalNumbers) {
  EXPECT_TRUE(is_normal_in(floats({0, 1e-4, -1}), DType::f16));
  EXPECT_FALSE(is_normal_in(floats({1, 1e-5}), DType::f16));
  EXPECT_TRUE(is_normal_in(floats({1, 1e-5}), DType::bf16));
}

}  // namespace
}  // namespace onnx_native
