#include "base/tensor_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/scalar.h"

namespace onnx_native {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double round_trip(DType dtype, double value) {
  return make_tensor(dtype, {}, std::span<const double>(&value, 1)).number(0);
}

TEST(TensorData, HalfBits) {
  EXPECT_EQ(to_f16_bits(1.0), 0x3c00);
  EXPECT_EQ(to_f16_bits(-2.0), 0xc000);
  EXPECT_EQ(to_f16_bits(65504.0), 0x7bff);
  EXPECT_EQ(to_f16_bits(65519.9), 0x7bff);
  EXPECT_EQ(to_f16_bits(65520.0), 0x7c00);
  EXPECT_EQ(to_f16_bits(-kInf), 0xfc00);
  EXPECT_EQ(to_f16_bits(0x1p-24), 0x0001);
  EXPECT_EQ(to_f16_bits(0x1p-25), 0x0000);
  EXPECT_EQ(to_f16_bits(0x1.8p-25), 0x0001);
  EXPECT_EQ(to_f16_bits(-0.0), 0x8000);
  EXPECT_EQ(to_f16_bits(1.0 + 0x1p-11), 0x3c00);      // a tie rounds to even
  EXPECT_EQ(to_f16_bits(1.0 + 3 * 0x1p-11), 0x3c02);  // a tie rounds to even
  EXPECT_EQ(to_f16_bits(0x1p-14 - 0x1p-25), 0x0400);  // rounds up to a normal number
  EXPECT_TRUE(std::isnan(from_f16_bits(to_f16_bits(kNan))));
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    ASSERT_EQ(to_f16_bits(from_f16_bits(static_cast<uint16_t>(bits))), bits);
  }
}

TEST(TensorData, Bfloat16Bits) {
  EXPECT_EQ(to_bf16_bits(1.0), 0x3f80);
  EXPECT_EQ(to_bf16_bits(kInf), 0x7f80);
  EXPECT_EQ(to_bf16_bits(1e39), 0x7f80);
  EXPECT_EQ(to_bf16_bits(0x1p-133), 0x0001);
  EXPECT_EQ(to_bf16_bits(1.0 + 0x1p-8), 0x3f80);
  EXPECT_TRUE(std::isnan(round_trip(DType::bf16, kNan)));
}

TEST(TensorData, Float8) {
  EXPECT_EQ(round_trip(DType::f8e4m3fn, 448), 448);
  EXPECT_TRUE(std::isnan(round_trip(DType::f8e4m3fn, 500)));
  EXPECT_EQ(round_trip(DType::f8e5m2, 57344), 57344);
  EXPECT_EQ(round_trip(DType::f8e5m2, 1e6), kInf);
  EXPECT_EQ(round_trip(DType::f8e4m3fnuz, 240), 240);
  EXPECT_TRUE(std::isnan(round_trip(DType::f8e4m3fnuz, -kInf)));
  EXPECT_FALSE(std::signbit(round_trip(DType::f8e5m2fnuz, -0.0)));
  EXPECT_EQ(round_trip(DType::f8e5m2fnuz, -3), -3);
}

TEST(TensorData, NumbersOfEveryDtype) {
  for (const DType dtype :
       {DType::f32, DType::f64, DType::f16, DType::bf16, DType::u8, DType::i8, DType::u16,
        DType::i16, DType::i32, DType::i64, DType::u32, DType::u64}) {
    const std::vector<double> values = {0, 1, 100};
    const TensorData tensor = make_tensor(dtype, {3}, values);
    EXPECT_EQ(tensor.nbytes(), 3 * item_size(dtype));
    EXPECT_EQ(tensor.integers(), (std::vector<int64_t>{0, 1, 100})) << name(dtype);
    EXPECT_EQ(tensor.number(2), 100) << name(dtype);
  }
  const std::vector<int64_t> flags = {0, 2};
  EXPECT_EQ(make_tensor(DType::boolean, {2}, flags).integers(), (std::vector<int64_t>{0, 1}));
  const std::vector<int64_t> big = {std::numeric_limits<int64_t>::max()};
  EXPECT_EQ(make_tensor(DType::i64, {}, big).integer(0), big[0]);
  EXPECT_THROW(make_tensor(DType::i32, {}, big), ExportError);
  const std::vector<double> beyond = {256};
  EXPECT_THROW(make_tensor(DType::u8, {}, beyond), ExportError);
}

std::vector<int64_t> streamed(const TensorData& tensor, size_t* pieces = nullptr) {
  std::vector<std::byte> bytes;
  tensor.stream([&](std::span<const std::byte> piece) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
    if (pieces) ++*pieces;
  });
  return make_tensor(tensor.dtype, tensor.shape, std::move(bytes)).integers();
}

TEST(TensorData, StreamsStridedElementsInOrder) {
  std::vector<int64_t> values(24);
  std::iota(values.begin(), values.end(), 0);
  TensorData tensor = make_tensor(DType::i32, {2, 3, 4}, values);
  EXPECT_EQ(streamed(tensor), values);
  tensor.shape = {4, 3, 2};
  tensor.strides = {1, 4, 12};  // transposed
  const std::vector<int64_t> got = streamed(tensor);
  EXPECT_EQ(got, tensor.integers());
  EXPECT_EQ(got[1], 12);
  EXPECT_EQ(got[2], 4);
  tensor.shape = {3, 2};
  tensor.strides = {0, 1};  // expanded
  EXPECT_EQ(streamed(tensor), (std::vector<int64_t>{0, 1, 0, 1, 0, 1}));
  tensor.shape = {0, 2};
  EXPECT_EQ(streamed(tensor), std::vector<int64_t>{});
}

TEST(TensorData, StreamsTransposedMatricesInOrder) {
  for (const DType dtype : {DType::u8, DType::i16, DType::f32, DType::i64, DType::c128}) {
    for (const auto& [batch, rows, columns] : std::vector<std::array<int64_t, 3>>{{1, 2, 2},
                                                                                  {1, 64, 16},
                                                                                  {2, 33, 71},
                                                                                  {3, 300, 5},
                                                                                  {1, 5, 300},
                                                                                  {1, 1, 40},
                                                                                  {2, 40, 1},
                                                                                  {1, 0, 3}}) {
      const int64_t pitch = rows + 3;  // the matrix is a part of a larger one
      std::vector<int64_t> values(static_cast<size_t>(batch * columns * pitch));
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i * 7 % 113);
      TensorData tensor = make_tensor(dtype, {batch, columns, pitch}, values);
      tensor.shape = {batch, rows, columns};
      tensor.strides = {columns * pitch, 1, pitch};
      std::vector<std::byte> bytes;
      tensor.stream([&](std::span<const std::byte> piece) {
        bytes.insert(bytes.end(), piece.begin(), piece.end());
      });
      std::vector<int64_t> expected;
      for (int64_t b = 0; b < batch; ++b) {
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t c = 0; c < columns; ++c) {
            expected.push_back(values[static_cast<size_t>((b * columns + c) * pitch + r)]);
          }
        }
      }
      const TensorData result = make_tensor(dtype, tensor.shape, expected);
      const auto wanted = result.bytes();
      ASSERT_TRUE(std::ranges::equal(bytes, wanted)) << name(dtype) << rows << "x" << columns;
    }
  }
}

TEST(TensorData, StreamsBigTensorsInPieces) {
  std::vector<int64_t> values(size_t{1} << 16);
  std::iota(values.begin(), values.end(), 0);
  TensorData tensor = make_tensor(DType::i64, {256, 256}, values);
  tensor.strides = {1, 256};
  size_t pieces = 0;
  EXPECT_EQ(streamed(tensor, &pieces), tensor.integers());
  EXPECT_EQ(pieces, 8u);
  tensor.shape = {4, 128, 256};
  tensor.strides = {0, 256, 1};  // long contiguous runs are not copied
  pieces = 0;
  streamed(tensor, &pieces);
  EXPECT_EQ(pieces, 4u);
}

TEST(Scalar, Text) {
  EXPECT_EQ(Scalar(1).str(), "1");
  EXPECT_EQ(Scalar(0.5).str(), "0.5");
  EXPECT_EQ(Scalar(2.0).str(), "2.0");
  EXPECT_EQ(Scalar(true).str(), "True");
  EXPECT_EQ(Scalar(-kInf).str(), "-inf");
  EXPECT_EQ(Scalar(std::complex<double>(1, -2)).str(), "(1.0-2.0j)");
  EXPECT_EQ(Scalar(-2.7).to_int(), -2);
  EXPECT_EQ(Scalar(true).kind_dtype(), DType::boolean);
}

}  // namespace
}  // namespace onnx_native
