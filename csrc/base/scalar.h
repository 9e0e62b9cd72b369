// A Python number in a program; its kind takes part in type promotion.
#pragma once

#include <complex>
#include <cstdint>
#include <string>
#include <variant>

#include "base/dtype.h"

namespace onnx_native {

struct Scalar {  // an int, float, bool or complex number
  std::variant<int64_t, double, bool, std::complex<double>> value = int64_t{0};

  Scalar() = default;
  Scalar(int64_t v) : value(v) {}               // NOLINT(google-explicit-constructor)
  Scalar(int v) : value(int64_t{v}) {}          // NOLINT(google-explicit-constructor)
  Scalar(double v) : value(v) {}                // NOLINT(google-explicit-constructor)
  Scalar(bool v) : value(v) {}                  // NOLINT(google-explicit-constructor)
  Scalar(std::complex<double> v) : value(v) {}  // NOLINT(google-explicit-constructor)

  bool is_integer() const { return std::holds_alternative<int64_t>(value); }
  bool is_floating() const { return std::holds_alternative<double>(value); }
  bool is_boolean() const { return std::holds_alternative<bool>(value); }
  bool is_complex() const { return std::holds_alternative<std::complex<double>>(value); }
  // Returns the value as a real number; the real part of a complex number.
  double to_double() const;
  // Returns the value as an integer: truncates toward zero, saturates at the limits of int64; NaN
  // gives 0.
  int64_t to_int() const;
  // Returns the kind's dtype for promotion: i64, f32, boolean or c64 (f32 stands for the default
  // dtype).
  DType kind_dtype() const;
  std::string str() const;  // "1", "0.5", "True", "inf"
  bool operator==(const Scalar&) const = default;
};

// Returns true if the number equals 1 (or 1.0, True). An `alpha` of 1 needs no multiplication.
inline bool is_one(const Scalar& scalar) {
  return !scalar.is_complex() && scalar.to_double() == 1.0;
}
inline bool is_zero(const Scalar& scalar) {
  return !scalar.is_complex() && scalar.to_double() == 0.0;
}

// Reduces the value modulo 2^bits of an integer dtype, like a C conversion. For bool, returns 1
// unless the value is 0.
int64_t wrapped(int64_t value, DType dtype);

}  // namespace onnx_native
