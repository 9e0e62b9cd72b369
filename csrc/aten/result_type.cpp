#include "aten/result_type.h"

namespace onnx_native::aten {
namespace {

void include(DType& so_far, DType dtype) {
  so_far = so_far == DType::undefined ? dtype : promote_types(so_far, dtype);
}

bool is_inexact(DType dtype) { return is_floating(dtype) || is_complex(dtype); }

// Follows ATen's combine_categories (native/TypeProperties.cpp).
DType combine(DType higher, DType lower) {
  if (lower == DType::undefined || is_complex(higher)) return higher;
  if (higher == DType::undefined) return lower;
  if (is_floating(higher)) return is_complex(lower) ? complex_dtype(higher) : higher;
  return higher == DType::boolean || is_inexact(lower) ? promote_types(higher, lower) : higher;
}

}  // namespace

void ResultType::add_tensor(DType dtype, bool has_dims) {
  include(has_dims ? dimensioned_ : zero_dim_, dtype);
}

void ResultType::add_number(DType dtype) { include(number_, dtype); }

DType ResultType::get() const { return combine(dimensioned_, combine(zero_dim_, number_)); }

}  // namespace onnx_native::aten
