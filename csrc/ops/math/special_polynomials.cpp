// Orthogonal polynomials by their three-term recurrences (DLMF 18.9.1), in float64.
#include <limits>

#include "base/weight.h"
#include "ops/formulas/loop.h"
#include "ops/formulas/series.h"
#include "ops/formulas/view.h"

namespace onnx_native::ops {
namespace {

Value twice(Builder& b, Value x) { return b.Mul(x, f64(b, 2)); }
Value next_of(Builder& b, Value k) { return b.Add(k, f64(b, 1)); }

// A family: the polynomial of degree 1, and the recurrence that gives degree k + 1 from degrees k
// and k - 1. Degree 0 is 1; a negative degree is 0.
struct Family {
  std::string_view name;
  Value (*first)(Builder& b, Value x);
  Value (*next)(Builder& b, Value x, Value k, Value current, Value previous);
  // Maps x to the variable of the recurrence.
  Value (*variable)(Builder& b, Value x) = nullptr;
  // ATen returns NaN above these degrees, for float32 and float64.
  std::optional<std::pair<int64_t, int64_t>> limits = std::nullopt;
};

Value chebyshev(Builder& b, Value x, Value, Value current, Value previous) {
  return b.Sub(b.Mul(twice(b, x), current), previous);
}

Value hermite_h(Builder& b, Value x, Value k, Value current, Value previous) {
  return twice(b, b.Sub(b.Mul(x, current), b.Mul(k, previous)));
}

Value hermite_he(Builder& b, Value x, Value k, Value current, Value previous) {
  return b.Sub(b.Mul(x, current), b.Mul(k, previous));
}

Value laguerre(Builder& b, Value x, Value k, Value current, Value previous) {
  const Value factor = b.Sub(next_of(b, twice(b, k)), x);
  return b.Div(b.Sub(b.Mul(factor, current), b.Mul(k, previous)), next_of(b, k));
}

Value legendre(Builder& b, Value x, Value k, Value current, Value previous) {
  const Value factor = b.Mul(next_of(b, twice(b, k)), x);
  return b.Div(b.Sub(b.Mul(factor, current), b.Mul(k, previous)), next_of(b, k));
}

Value itself(Builder&, Value x) { return x; }
Value twice_less_one(Builder& b, Value x) { return b.Sub(twice(b, x), f64(b, 1)); }
Value twice_and_one(Builder& b, Value x) { return b.Add(twice(b, x), f64(b, 1)); }
Value one_less(Builder& b, Value x) { return b.Sub(f64(b, 1), x); }

constexpr std::pair<int64_t, int64_t> kHermiteLimits{128, 512};

const Family kFamilies[] = {
    {.name = "chebyshev_polynomial_t", .first = itself, .next = chebyshev},
    {.name = "chebyshev_polynomial_u", .first = twice, .next = chebyshev},
    {.name = "chebyshev_polynomial_v", .first = twice_less_one, .next = chebyshev},
    {.name = "chebyshev_polynomial_w", .first = twice_and_one, .next = chebyshev},
    {.name = "shifted_chebyshev_polynomial_t",
     .first = itself,
     .next = chebyshev,
     .variable = twice_less_one},
    {.name = "shifted_chebyshev_polynomial_u",
     .first = twice,
     .next = chebyshev,
     .variable = twice_less_one},
    {.name = "shifted_chebyshev_polynomial_v",
     .first = twice_less_one,
     .next = chebyshev,
     .variable = twice_less_one},
    {.name = "shifted_chebyshev_polynomial_w",
     .first = twice_and_one,
     .next = chebyshev,
     .variable = twice_less_one},
    {.name = "hermite_polynomial_h", .first = twice, .next = hermite_h, .limits = kHermiteLimits},
    {.name = "hermite_polynomial_he",
     .first = itself,
     .next = hermite_he,
     .limits = kHermiteLimits},
    {.name = "laguerre_polynomial_l", .first = one_less, .next = laguerre},
    {.name = "legendre_polynomial_p", .first = itself, .next = legendre},
};

// Evaluates one known degree.
Value of_degree(Builder& b, const Family& family, Value x, int64_t n) {
  static constexpr int64_t kUnrolled = 8;
  const Shape& shape = x->known_shape();
  if (n <= 0) return b.expand(f64(b, n < 0 ? 0 : 1), shape);
  Value current = family.first(b, x);
  if (n == 1) return current;
  Value previous = f64(b, 1);
  if (n <= kUnrolled) {
    for (int64_t k = 1; k < n; ++k) {
      const Value next = family.next(b, x, f64(b, static_cast<double>(k)), current, previous);
      previous = std::exchange(current, next);
    }
    return current;
  }
  const auto step = [&](Value iteration, const Values& states) {
    const Value k = next_of(b, b.cast(iteration, DType::f64));
    return Values{family.next(b, x, k, states[0], states[1]), states[0]};
  };
  return loop(b, b.i64(n - 1), {current, b.expand(previous, shape)}, step)[0];
}

// Evaluates a degree per element: the recurrence runs up to the highest degree, and an element
// stops changing at its own degree.
Value of_degrees(Builder& b, const Family& family, Value x, Value n) {
  const Values both = broadcast_all(b, {x, b.cast(n, DType::i64)});
  x = both[0];
  n = both[1];
  const Value one = b.i64(1);
  const Value zero = b.i64(0);
  const Value flat = b.reshape(n, {numel(n->known_shape())});
  const Value highest = b.reduce("ReduceMax", b.concat({flat, b.i64s({1})}, 0), {}, false);
  const Value ones = b.expand(f64(b, 1), x->known_shape());
  const auto step = [&](Value iteration, const Values& states) {
    const Value k = b.Add(iteration, one);
    const Value next = family.next(b, x, b.cast(k, DType::f64), states[0], states[1]);
    return Values{b.where(b.Less(k, n), next, states[0]), states[0]};
  };
  const Value result = loop(b, b.Sub(highest, one), {family.first(b, x), ones}, step)[0];
  const Value low = b.where(b.Equal(n, zero), f64(b, 1), f64(b, 0));
  return b.where(b.Greater(n, zero), result, low);
}

Value evaluate(Builder& b, const Family& family, Value x, Value n) {
  const DType dtype = x->dtype;
  x = b.cast(x, DType::f64);
  if (family.variable) x = family.variable(b, x);
  Value result = nullptr;
  if (has_elements(n->constant) && n->rank() == 0) {
    result = of_degree(b, family, x, n->constant->integer(0));
  } else {
    result = of_degrees(b, family, x, n);
  }
  if (family.limits) {
    const int64_t limit = dtype == DType::f64 ? family.limits->second : family.limits->first;
    const Value beyond = b.Greater(n, b.like(n, static_cast<double>(limit)));
    result = b.where(beyond, f64(b, std::numeric_limits<double>::quiet_NaN()), result);
  }
  return b.cast(result, dtype);
}

}  // namespace

void register_special_polynomials(OpTable& ops) {
  for (const Family& family : kFamilies) {
    const std::string key = "aten::special_" + std::string(family.name);
    for (const char* overload : {"", ".x_scalar", ".n_scalar"}) {
      ops.def(key + overload, Promote::int_to_float,
              [&family](Builder& b, Value x, Value n) { return evaluate(b, family, x, n); });
    }
  }
}

}  // namespace onnx_native::ops
