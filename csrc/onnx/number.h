// A numeric argument of an operator: known at export time, or computed by the model.
#pragma once

#include <complex>
#include <cstdint>
#include <string_view>

#include "base/scalar.h"

namespace onnx_native {

namespace onnx {
struct Value;
}
class Builder;

// Lowerings compute with it like a double (`1 - weight`) and convert it to a tensor with
// Builder::like, Builder::scalar and Builder::full. If ONNX needs a constant (an attribute, a
// choice between operators), use constant(), to_double() or to_int(): they throw unsupported with
// the argument's name if the model computes the number. Does not own the value.
class Number {
 public:
  Number(Scalar constant) : constant_(constant) {}  // NOLINT(google-explicit-constructor)
  Number(int64_t v) : constant_(v) {}               // NOLINT(google-explicit-constructor)
  Number(int v) : constant_(v) {}                   // NOLINT(google-explicit-constructor)
  Number(double v) : constant_(v) {}                // NOLINT(google-explicit-constructor)
  Number(bool v) : constant_(v) {}                  // NOLINT(google-explicit-constructor)
  Number(std::complex<double> v) : constant_(v) {}  // NOLINT(google-explicit-constructor)
  // A number computed by the model, as a 0-d tensor. The builder and the argument's name must
  // outlive it.
  Number(Builder& builder, onnx::Value* value, std::string_view argument)
      : builder_(&builder), value_(value), argument_(argument) {}

  bool is_constant() const { return !value_; }
  // Returns nullptr for a constant.
  onnx::Value* value() const { return value_; }
  const Scalar& constant() const;
  double to_double() const { return constant().to_double(); }
  int64_t to_int() const { return constant().to_int(); }

  // These compute in float64.
  friend Number operator+(const Number& a, const Number& b);
  friend Number operator-(const Number& a, const Number& b);
  friend Number operator*(const Number& a, const Number& b);
  friend Number operator/(const Number& a, const Number& b);
  Number operator-() const { return Number(0.0) - *this; }

 private:
  friend Number combine(std::string_view op_type, const Number& a, const Number& b);

  Scalar constant_;
  Builder* builder_ = nullptr;
  onnx::Value* value_ = nullptr;
  std::string_view argument_;
};

// These return true only for constants with that value.
inline bool is_one(const Number& number) {
  return number.is_constant() && is_one(number.constant());
}
inline bool is_zero(const Number& number) {
  return number.is_constant() && is_zero(number.constant());
}

}  // namespace onnx_native
