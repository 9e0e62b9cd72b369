// Element types of tensors, numbered as in ONNX TensorProto.DataType.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace onnx_native {

enum class DType : uint8_t {
  undefined = 0,
  f32 = 1,
  u8 = 2,
  i8 = 3,
  u16 = 4,
  i16 = 5,
  i32 = 6,
  i64 = 7,
  string = 8,
  boolean = 9,
  f16 = 10,
  f64 = 11,
  u32 = 12,
  u64 = 13,
  c64 = 14,
  c128 = 15,
  bf16 = 16,
  f8e4m3fn = 17,
  f8e4m3fnuz = 18,
  f8e5m2 = 19,
  f8e5m2fnuz = 20,
  c32 = 64,  // a pair of f16; not an ONNX type
};

// Returns the short name printed in graph dumps: "f32", "i64", "bool", ...
std::string_view name(DType dtype);
// Returns the DType with a short name; nullopt if there is none.
std::optional<DType> dtype_from_name(std::string_view name);
// Bytes per element; 0 for string and undefined.
int64_t item_size(DType dtype);

bool is_floating(DType dtype);  // f16, bf16, f32, f64, f8*
bool is_integral(DType dtype);  // signed and unsigned integers; not bool
bool is_signed(DType dtype);    // floating, complex and signed integers
bool is_complex(DType dtype);
// Returns f32 for c64, f64 for c128, f16 for c32; any other dtype unchanged.
DType real_dtype(DType dtype);
// Returns the complex dtype whose parts have this dtype; c64 if there is none.
DType complex_dtype(DType dtype);

// Returns the result dtype of an operation between tensors of two dtypes (torch.promote_types).
// Throws ExportError(unsupported) for dtypes that do not promote.
DType promote_types(DType a, DType b);

// The largest and the lowest finite value of this dtype (integers included), as double.
double max_value(DType dtype);
double lowest_value(DType dtype);

}  // namespace onnx_native
