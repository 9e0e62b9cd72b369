// Complex tensors: their parts, and arithmetic with them.
#include "ops/complex.h"

#include "ops/axes.h"
#include "ops/families.h"
#include "ops/numeric.h"
#include "ops/view.h"

namespace onnx_native::ops {
namespace {

// What `join` made a part of pairs from; nullptr when it did not.
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
  std::optional<DType> part;
  for (const aten::Argument& argument : call.node().arguments) {
    const aten::Value* value = argument.as_value();
    if (!value || !value->type.is_tensor()) continue;
    const DType dtype = real_dtype(value->type.dtype);
    if (is_floating(dtype)) part = part ? promote_types(*part, dtype) : dtype;
  }
  return part.value_or(real_dtype(complex_dtype(default_dtype())));
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

// Both scaled by the divisor's longer part, so that squares neither overflow nor vanish.
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

// Squares of float32 numbers fit float64.
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

namespace {

using Arithmetic = Complex (*)(Builder&, const Complex&, const Complex&);

// Argument i as pairs, or as what broadcasts with pairs where it is real.
Value beside_pairs(const Call& call, size_t i, DType part) {
  Builder& b = call.builder();
  const Value value = argument_as(call, i, part);
  return is_complex(call.argument(i)) || value->rank() == 0 ? value : b.unsqueeze(value, {-1});
}

bool is_tensor_of_pairs(const Call& call, size_t i) {
  return call.argument(i).as_value() && is_complex(call.argument(i));
}

// Of pairs, where that is the same as of complex numbers: x op y with x complex and y real, or with
// both complex when `both`.
std::optional<Value> on_pairs(const Call& call, std::string_view onnx_op, bool both) {
  if (!is_tensor_of_pairs(call, 0) || call.argument(1).get<std::complex<double>>())
    return std::nullopt;
  if (is_complex(call.argument(1)) != both) return std::nullopt;
  const DType part = part_dtype(call);
  return call.builder().op(onnx_op, {beside_pairs(call, 0, part), beside_pairs(call, 1, part)});
}

template <class F>
void def_both(OpTable& ops, std::initializer_list<std::string_view> names, const F& lowering) {
  for (std::string_view name : names) {
    for (std::string_view overload : {".Tensor", ".Scalar"})
      ops.def(std::string(name) + std::string(overload), Key::complex, lowering);
  }
}

Complex times_alpha(const Call& call, const Complex& z, DType part) {
  const Complex alpha = complex_argument(call, 2, part);
  return !alpha.imaginary && is_literal(call, 2) && is_one(call.scalar(2))
             ? z
             : mul(call.builder(), z, alpha);
}

template <bool kReversed>
auto sum_lowering(std::string_view onnx_op, Arithmetic operation) {
  return [=](Builder& b, Ignored, Ignored, Ignored, const Call& call) {
    const DType part = part_dtype(call);
    const bool plain = !is_complex(call.argument(2)) && is_one(call.scalar(2));
    if (!kReversed && plain) {
      if (const auto pairs = on_pairs(call, onnx_op, true)) return *pairs;
    }
    const Complex self = complex_argument(call, 0, part);
    const Complex other = complex_argument(call, 1, part);
    return join(b, kReversed ? operation(b, other, times_alpha(call, self, part))
                             : operation(b, self, times_alpha(call, other, part)));
  };
}

auto product_lowering(std::string_view onnx_op, Arithmetic operation) {
  return [=](Builder& b, Ignored, Ignored, const Call& call) {
    if (const auto pairs = on_pairs(call, onnx_op, false)) return *pairs;
    const DType part = part_dtype(call);
    return join(b, operation(b, complex_argument(call, 0, part), complex_argument(call, 1, part)));
  };
}

void register_arithmetic(OpTable& ops) {
  def_both(ops, {"aten::add"}, sum_lowering<false>("Add", add));
  def_both(ops, {"aten::sub", "aten::subtract"}, sum_lowering<false>("Sub", sub));
  def_both(ops, {"aten::rsub"}, sum_lowering<true>("Sub", sub));
  def_both(ops, {"aten::mul", "aten::multiply"}, product_lowering("Mul", mul));
  def_both(ops, {"aten::div", "aten::divide", "aten::true_divide"}, product_lowering("Div", div));
  for (bool equal : {true, false}) {
    def_both(ops, {equal ? "aten::eq" : "aten::ne"},
             [equal](Builder& b, Ignored, Ignored, const Call& call) {
               const DType part = part_dtype(call);
               const Complex x = complex_argument(call, 0, part);
               const Complex y = complex_argument(call, 1, part);
               const Value same = b.And(b.Equal(x.real, y.real),
                                        b.Equal(imaginary_part(b, x), imaginary_part(b, y)));
               return equal ? same : b.Not(same);
             });
  }
}

// --- Between real and complex tensors.

// `self` as of this dtype: a complex number cast to a real one loses its imaginary part.
Value converted(const Call& call, DType dtype) {
  Builder& b = call.builder();
  const Value self = call.tensor(0);
  const bool from_complex = is_complex(call.argument(0));
  if (is_complex(dtype)) {
    const DType part = real_dtype(dtype);
    return from_complex ? b.cast(self, part) : join(b, {b.cast(self, part)});
  }
  if (!from_complex) return b.cast(self, dtype);
  const Complex z = split(b, self);
  return dtype == DType::boolean ? b.Or(b.cast(z.real, dtype), b.cast(z.imaginary, dtype))
                                 : b.cast(z.real, dtype);
}

// The same bytes: pairs become neighbours on the last axis, and neighbours pairs.
Value view_dtype(Builder& b, Value self, DType dtype, const Call& call) {
  const DType part = real_dtype(dtype);
  b.check(part == self->dtype, "a view of ", name(self->dtype), " parts as ", name(dtype));
  const bool from_complex = is_complex(call.argument(0));
  if (from_complex == is_complex(dtype)) return self;
  const Shape shape = self->known_shape();
  if (from_complex) return b.flatten(self, -2, -1);
  Shape pairs = part_of(shape, 0, -1);
  pairs.insert(pairs.end(), {Dim::floor_div(shape.back(), 2), 2});
  return b.reshape(self, pairs);
}

void register_conversions(OpTable& ops) {
  const auto to_result = [](const Call& call) {
    return converted(call, call.result_type(0).dtype);
  };
  for (std::string_view op : {"aten::_to_copy", "aten::to.dtype_layout", "aten::chalf"})
    ops.def(op, Key::complex,
            [to_result](Builder&, Ignored, const Call& call) { return to_result(call); });
  for (std::string_view op : {"aten::to.dtype", "aten::to.other", "aten::type_as"})
    ops.def(op, Key::complex,
            [to_result](Builder&, Ignored, Ignored, const Call& call) { return to_result(call); });
  ops.def("aten::to.device", Key::complex,
          [to_result](Builder&, Ignored, Ignored, Ignored, const Call& call) {
            return to_result(call);
          });
  ops.def("aten::view.dtype", Key::complex, view_dtype);

  ops.def("aten::complex", Key::complex, [](Builder& b, Value real, Value imag) {
    return join(b, {real, imag});
  });
  ops.def("aten::polar", Key::complex,
          [](Builder& b, Value abs, Value angle) { return join(b, polar(b, abs, angle)); });
  ops.def("aten::view_as_complex", Key::complex, [](Builder&, Value self) { return self; });
  ops.def("aten::view_as_real", Key::complex, [](Builder&, Value self) { return self; });
  ops.def("aten::real", Key::complex, [](Builder& b, Value self) { return part(b, self, false); });
  ops.def("aten::imag", Key::complex, [](Builder& b, Value self) { return part(b, self, true); });
  for (std::string_view op : {"aten::conj", "aten::_conj", "aten::conj_physical",
                              "aten::_conj_physical", "aten::_conj_copy"})
    ops.def(op, Key::complex, [](Builder& b, Value self) { return conjugate(b, self); });
}

}  // namespace

void register_complex(OpTable& ops) {
  register_conversions(ops);
  register_arithmetic(ops);
  register_complex_views(ops);
  register_complex_sums(ops);
  register_complex_functions(ops);
}

}  // namespace onnx_native::ops
