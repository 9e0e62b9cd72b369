// Arithmetic with complex tensors, and conversions between real and complex tensors.
#include "ops/families.h"
#include "ops/formulas/axes.h"
#include "ops/formulas/complex.h"
#include "ops/formulas/numeric.h"

namespace onnx_native::ops {
namespace {

using Arithmetic = Complex (*)(Builder&, const Complex&, const Complex&);

// Returns argument i as pairs; if it is real, shaped to broadcast against pairs.
Value beside_pairs(const Call& call, size_t i, DType part) {
  Builder& b = call.builder();
  const Value value = argument_as(call, i, part);
  return is_complex(call.argument(i)) || value->rank() == 0 ? value : b.unsqueeze(value, {-1});
}

bool is_tensor_of_pairs(const Call& call, size_t i) {
  return call.argument(i).as_value() && is_complex(call.argument(i));
}

// Applies `onnx_op` to the pairs directly, where that equals complex arithmetic: for complex x and
// real y, or if `both`, for complex x and y. Returns nullopt for other arguments.
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

Value applied(const Call& call, std::string_view onnx_op, Arithmetic operation) {
  if (const auto pairs = on_pairs(call, onnx_op, false)) return *pairs;
  Builder& b = call.builder();
  const DType part = part_dtype(call);
  return join(b, operation(b, complex_argument(call, 0, part), complex_argument(call, 1, part)));
}

bool is_positive_number(const Call& call, size_t i) {
  return is_literal(call, i) && !call.scalar(i).is_complex() && call.scalar(i).to_double() > 0;
}

Value product(Builder& b, Ignored, Ignored, const Call& call) {
  const Value result = applied(call, "Mul", mul);
  const size_t real = is_complex(call.argument(0)) ? 1 : 0;
  if (is_complex(call.argument(real)) || is_positive_number(call, real)) return result;
  // Eager multiplies by the imaginary part of the real factor too, 0. Its sums have no negative
  // zeros, which would turn an angle of pi into -pi.
  return b.Add(result, b.like(result, 0.0));
}

Value quotient(Builder&, Ignored, Ignored, const Call& call) { return applied(call, "Div", div); }

void register_arithmetic(OpTable& ops) {
  def_both(ops, {"aten::add"}, sum_lowering<false>("Add", add));
  def_both(ops, {"aten::sub", "aten::subtract"}, sum_lowering<false>("Sub", sub));
  def_both(ops, {"aten::rsub"}, sum_lowering<true>("Sub", sub));
  def_both(ops, {"aten::mul", "aten::multiply"}, product);
  def_both(ops, {"aten::div", "aten::divide", "aten::true_divide"}, quotient);
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

// --- Conversions between real and complex tensors.

// Returns `self` cast to `dtype`; a cast from complex to a real number drops the imaginary part.
Value converted(const Call& call, DType dtype) {
  Builder& b = call.builder();
  const Value self = call.tensor(0);
  const bool from_complex = is_complex(call.argument(0));
  if (is_complex(dtype)) {
    const DType part = real_dtype(dtype);
    return from_complex ? b.cast(self, part) : join(b, {b.cast(self, part)});
  }
  return from_complex ? real_cast(b, self, dtype) : b.cast(self, dtype);
}

// Reinterprets the bytes: a pair becomes two neighbors on the last axis, and vice versa.
Value view_dtype(Builder& b, Value self, DType dtype, const Call& call) {
  const DType part = real_dtype(dtype);
  b.check(part == self->dtype, "cannot view a tensor with ", name(self->dtype), " parts as ",
          name(dtype));
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
}

}  // namespace onnx_native::ops
