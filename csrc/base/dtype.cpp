#include "base/dtype.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace onnx_native {
namespace {

enum class Family : uint8_t { none, boolean, integer, floating, float8, complex };

struct Info {
  std::string_view name;
  int64_t size;
  Family family;
  bool is_signed;
  double lowest;
  double highest;
};

// Indexed by DType.
constexpr std::array<Info, 24> kInfo = {{
    {"undefined", 0, Family::none, false, 0, 0},
    {"f32", 4, Family::floating, true, -0x1.fffffep127, 0x1.fffffep127},
    {"u8", 1, Family::integer, false, 0, 255},
    {"i8", 1, Family::integer, true, -128, 127},
    {"u16", 2, Family::integer, false, 0, 65535},
    {"i16", 2, Family::integer, true, -32768, 32767},
    {"i32", 4, Family::integer, true, -0x1p31, 0x1p31 - 1},
    {"i64", 8, Family::integer, true, -0x1p63, 0x1p63},
    {"string", 0, Family::none, false, 0, 0},
    {"bool", 1, Family::boolean, false, 0, 1},
    {"f16", 2, Family::floating, true, -65504, 65504},
    {"f64", 8, Family::floating, true, -0x1.fffffffffffffp1023, 0x1.fffffffffffffp1023},
    {"u32", 4, Family::integer, false, 0, 0x1p32 - 1},
    {"u64", 8, Family::integer, false, 0, 0x1p64},
    {"c64", 8, Family::complex, true, -0x1.fffffep127, 0x1.fffffep127},
    {"c128", 16, Family::complex, true, -0x1.fffffffffffffp1023, 0x1.fffffffffffffp1023},
    {"bf16", 2, Family::floating, true, -0x1.fep127, 0x1.fep127},
    {"f8e4m3fn", 1, Family::float8, true, -448, 448},
    {"f8e4m3fnuz", 1, Family::float8, true, -240, 240},
    {"f8e5m2", 1, Family::float8, true, -57344, 57344},
    {"f8e5m2fnuz", 1, Family::float8, true, -57344, 57344},
    // Half a byte each: see base/packed.h. Programs have them only in nodes that the user adds
    // (torch.onnx.ops.symbolic).
    {"u4", 0, Family::none, false, 0, 15},
    {"i4", 0, Family::none, true, -8, 7},
    {"f4e2m1", 0, Family::none, true, -6, 6},
}};

constexpr Info kComplexHalf = {"c32", 4, Family::complex, true, -65504, 65504};

const Info& info(DType dtype) {
  return dtype == DType::c32 ? kComplexHalf : kInfo[static_cast<size_t>(dtype)];
}

DType promote_floats(DType a, DType b) {
  if (a == b) return a;
  if (a == DType::f64 || b == DType::f64) return DType::f64;
  return DType::f32;  // f32 with a half, or f16 with bf16
}

DType promote_integers(DType a, DType b) {
  if (info(a).is_signed == info(b).is_signed) return item_size(a) > item_size(b) ? a : b;
  const DType other = a == DType::u8 ? b : a;  // u8 is the only unsigned integer that promotes
  return other == DType::i8 ? DType::i16 : other;
}

}  // namespace

std::string_view name(DType dtype) { return info(dtype).name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  if (name == kComplexHalf.name) return DType::c32;
  for (size_t i = 0; i < kInfo.size(); ++i) {
    if (kInfo[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

int64_t item_size(DType dtype) { return info(dtype).size; }

bool is_floating(DType dtype) {
  return info(dtype).family == Family::floating || info(dtype).family == Family::float8;
}

bool is_integral(DType dtype) { return info(dtype).family == Family::integer; }

bool is_signed(DType dtype) { return info(dtype).is_signed; }

bool is_complex(DType dtype) { return info(dtype).family == Family::complex; }

DType real_dtype(DType dtype) {
  if (dtype == DType::c64) return DType::f32;
  if (dtype == DType::c128) return DType::f64;
  if (dtype == DType::c32) return DType::f16;
  return dtype;
}

DType complex_dtype(DType dtype) {
  if (is_complex(dtype)) return dtype;
  return dtype == DType::f64 ? DType::c128 : dtype == DType::f16 ? DType::c32 : DType::c64;
}

DType promote_types(DType a, DType b) {
  if (a == b) return a;
  const Family fa = info(a).family;
  const Family fb = info(b).family;
  const auto refused = [](Family family) {
    return family == Family::none || family == Family::float8;
  };
  const auto bare_unsigned = [](DType dtype) {
    return dtype == DType::u16 || dtype == DType::u32 || dtype == DType::u64;
  };
  const auto either = [&](Family family) { return fa == family || fb == family; };
  const bool bare = bare_unsigned(a) || bare_unsigned(b);
  if (refused(fa) || refused(fb) || (bare && !either(Family::floating))) {
    fail(ErrorKind::unsupported, "cannot promote ", name(a), " and ", name(b),
         " to a common dtype; cast one of them first");
  }
  if (either(Family::complex)) {
    const auto is_exact = [](Family f) { return f == Family::integer || f == Family::boolean; };
    if (is_exact(fa)) return b;
    if (is_exact(fb)) return a;
    return complex_dtype(promote_floats(real_dtype(a), real_dtype(b)));
  }
  if (fa == Family::floating && fb == Family::floating) return promote_floats(a, b);
  if (fa == Family::floating) return a;
  if (fb == Family::floating) return b;
  if (fa == Family::boolean) return b;
  if (fb == Family::boolean) return a;
  return promote_integers(a, b);
}

double max_value(DType dtype) { return info(dtype).highest; }

double lowest_value(DType dtype) { return info(dtype).lowest; }

}  // namespace onnx_native
