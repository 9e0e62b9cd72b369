#include "onnx/number.h"

#include "onnx/builder.h"

namespace onnx_native {

const Scalar& Number::constant() const {
  if (value_) {
    fail(ErrorKind::unsupported, "argument `", argument_,
         "` is computed by the model, but ONNX needs a constant here");
  }
  return constant_;
}

Number combine(std::string_view op_type, const Number& a, const Number& b) {
  const Number& computed = a.value_ ? a : b;
  Builder& builder = *computed.builder_;
  const Value result =
      builder.op(op_type, {builder.scalar(DType::f64, a), builder.scalar(DType::f64, b)});
  return {builder, result, computed.argument_};
}

Number operator+(const Number& a, const Number& b) {
  if (a.value_ || b.value_) return combine("Add", a, b);
  return a.to_double() + b.to_double();
}

Number operator-(const Number& a, const Number& b) {
  if (a.value_ || b.value_) return combine("Sub", a, b);
  return a.to_double() - b.to_double();
}

Number operator*(const Number& a, const Number& b) {
  if (a.value_ || b.value_) return combine("Mul", a, b);
  return a.to_double() * b.to_double();
}

Number operator/(const Number& a, const Number& b) {
  if (a.value_ || b.value_) return combine("Div", a, b);
  return a.to_double() / b.to_double();
}

}  // namespace onnx_native
