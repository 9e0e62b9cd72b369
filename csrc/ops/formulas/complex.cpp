#include "ops/formulas/complex.h"

#include "aten/result_type.h"
#include "ops/formulas/numeric.h"
#include "ops/formulas/view.h"

namespace onnx_native::ops {
namespace {

// Returns the tensor from which `join` made part i of the pairs; nullptr if `join` did not.
Value joined_part(const onnx::Node& concat, size_t i) {
  const onnx::Node* made = concat.inputs[i]->producer;
  if (!made || made->op_type != "Unsqueeze") return nullptr;
  const Value part = made->inputs[0];
  const auto& axes = made->inputs[1]->contents;
  return axes && axes->size() == 1 && (*axes)[0].equals(part->rank()) ? part : nullptr;
}

}  // namespace

bool is_joined(Value pairs) {
  const onnx::Node* node = pairs->producer;
  return node && node->op_type == "Concat" && node->inputs.size() == 2 &&
         node->attribute_int("axis", 0) == pairs->rank() - 1 && joined_part(*node, 0) &&
         joined_part(*node, 1);
}

Value part(Builder& b, Value pairs, bool imaginary) {
  const auto rank = pairs->rank();
  if (is_joined(pairs)) return joined_part(*pairs->producer, imaginary ? 1 : 0);
  return b.select(pairs, rank - 1, imaginary ? 1 : 0);
}

Complex split(Builder& b, Value pairs) { return {part(b, pairs, false), part(b, pairs, true)}; }

Value real_cast(Builder& b, Value pairs, DType dtype) {
  if (dtype != DType::boolean) return b.cast(part(b, pairs, /*imaginary=*/false), dtype);
  const Complex z = split(b, pairs);
  return b.Or(b.cast(z.real, dtype), b.cast(z.imaginary, dtype));
}

Value imaginary_part(Builder& b, const Complex& z) {
  return z.imaginary ? z.imaginary : b.full(z.real->dtype, 0, z.real->known_shape());
}

Value join(Builder& b, const Complex& z) {
  Values parts{z.real, imaginary_part(b, z)};
  if (!(parts[0]->known_shape() == parts[1]->known_shape())) parts = broadcast_all(b, parts);
  const int64_t rank = parts[0]->rank();
  for (Value& part : parts) part = b.unsqueeze(part, {rank});
  return b.concat(parts, rank);
}

bool is_complex(const aten::Argument& argument) {
  if (argument.get<std::complex<double>>()) return true;
  const aten::Value* value = argument.as_value();
  return value && value->type.is_tensor() && is_complex(value->type.dtype);
}

Complex complex_argument(const Call& call, size_t i, DType part) {
  Builder& b = call.builder();
  const aten::Argument& argument = call.argument(i);
  if (const auto* number = argument.get<std::complex<double>>())
    return {b.scalar(part, number->real()), b.scalar(part, number->imag())};
  if (!is_complex(argument)) return {argument_as(call, i, part), nullptr};
  const Complex z = split(b, call.tensor(i));
  return {b.cast(z.real, part), b.cast(z.imaginary, part)};
}

DType part_dtype(const Call& call) {
  for (const aten::Value* output : call.node().outputs) {
    if (is_complex(output->type.dtype)) return real_dtype(output->type.dtype);
  }
  aten::ResultType common;
  for (const aten::Argument& argument : call.node().arguments) {
    const aten::Value* value = argument.as_value();
    if (!value || !value->type.is_tensor()) continue;
    if (is_floating(value->type.dtype) || is_complex(value->type.dtype))
      common.add_tensor(value->type.dtype, !value->type.shape || !value->type.shape->empty());
  }
  return real_dtype(complex_dtype(float_dtype(common.get())));
}

Complex add(Builder& b, const Complex& x, const Complex& y) {
  const Value imaginary = !x.imaginary   ? y.imaginary
                          : !y.imaginary ? x.imaginary
                                         : b.Add(x.imaginary, y.imaginary);
  return {b.Add(x.real, y.real), imaginary};
}

Complex sub(Builder& b, const Complex& x, const Complex& y) { return add(b, x, negated(b, y)); }

Complex mul(Builder& b, const Complex& x, const Complex& y) {
  if (!x.imaginary && !y.imaginary) return {b.Mul(x.real, y.real)};
  if (!y.imaginary) return {b.Mul(x.real, y.real), b.Mul(x.imaginary, y.real)};
  if (!x.imaginary) return {b.Mul(x.real, y.real), b.Mul(x.real, y.imaginary)};
  return {b.Sub(b.Mul(x.real, y.real), b.Mul(x.imaginary, y.imaginary)),
          b.Add(b.Mul(x.real, y.imaginary), b.Mul(x.imaginary, y.real))};
}

// Scales both operands by the divisor's larger part, so that squares neither overflow nor
// underflow.
Complex div(Builder& b, const Complex& x, const Complex& y) {
  if (!y.imaginary)
    return {b.Div(x.real, y.real), x.imaginary ? b.Div(x.imaginary, y.real) : nullptr};
  const Value longer = b.Max(b.Abs(y.real), b.Abs(y.imaginary));
  const auto scaled = [&](Value part) { return part ? b.Div(part, longer) : nullptr; };
  const Complex divisor{scaled(y.real), scaled(y.imaginary)};
  const Value square =
      b.Add(b.Mul(divisor.real, divisor.real), b.Mul(divisor.imaginary, divisor.imaginary));
  const Complex product = mul(b, {scaled(x.real), scaled(x.imaginary)}, conjugate(b, divisor));
  return {b.Div(product.real, square), b.Div(product.imaginary, square)};
}

Complex negated(Builder& b, const Complex& z) {
  return {b.Neg(z.real), z.imaginary ? b.Neg(z.imaginary) : nullptr};
}

Complex conjugate(Builder& b, const Complex& z) {
  return {z.real, z.imaginary ? b.Neg(z.imaginary) : nullptr};
}

Value conjugate(Builder& b, Value pairs) {
  if (is_joined(pairs)) return join(b, conjugate(b, split(b, pairs)));
  const double signs[] = {1, -1};
  return b.Mul(pairs, b.tensor(make_tensor(pairs->dtype, {2}, signs)));
}

Complex reciprocal(Builder& b, const Complex& z) { return div(b, {b.like(z.real, 1)}, z); }

// Uses a wider dtype, in which the squares cannot overflow; hypot where there is none.
Value absolute(Builder& b, Value pairs) {
  const DType dtype = pairs->dtype;
  if (dtype == DType::f64) return hypot(b, part(b, pairs, false), part(b, pairs, true));
  const Value wide = b.cast(pairs, dtype == DType::f32 ? DType::f64 : DType::f32);
  return b.cast(b.reduce("ReduceL2", wide, {-1}, /*keepdims=*/false), dtype);
}

Value absolute(Builder& b, const Complex& z) {
  return z.imaginary ? absolute(b, join(b, z)) : b.Abs(z.real);
}

Complex polar(Builder& b, Value length, Value angle) {
  return {b.Mul(length, b.Cos(angle)), b.Mul(length, b.Sin(angle))};
}

Value with_sign_of(Builder& b, Value magnitude, Value sign) {
  return b.where(sign_bit(b, sign), b.Neg(magnitude), magnitude);
}

// Computes the part that does not cancel, and the other one by division.
Complex sqrt(Builder& b, const Complex& z) {
  const Value zero = b.like(z.real, 0);
  const Value half = b.like(z.real, 0.5);
  const Value sum = b.Add(b.Mul(absolute(b, z), half), b.Mul(b.Abs(z.real), half));
  const Value longer = b.Sqrt(sum);
  const Value divisor = b.where(b.Equal(longer, zero), b.like(longer, 1), longer);
  const Value shorter = b.Div(b.Mul(b.Abs(z.imaginary), half), divisor);
  const Value negative = b.Less(z.real, zero);
  return {b.where(negative, shorter, longer),
          with_sign_of(b, b.where(negative, longer, shorter), z.imaginary)};
}

}  // namespace onnx_native::ops
