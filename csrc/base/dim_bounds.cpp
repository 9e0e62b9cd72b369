#include <algorithm>
#include <limits>
#include <unordered_map>

#include "base/dim_order.h"
#include "base/dim_terms.h"

namespace onnx_native {
namespace {

// torch.export assumes that input sizes are at least this.
constexpr int64_t kCapturedFrom = 2;

using Bound = std::optional<int64_t>;

// Limits of non_negative(): the depth of nested replacements, and the total number of sums
// examined.
constexpr int kDeepestBound = 3;
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

Bounds symbol_bounds(const DimRange& range, int64_t inputs_from) {
  Bound low = range.low;
  if (range.is_input_size) low = larger(low, smaller(inputs_from, range.high));
  return {low, range.high};
}

// Returns the greatest absolute value.
Bound magnitude(const Bounds& range) {
  const Bound below = multiply(range.low, -1);
  return below && range.high ? Bound(std::max(*below, *range.high)) : std::nullopt;
}

// Returns bounds of a // b. The quotient exists only if the divisor is not 0.
Bounds quotient_bounds(const Bounds& a, const Bounds& b) {
  if (a.low && *a.low >= 0 && b.low && *b.low >= 0) return {0, a.high};
  const Bound most = magnitude(a);
  return {multiply(most, -1), most};
}

// Returns bounds of a % b, which has the sign of b and a smaller absolute value.
Bounds remainder_bounds(const Bounds& a, const Bounds& b) {
  Bound low = b.low ? Bound(*b.low >= 0 ? 0 : *b.low + 1) : std::nullopt;
  Bound high = b.high ? Bound(*b.high <= 0 ? 0 : *b.high - 1) : std::nullopt;
  if (a.low && *a.low >= 0 && b.low && *b.low >= 0) high = smaller(high, a.high);
  if (a.high && *a.high <= 0 && b.high && *b.high <= 0) low = larger(low, a.low);
  return {low, high};
}

Bounds square(const Bounds& range) {
  const Bound most = magnitude(range);
  Bound low = 0;
  if (range.low && *range.low > 0) low = multiply(range.low, range.low);
  if (range.high && *range.high < 0) low = multiply(range.high, range.high);
  return {low.value_or(0), multiply(most, most)};
}

Bounds factor_bounds(const Dim::Factor& factor, int64_t inputs_from) {
  if (factor.kind == Dim::Atom::symbol) return symbol_bounds(factor.range, inputs_from);
  const Bounds a = bounds(factor.operands[0], inputs_from);
  const Bounds b = bounds(factor.operands[1], inputs_from);
  const Bound divisor = factor.operands[1].constant();
  switch (factor.kind) {
    case Dim::Atom::floor_div:
      if (divisor && *divisor > 0) {
        const auto divide = [&](Bound bound) {
          return bound ? Bound(floor_divide(*bound, *divisor)) : std::nullopt;
        };
        return {divide(a.low), divide(a.high)};
      }
      return quotient_bounds(a, b);
    case Dim::Atom::mod:
      return remainder_bounds(a, b);
    case Dim::Atom::broadcast: {
      const bool positive = a.low && b.low && *a.low > 0 && *b.low > 0;
      return {!a.low || !b.low ? std::nullopt
              : positive       ? larger(a.low, b.low)
                               : smaller(a.low, b.low),
              a.high && b.high ? larger(a.high, b.high) : std::nullopt};
    }
    case Dim::Atom::max: {
      // max(x, -x) is the absolute value.
      const Bound least = factor.operands[0] == -factor.operands[1] ? Bound(0) : std::nullopt;
      return {larger(larger(a.low, b.low), least),
              a.high && b.high ? larger(a.high, b.high) : std::nullopt};
    }
    default: {
      const Bound most = factor.operands[0] == -factor.operands[1] ? Bound(0) : std::nullopt;
      return {a.low && b.low ? smaller(a.low, b.low) : std::nullopt,
              smaller(smaller(a.high, b.high), most)};
    }
  }
}

// Returns a lower bound of a sum that subtracts a remainder a % b: it is at most a, which the sum
// may hold too, as in n - n % 10.
Bound low_by_remainders(const Dim& dim, int64_t inputs_from) {
  for (const Dim::Term& term : dim.terms()) {
    if (term.coefficient >= 0 || term.factors.size() != 1) continue;
    const Dim::Factor& factor = term.factors[0];
    if (factor.kind != Dim::Atom::mod) continue;
    const Bounds a = bounds(factor.operands[0], inputs_from);
    const Bounds b = bounds(factor.operands[1], inputs_from);
    if (!a.low || *a.low < 0 || !b.low || *b.low < 0) continue;
    const WrapWatch watch;
    const Dim most = Dim(term.coefficient) * factor.operands[0];
    const Dim relaxed = dim - Dim::from_terms({term}) + most;
    return watch.wrapped() ? std::nullopt : bounds(relaxed, inputs_from).low;
  }
  return std::nullopt;
}

// Returns bounds of a product. Equal factors must be adjacent.
Bounds product_bounds(const std::vector<Dim::Factor>& factors, int64_t inputs_from) {
  Bounds product{1, 1};
  bool first = true;
  for (size_t i = 0; i < factors.size(); ++i) {
    Bounds factor = factor_bounds(factors[i], inputs_from);
    if (i + 1 < factors.size() && compare(factors[i], factors[i + 1]) == 0) {
      factor = square(factor);
      ++i;
    }
    product = first ? factor : multiply(product, factor);
    first = false;
  }
  return product;
}

// Returns true if the value is proved to be >= 0, by replacing atoms of the sum with their lower
// bounds. Gives up when `steps` runs out.
bool non_negative(const Dim& dim, int64_t inputs_from, int depth, int& steps) {
  const Bounds range = bounds(dim, inputs_from);
  if (range.low && *range.low >= 0) return true;
  if (depth == 0 || --steps < 0 || (range.high && *range.high < 0)) return false;
  const WrapWatch watch;
  const auto holds = [&](const Dim& relaxed) {
    return !watch.wrapped() && non_negative(relaxed, inputs_from, depth - 1, steps);
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
      case Dim::Atom::min:
      case Dim::Atom::broadcast: {
        // The value is one of the operands. Each operand bounds a maximum or a minimum from one
        // side.
        const bool one_is_enough =
            factor.kind != Dim::Atom::broadcast && added == (factor.kind == Dim::Atom::max);
        const bool with_a = holds(rest + coefficient * a);
        if (with_a == one_is_enough ? with_a : holds(rest + coefficient * b)) return true;
        break;
      }
      case Dim::Atom::floor_div:
        // a/b - 1 < a//b <= a/b. An integer is >= 0 if b times it is >= 1 - b.
        if (const Bound divisor = b.constant(); divisor && *divisor > 0) {
          const Dim bound = added ? a - Dim(*divisor - 1) : a;
          if (holds(b * rest + coefficient * bound + Dim(*divisor - 1))) return true;
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

bool may_have_wrapped(const Dim& dim) {
  constexpr int64_t kLarge = int64_t{1} << 40;
  return !dim.is_constant() && std::ranges::any_of(dim.terms(), [](const Dim::Term& term) {
    return term.coefficient > kLarge || term.coefficient < -kLarge;
  });
}

Bounds bounds(const Dim& dim, int64_t inputs_from) {
  if (may_have_wrapped(dim)) return {};
  Bounds sum{0, 0};
  for (const Dim::Term& term : dim.terms()) {
    const Bounds product = scale(product_bounds(term.factors, inputs_from), term.coefficient);
    sum = {add(sum.low, product.low), add(sum.high, product.high)};
  }
  if (!sum.low || *sum.low < 0) sum.low = larger(sum.low, low_by_remainders(dim, inputs_from));
  return sum;
}

// torch narrows ranges by its own decisions (n >= 5 for x[:5], n <= 5 for a diagonal of five
// columns), even ranges that the user named. Neither the graph nor an archive tells these bounds
// from the user's. The model does not rely on them, so it stays correct outside them.
DimRange DimRange::captured_size(const DimRange& recorded) {
  DimRange range = input_size();
  range.captured_from = std::max(recorded.low.value_or(0), kCapturedFrom);
  return range;
}

Dim Dim::as_captured() const {
  if (is_constant()) return *this;
  std::unordered_map<std::string_view, Dim> captured;
  for_each_symbol([&captured](const Factor& symbol) {
    DimRange range = symbol.range;
    if (!range.is_input_size || range.low.value_or(0) >= range.captured_from) return;
    range.low = std::min(range.captured_from, range.high.value_or(range.captured_from));
    captured.emplace(symbol.name, of({Atom::symbol, symbol.name, {}, range}));
  });
  if (captured.empty()) return *this;
  return substitute([&captured](std::string_view name) {
    const auto at = captured.find(name);
    return at == captured.end() ? std::nullopt : std::optional(at->second);
  });
}

DimRange Dim::range() const {
  const Bounds range = bounds(*this, 0);
  return {range.low, range.high};
}

bool Dim::known_non_negative() const {
  int steps = kMostSteps;
  return non_negative(*this, 0, kDeepestBound, steps);
}

bool Dim::known_positive(bool inputs_positive) const {
  return known_greater(*this, 0, inputs_positive);
}

bool known_at_least(const Dim& a, const Dim& b, bool inputs_positive) {
  const int64_t inputs_from = inputs_positive ? 1 : 0;
  const Bound low = bounds(a, inputs_from).low;
  const Bound high = bounds(b, inputs_from).high;
  if (low && high && *low >= *high) return true;
  if (may_have_wrapped(a) || may_have_wrapped(b)) return false;
  const WrapWatch watch;
  const Dim difference = a - b;
  int steps = kMostSteps;
  return !watch.wrapped() && non_negative(difference, inputs_from, kDeepestBound, steps);
}

bool known_greater(const Dim& a, const Dim& b, bool inputs_positive) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  if (const Bound value = b.constant())
    return *value < kMost && known_at_least(a, *value + 1, inputs_positive);
  return !may_have_wrapped(b) && known_at_least(a, b + 1, inputs_positive);
}

}  // namespace onnx_native
