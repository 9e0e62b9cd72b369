// Window functions of signals.
#include <cmath>
#include <functional>
#include <numbers>
#include <optional>
#include <vector>

#include "ops/families.h"
#include "ops/formulas/series.h"

namespace onnx_native::ops {
namespace {

using OptionalDType = std::optional<DType>;
using Formula = std::function<Value(Builder&, Value)>;

// Returns a window of this length. `formula` takes float64 positions, where 0 is the first element
// and 1 is the last one, or the one after it if `periodic`. A window of length 1 is 1.
Value window(Builder& b, const Dim& length, bool periodic, const OptionalDType& dtype,
             const Formula& formula) {
  const DType type = dtype.value_or(default_dtype());
  b.check(is_floating(type), "a window cannot have dtype ", name(type),
          "; choose a floating-point dtype");
  if (length.equals(1)) return b.full(type, 1, {1});
  const Value numbers = b.cast(b.range(length), DType::f64);
  const Value steps = b.cast(b.dim_value(periodic ? length : length - 1), DType::f64);
  Value values = formula(b, b.Div(numbers, steps));
  if (!length.is_constant()) {
    const Value single = b.Equal(b.dim_value(length), b.i64(1));
    values = b.where(single, f64(b, 1), values);
  }
  return b.cast(values, type);
}

Value cosine(Builder& b, Value position, double turns) {
  return b.Cos(b.Mul(position, f64(b, turns * 2 * std::numbers::pi)));
}

Formula hamming(const Number& alpha, const Number& beta) {
  return [=](Builder& b, Value x) {
    return b.Sub(b.like(x, alpha), b.Mul(cosine(b, x, 1), b.like(x, beta)));
  };
}

Value hann(Builder& b, Value x) { return hamming(0.5, 0.5)(b, x); }

Value blackman(Builder& b, Value x) {
  const Value second = b.Mul(cosine(b, x, 2), f64(b, 0.08));
  return b.Add(b.Sub(second, b.Mul(cosine(b, x, 1), f64(b, 0.5))), f64(b, 0.42));
}

Value bartlett(Builder& b, Value x) {
  const Value rising = b.Mul(x, f64(b, 2));
  return b.Min(rising, b.Sub(f64(b, 2), rising));
}

// I0(beta * root) / I0(beta) with root = sqrt(1 - (2x - 1)^2), by the power series of I0 in root^2,
// whose terms are all positive.
Formula kaiser(double beta) {
  return [beta](Builder& b, Value x) {
    b.check(std::abs(beta) <= 600, "beta must be between -600 and 600, got ", beta);
    std::vector<double> terms{1};
    double sum = 1;
    for (double k = 1; terms.back() > sum * 1e-20 || k <= std::abs(beta); ++k) {
      const double factor = beta / (2 * k);
      terms.push_back(terms.back() * factor * factor);
      sum += terms.back();
    }
    for (double& term : terms) term /= sum;
    const Value side = b.Sub(b.Mul(x, f64(b, 2)), f64(b, 1));
    const Value square = b.Max(b.Sub(f64(b, 1), b.Mul(side, side)), f64(b, 0));
    return polynomial(b, square, terms);
  };
}

void define_window(OpTable& ops, const std::string& name, const Formula& formula) {
  ops.def("aten::" + name, [formula](Builder& b, Dim length, OptionalDType dtype) {
    return window(b, length, /*periodic=*/true, dtype, formula);
  });
  ops.def("aten::" + name + ".periodic",
          [formula](Builder& b, Dim length, bool periodic, OptionalDType dtype) {
            return window(b, length, periodic, dtype, formula);
          });
}

}  // namespace

void register_window(OpTable& ops) {
  define_window(ops, "hann_window", hann);
  define_window(ops, "hamming_window", hamming(0.54, 0.46));
  define_window(ops, "blackman_window", blackman);
  define_window(ops, "bartlett_window", bartlett);
  define_window(ops, "kaiser_window", kaiser(12));
  ops.def("aten::hamming_window.periodic_alpha",
          [](Builder& b, Dim length, bool periodic, Number alpha, OptionalDType dtype) {
            return window(b, length, periodic, dtype, hamming(alpha, 0.46));
          });
  ops.def(
      "aten::hamming_window.periodic_alpha_beta",
      [](Builder& b, Dim length, bool periodic, Number alpha, Number beta, OptionalDType dtype) {
        return window(b, length, periodic, dtype, hamming(alpha, beta));
      });
  ops.def("aten::kaiser_window.beta",
          [](Builder& b, Dim length, bool periodic, double beta, OptionalDType dtype) {
            return window(b, length, periodic, dtype, kaiser(beta));
          });
}

}  // namespace onnx_native::ops
