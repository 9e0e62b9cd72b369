// Numbers that the model computes: Python arithmetic on sizes and on numbers read from tensors.
#include <cmath>

#include "ops/families.h"
#include "ops/formulas/numeric.h"
#include "ops/formulas/view.h"

namespace onnx_native::ops {
namespace {

// Returns the dtype of a number: Python's int is int64 and its float is float64.
DType number_dtype(const Call& call, size_t i) {
  const aten::Argument& argument = call.argument(i);
  if (argument.get<double>()) return DType::f64;
  if (argument.get<bool>()) return DType::boolean;
  aten::Value* value = argument.as_value();
  if (!value) return DType::i64;
  const Lowered& known = call.lowered(value);
  if (known.dim) return DType::i64;
  if (is_floating(known.value->dtype)) return DType::f64;
  return known.value->dtype == DType::boolean ? DType::boolean : DType::i64;
}

// Both operands as 0-d tensors of the dtype that Python computes in.
struct Operands {
  DType dtype = DType::i64;
  Value left, right;

  explicit Operands(const Call& call, DType at_least = DType::i64) : dtype(at_least) {
    for (size_t i : {0, 1}) {
      if (number_dtype(call, i) == DType::f64) dtype = DType::f64;
    }
    left = call.tensor(0, dtype);
    right = call.tensor(1, dtype);
  }
};

Value floor_divide(Builder& b, const Operands& x) {
  if (x.dtype == DType::f64) return floor_divided(b, x.left, x.right);
  return b.Div(b.Sub(x.left, b.op("Mod", {x.left, x.right})), x.right);
}

// A float remainder of zero has the sign of the divisor too.
Value modulo(Builder& b, const Operands& x) {
  const Value remainder = floored_remainder(b, x.left, x.right);
  if (x.dtype != DType::f64) return remainder;
  const Value zero = b.like(remainder, 0);
  const Value signed_zero = b.where(b.Less(x.right, zero), b.like(remainder, -0.0), zero);
  return b.where(b.Equal(remainder, zero), signed_zero, remainder);
}

// TorchScript's quotient of floats is rounded before the floor, unlike Python's: 5.0 // 0.1 is 50.
Value script_floor_divide(Builder& b, const Operands& x) { return b.Floor(b.Div(x.left, x.right)); }

Value script_remainder(Builder& b, const Operands& x) {
  const Value remainder = b.op("Mod", {x.left, x.right}, {{"fmod", 1}});
  return b.op("Mod", {b.Add(x.right, remainder), x.right}, {{"fmod", 1}});
}

void define(OpTable& ops, std::string_view key, DType at_least,
            Value (*compute)(Builder&, const Operands&)) {
  ops.def(std::string(key), [at_least, compute](Builder& b, Ignored, Ignored, const Call& call) {
    return compute(b, Operands(call, at_least));
  });
}

// Defines a Python operator as an ONNX operator on two numbers.
void binary(OpTable& ops, std::string_view name, std::string_view onnx_op,
            DType at_least = DType::i64) {
  ops.def("python::" + std::string(name),
          [at_least, onnx_op](Builder& b, Ignored, Ignored, const Call& call) {
            Operands x(call, at_least);
            return b.op(onnx_op, {x.left, x.right});
          });
}

// Defines a function that rounds a float to an integer.
void rounding(OpTable& ops, std::string_view name, std::string_view onnx_op) {
  ops.def("python::" + std::string(name), [onnx_op](Builder& b, Ignored, const Call& call) {
    b.check(call.size() < 2 || call.is_none(1), "round() with ndigits is not supported");
    return b.cast(b.op(onnx_op, {call.tensor(0, DType::f64)}), DType::i64);
  });
}

// Defines a function of Python's math module.
void math_function(OpTable& ops, std::string_view name, std::string_view onnx_op) {
  ops.def("python::_sym_" + std::string(name), [onnx_op](Builder& b, Ignored, const Call& call) {
    return b.op(onnx_op, {call.tensor(0, DType::f64)});
  });
}

// Defines a logarithm that is exact for powers of the base, as Python's are: programs round it.
void exact_logarithm(OpTable& ops, std::string_view name, double base) {
  ops.def("python::_sym_" + std::string(name), [base](Builder& b, Ignored, const Call& call) {
    const Value x = call.tensor(0, DType::f64);
    const Value quotient = b.Div(b.Log(x), b.scalar(DType::f64, std::log(base)));
    const Value whole = b.Round(quotient);
    const Value power = b.Pow(b.scalar(DType::f64, base), whole);
    return b.where(b.Equal(power, x), whole, quotient);
  });
}

// Defines an operator on bits: of two truths, or of integers.
void bitwise(OpTable& ops, std::string_view name, std::string_view on_truths,
             std::string_view on_integers) {
  ops.def("python::" + std::string(name),
          [on_truths, on_integers](Builder& b, Ignored, Ignored, const Call& call) {
            const auto is_truth = [&](size_t i) { return number_dtype(call, i) == DType::boolean; };
            const bool are_truths = is_truth(0) && is_truth(1);
            const DType dtype = are_truths ? DType::boolean : DType::i64;
            return b.op(are_truths ? on_truths : on_integers,
                        {call.tensor(0, dtype), call.tensor(1, dtype)});
          });
}

// Returns the number in a tensor of one element; integers become int64.
Value item(Builder& b, Value self) {
  const std::optional<int64_t> elements = self->shape ? numel(*self->shape).constant() : 1;
  b.check(elements.value_or(1) == 1, "only a tensor of one element is a number, but this has ",
          elements.value_or(1));
  Value number = b.reshape(self, {});
  return is_integral(self->dtype) ? b.cast(number, DType::i64) : number;
}

}  // namespace

void register_symbolic(OpTable& ops) {
  ops.def({"aten::item", "aten::_local_scalar_dense"}, item);

  binary(ops, "add", "Add");
  binary(ops, "sub", "Sub");
  binary(ops, "mul", "Mul");
  binary(ops, "truediv", "Div", DType::f64);
  binary(ops, "pow", "Pow");
  define(ops, "python::floordiv", DType::i64, floor_divide);
  define(ops, "python::mod", DType::i64, modulo);
  define(ops, "aten::floordiv.float", DType::f64, script_floor_divide);
  define(ops, "aten::remainder.float", DType::f64, script_remainder);
  binary(ops, "sym_max", "Max");
  binary(ops, "sym_min", "Min");
  binary(ops, "eq", "Equal");
  binary(ops, "lt", "Less");
  binary(ops, "le", "LessOrEqual");
  binary(ops, "gt", "Greater");
  binary(ops, "ge", "GreaterOrEqual");
  define(ops, "python::ne", DType::i64,
         [](Builder& b, const Operands& x) { return b.Not(b.Equal(x.left, x.right)); });

  bitwise(ops, "and_", "And", "BitwiseAnd");
  bitwise(ops, "or_", "Or", "BitwiseOr");
  ops.def("python::sym_not", [](Builder& b, Ignored, const Call& call) {
    return b.Not(call.tensor(0, DType::boolean));
  });
  ops.def("python::sym_ite", [](Builder& b, Value pred, Ignored, Ignored, const Call& call) {
    DType dtype = number_dtype(call, 1);
    if (number_dtype(call, 2) == DType::f64) dtype = DType::f64;
    return b.where(b.cast(pred, DType::boolean), call.tensor(1, dtype), call.tensor(2, dtype));
  });
  ops.def("python::neg", [](Builder& b, Ignored, const Call& call) {
    return b.Neg(call.tensor(0, number_dtype(call, 0)));
  });
  ops.def("python::abs", [](Builder& b, Ignored, const Call& call) {
    return b.Abs(call.tensor(0, number_dtype(call, 0)));
  });
  math_function(ops, "sqrt", "Sqrt");
  math_function(ops, "exp", "Exp");
  math_function(ops, "log", "Log");
  math_function(ops, "sin", "Sin");
  math_function(ops, "cos", "Cos");
  math_function(ops, "tanh", "Tanh");
  exact_logarithm(ops, "log2", 2);
  exact_logarithm(ops, "log10", 10);
  ops.def("python::sym_float",
          [](Builder&, Ignored, const Call& call) { return call.tensor(0, DType::f64); });
  ops.def("python::trunc", [](Builder& b, Ignored, const Call& call) {
    return b.cast(call.tensor(0, DType::f64), DType::i64);
  });
  rounding(ops, "floor", "Floor");
  rounding(ops, "ceil", "Ceil");
  rounding(ops, "round", "Round");
}

}  // namespace onnx_native::ops
