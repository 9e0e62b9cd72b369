#include <algorithm>

#include "base/dim_terms.h"

namespace onnx_native {
namespace {

using Bound = std::optional<int64_t>;

// Atoms replaced one after the other, and sums looked at in all.
constexpr int kDeepest = 3;
constexpr int kMostSteps = 1000;

Bound add(Bound a, Bound b) {
  int64_t sum;
  if (!a || !b || __builtin_add_overflow(*a, *b, &sum)) return std::nullopt;
  return sum;
}

Bound multiply(Bound a, Bound b) {
  int64_t product;
  if (!a || !b || __builtin_mul_overflow(*a, *b, &product)) return std::nullopt;
  return product;
}

Bounds multiply(const Bounds& a, const Bounds& b) {
  if (a.low && b.low && *a.low >= 0 && *b.low >= 0) {
    return {multiply(a.low, b.low), multiply(a.high, b.high)};
  }
  const Bound corners[] = {multiply(a.low, b.low), multiply(a.low, b.high), multiply(a.high, b.low),
                           multiply(a.high, b.high)};
  if (!std::all_of(std::begin(corners), std::end(corners), [](Bound c) { return c.has_value(); })) {
    return {};
  }
  return {*std::min_element(std::begin(corners), std::end(corners)),
          *std::max_element(std::begin(corners), std::end(corners))};
}

Bounds scale(const Bounds& bounds, int64_t by) {
  return by >= 0 ? Bounds{multiply(bounds.low, by), multiply(bounds.high, by)}
                 : Bounds{multiply(bounds.high, by), multiply(bounds.low, by)};
}

Bound larger(Bound a, Bound b) { return a && b ? std::max(*a, *b) : a ? a : b; }
Bound smaller(Bound a, Bound b) { return a && b ? std::min(*a, *b) : a ? a : b; }

// Whether the name is one of Dim::fresh(). A size of an input that the user calls so is taken for
// one that may be 0, which is right too.
bool depends_on_data(std::string_view name) {
  const size_t stem = name.find_last_not_of("0123456789") + 1;
  return stem < name.size() && (name.substr(0, stem) == "u" || name.substr(0, stem) == "step");
}

Bounds factor_bounds(const Dim::Factor& factor, int64_t inputs_from) {
  if (factor.kind == Dim::Atom::symbol) {
    return {depends_on_data(factor.name) ? 0 : inputs_from, std::nullopt};
  }
  const Bounds a = bounds(factor.operands[0], inputs_from);
  const Bounds b = bounds(factor.operands[1], inputs_from);
  const Bound divisor = factor.operands[1].constant();
  const bool positive_divisor = b.low && *b.low >= 1;
  switch (factor.kind) {
    case Dim::Atom::floor_div:
      if (divisor && *divisor > 0) {
        const auto divide = [&](Bound bound) {
          return bound ? Bound(floor_divide(*bound, *divisor)) : std::nullopt;
        };
        return {divide(a.low), divide(a.high)};
      }
      // A divisor that is a size is not 0 where the quotient exists.
      if (a.low && *a.low >= 0 && b.low && *b.low >= 0) return {0, a.high};
      return {};
    case Dim::Atom::mod:
      if (b.low && *b.low >= 0) {
        Bound high = positive_divisor ? add(b.high, -1) : b.high;
        if (a.low && *a.low >= 0) high = smaller(high, a.high);
        return {0, high};
      }
      return {};
    case Dim::Atom::max:
      return {larger(a.low, b.low), a.high && b.high ? larger(a.high, b.high) : std::nullopt};
    default:
      return {a.low && b.low ? smaller(a.low, b.low) : std::nullopt, smaller(a.high, b.high)};
  }
}

// Whether the value is >= 0, replacing an atom by what bounds it from below in the sum. Gives up
// after `steps`.
bool non_negative(const Dim& dim, int64_t inputs_from, int depth, int& steps) {
  const Bounds range = bounds(dim, inputs_from);
  if (range.low && *range.low >= 0) return true;
  if (depth == 0 || --steps < 0 || (range.high && *range.high < 0)) return false;
  const auto holds = [&](const Dim& relaxed) {
    return non_negative(relaxed, inputs_from, depth - 1, steps);
  };
  for (const Dim::Term& term : dim.terms()) {
    if (term.factors.size() != 1 || term.factors[0].kind == Dim::Atom::symbol) continue;
    const Dim::Factor& factor = term.factors[0];
    const Dim& a = factor.operands[0];
    const Dim& b = factor.operands[1];
    const Dim coefficient = term.coefficient;
    const bool added = term.coefficient > 0;
    const Dim rest = dim - Dim::from_terms({term});
    switch (factor.kind) {
      case Dim::Atom::max:
      case Dim::Atom::min: {
        // The value is one of the two, and bounded by each from one side.
        const bool one_is_enough = added == (factor.kind == Dim::Atom::max);
        const bool with_a = holds(rest + coefficient * a);
        if (with_a == one_is_enough ? with_a : holds(rest + coefficient * b)) return true;
        break;
      }
      case Dim::Atom::floor_div:
        // a/b - 1 < a//b <= a/b
        if (const Bound divisor = b.constant(); divisor && *divisor > 0) {
          const Dim bound = added ? a - Dim(*divisor - 1) : a;
          if (holds(b * rest + coefficient * bound)) return true;
        }
        break;
      default:
        if (const Bounds low = bounds(a, inputs_from); !added && low.low && *low.low >= 0) {
          if (holds(rest + coefficient * a)) return true;
        }
        break;
    }
  }
  return false;
}

}  // namespace

Bounds bounds(const Dim& dim, int64_t inputs_from) {
  Bounds sum{0, 0};
  for (const Dim::Term& term : dim.terms()) {
    Bounds product{1, 1};
    for (const Dim::Factor& factor : term.factors) {
      product = multiply(product, factor_bounds(factor, inputs_from));
    }
    product = scale(product, term.coefficient);
    sum = {add(sum.low, product.low), add(sum.high, product.high)};
  }
  return sum;
}

bool Dim::known_non_negative() const {
  int steps = kMostSteps;
  return non_negative(*this, 0, kDeepest, steps);
}

bool Dim::known_positive(bool inputs_positive) const {
  if (const auto value = constant()) return *value > 0;
  int steps = kMostSteps;
  return non_negative(*this - Dim(1), inputs_positive ? 1 : 0, kDeepest, steps);
}

}  // namespace onnx_native
