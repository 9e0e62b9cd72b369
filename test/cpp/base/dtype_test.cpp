#include "base/dtype.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"

namespace onnx_native {
namespace {

// torch.promote_types of PyTorch 2.13: each row against the dtypes of all rows; "-" is an error.
const std::vector<std::pair<std::string, std::string>> kPromotions = {
    {"f32", "f32 f32 f32 f32 f32 f32 f32 f32 f32 f64 f32 f32 c64 c128 f32 - -"},
    {"u8", "f32 u8 i16 - i16 i32 i64 u8 f16 f64 - - c64 c128 bf16 - -"},
    {"i8", "f32 i16 i8 - i16 i32 i64 i8 f16 f64 - - c64 c128 bf16 - -"},
    {"u16", "f32 - - u16 - - - - f16 f64 - - - - bf16 - -"},
    {"i16", "f32 i16 i16 - i16 i32 i64 i16 f16 f64 - - c64 c128 bf16 - -"},
    {"i32", "f32 i32 i32 - i32 i32 i64 i32 f16 f64 - - c64 c128 bf16 - -"},
    {"i64", "f32 i64 i64 - i64 i64 i64 i64 f16 f64 - - c64 c128 bf16 - -"},
    {"bool", "f32 u8 i8 - i16 i32 i64 bool f16 f64 - - c64 c128 bf16 - -"},
    {"f16", "f32 f16 f16 f16 f16 f16 f16 f16 f16 f64 f16 f16 c64 c128 f32 - -"},
    {"f64", "f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 c128 c128 f64 - -"},
    {"u32", "f32 - - - - - - - f16 f64 u32 - - - bf16 - -"},
    {"u64", "f32 - - - - - - - f16 f64 - u64 - - bf16 - -"},
    {"c64", "c64 c64 c64 - c64 c64 c64 c64 c64 c128 - - c64 c128 c64 - -"},
    {"c128", "c128 c128 c128 - c128 c128 c128 c128 c128 c128 - - c128 c128 c128 - -"},
    {"bf16", "f32 bf16 bf16 bf16 bf16 bf16 bf16 bf16 f32 f64 bf16 bf16 c64 c128 bf16 - -"},
    {"f8e4m3fn", "- - - - - - - - - - - - - - - f8e4m3fn -"},
    {"f8e5m2", "- - - - - - - - - - - - - - - - f8e5m2"},
};

TEST(DType, PromotesAsTorch) {
  for (const auto& [a, row] : kPromotions) {
    std::istringstream results(row);
    for (const auto& [b, unused] : kPromotions) {
      std::string expected;
      results >> expected;
      const DType left = *dtype_from_name(a);
      const DType right = *dtype_from_name(b);
      if (expected == "-") {
        EXPECT_THROW(promote_types(left, right), ExportError) << a << " " << b;
      } else {
        EXPECT_EQ(name(promote_types(left, right)), expected) << a << " " << b;
      }
    }
  }
}

TEST(DType, Names) {
  for (int i = 0; i <= 20; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(dtype_from_name(name(dtype)), dtype);
  }
  EXPECT_EQ(dtype_from_name("float"), std::nullopt);
}

TEST(DType, Kinds) {
  EXPECT_TRUE(is_floating(DType::f8e5m2));
  EXPECT_FALSE(is_integral(DType::boolean));
  EXPECT_FALSE(is_signed(DType::u8));
  EXPECT_EQ(real_dtype(DType::c128), DType::f64);
  EXPECT_EQ(max_value(DType::i32), 2147483647.0);
  EXPECT_EQ(lowest_value(DType::f16), -65504.0);
}

}  // namespace
}  // namespace onnx_native
