// The operations that create atoms, and their simplifications.
#include <algorithm>
#include <limits>
#include <numeric>

#include "base/dim_order.h"
#include "base/dim_terms.h"

namespace onnx_native {
namespace {

using Terms = std::vector<Dim::Term>;

// Simplification multiplies divisors and dividends; larger numbers could overflow.
constexpr int64_t kLarge = std::numeric_limits<int32_t>::max();

bool has_large_number(const Dim& dim) {
  return std::ranges::any_of(dim.terms(), [](const Dim::Term& term) {
    return term.coefficient > kLarge || term.coefficient < -kLarge ||
           std::ranges::any_of(term.factors, [](const Dim::Factor& factor) {
             return std::ranges::any_of(factor.operands, has_large_number);
           });
  });
}

bool is_large(const Dim& dim) {
  if (has_large_number(dim)) return true;
  const Bounds range = bounds(dim, 0);
  return range.high.value_or(0) > kLarge || range.low.value_or(0) < -kLarge;
}

bool factor_less(const Dim::Factor& a, const Dim::Factor& b) { return compare(a, b) < 0; }

// Returns term / by if that is a monomial with an integer coefficient.
std::optional<Dim::Term> divide(const Dim::Term& term, const Dim::Term& by) {
  if (floor_modulo(term.coefficient, by.coefficient) != 0) return std::nullopt;
  if (!std::includes(term.factors.begin(), term.factors.end(), by.factors.begin(), by.factors.end(),
                     factor_less)) {
    return std::nullopt;
  }
  Dim::Term quotient{floor_divide(term.coefficient, by.coefficient), {}};
  std::set_difference(term.factors.begin(), term.factors.end(), by.factors.begin(),
                      by.factors.end(), std::back_inserter(quotient.factors), factor_less);
  return quotient;
}

// A sum split into quotient * monomial + rest.
struct Split {
  Dim quotient;
  Dim rest;
};
Split split_by(const Dim& a, const Dim::Term& by) {
  Terms quotient;
  Terms rest;
  for (const Dim::Term& term : a.terms()) {
    if (auto divided = divide(term, by)) {
      quotient.push_back(std::move(*divided));
    } else {
      rest.push_back(term);
    }
  }
  return {Dim::from_terms(std::move(quotient)), Dim::from_terms(std::move(rest))};
}

// Returns the quotient of two polynomials if there is no remainder.
std::optional<Dim> divide_exactly(const Dim& a, const Dim& b) {
  constexpr int kMostSteps = 32;
  const WrapWatch watch;
  Dim rest = a;
  Dim quotient = 0;
  for (int step = 0; step < kMostSteps && !watch.wrapped(); ++step) {
    if (rest.terms().empty()) return quotient;
    const auto leading = divide(rest.terms().front(), b.terms().front());
    if (!leading) return std::nullopt;
    const Dim part = Dim::from_terms({*leading});
    quotient = quotient + part;
    rest = rest - part * b;
  }
  return std::nullopt;
}

// Returns the greatest monomial that divides every term of both.
Dim::Term shared_monomial(const Dim& a, const Dim& b) {
  Dim::Term shared = a.terms().front();
  shared.coefficient = 0;
  for (const Dim* dim : {&a, &b}) {
    for (const Dim::Term& term : dim->terms()) {
      shared.coefficient = std::gcd(shared.coefficient, term.coefficient);
      std::vector<Dim::Factor> factors;
      std::set_intersection(shared.factors.begin(), shared.factors.end(), term.factors.begin(),
                            term.factors.end(), std::back_inserter(factors), factor_less);
      shared.factors = std::move(factors);
    }
  }
  return shared;
}

// Returns the atom if the term is a single atom of this kind with coefficient 1; else nullptr.
const Dim::Factor* sole_atom(const Dim::Term& term, Dim::Atom kind) {
  const bool sole = term.coefficient == 1 && term.factors.size() == 1;
  return sole && term.factors[0].kind == kind ? &term.factors[0] : nullptr;
}

// Computes a // k for k > 1. In the remaining atom the constant is in [0, k) and the first
// coefficient is positive.
Dim floor_div_constant(const Dim& a, int64_t k) {
  Terms whole;
  Terms inside;
  int64_t constant = 0;
  for (const Dim::Term& term : a.terms()) {
    if (term.factors.empty()) {
      whole.push_back({floor_divide(term.coefficient, k), {}});
      constant = floor_modulo(term.coefficient, k);
    } else if (term.coefficient % k == 0) {
      whole.push_back({term.coefficient / k, term.factors});
    } else {
      inside.push_back(term);
    }
  }
  Dim out = Dim::from_terms(std::move(whole));
  if (inside.empty()) return out;

  int64_t shared = k;
  for (const Dim::Term& term : inside) shared = std::gcd(shared, term.coefficient);
  for (Dim::Term& term : inside) term.coefficient /= shared;
  constant /= shared;
  k /= shared;

  // (x//m + y)//k = (x + m*y)//(m*k)
  const Dim::Factor* nested = nullptr;
  size_t position = 0;
  int count = 0;
  for (size_t i = 0; i < inside.size(); ++i) {
    const Dim::Factor* atom = sole_atom(inside[i], Dim::Atom::floor_div);
    if (atom && atom->operands[1].constant_or(0) > 0) {
      nested = atom;
      position = i;
      ++count;
    }
  }
  if (count == 1) {
    Terms others = inside;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(position));
    others.push_back({constant, {}});
    const WrapWatch watch;
    const Dim& m = nested->operands[1];
    const Dim dividend = nested->operands[0] + m * Dim::from_terms(std::move(others));
    const Dim divisor = m * Dim(k);
    if (!watch.wrapped() && !is_large(divisor)) return out + Dim::floor_div(dividend, divisor);
  }

  const bool negative = inside.front().coefficient < 0;
  inside.push_back({constant, {}});
  const Dim rest = Dim::from_terms(std::move(inside));
  if (negative) {
    const WrapWatch watch;
    const Dim opposite = Dim(k - 1) - rest;
    if (!watch.wrapped()) return out - floor_div_constant(opposite, k);
  }
  const Bounds range = bounds(rest, 0);
  if (range.low && range.high && floor_divide(*range.low, k) == floor_divide(*range.high, k)) {
    return out + Dim(floor_divide(*range.low, k));
  }
  return out + make_atom(Dim::Atom::floor_div, rest, k);
}

// Computes a % k for k > 1. Every coefficient in the remaining atom is in [0, k).
Dim mod_constant(const Dim& a, int64_t k) {
  Terms inside;
  Dim unwrapped = 0;
  bool nested = false;
  const WrapWatch watch;
  for (const Dim::Term& term : a.terms()) {
    const int64_t coefficient = floor_modulo(term.coefficient, k);
    if (coefficient == 0) continue;
    if (term.factors.size() == 1 && term.factors[0].kind == Dim::Atom::mod) {
      const int64_t m = term.factors[0].operands[1].constant_or(0);
      if (m > 0 && m % k == 0) {
        unwrapped = unwrapped + Dim(coefficient) * term.factors[0].operands[0];
        nested = true;
        continue;
      }
    }
    inside.push_back({coefficient, term.factors});
  }
  Dim rest = Dim::from_terms(inside);
  if (nested) {
    if (watch.wrapped()) return make_atom(Dim::Atom::mod, a, k);
    return mod_constant(rest + unwrapped, k);
  }
  const Bounds range = bounds(rest, 0);
  if (range.low && range.high && *range.low >= 0 && *range.high < k) return rest;
  int64_t shared = k;
  for (const Dim::Term& term : inside) shared = std::gcd(shared, term.coefficient);
  if (shared == 1) return make_atom(Dim::Atom::mod, rest, k);
  for (Dim::Term& term : inside) term.coefficient /= shared;
  return Dim(shared) * mod_constant(Dim::from_terms(std::move(inside)), k / shared);
}

bool known_below(const Dim& a, const Dim& b) {
  return a.known_non_negative() && known_greater(b, a);
}

// Appends the operands of nested atoms of this kind. An absolute value, max(x, -x), stays one atom,
// so that it is known to be non-negative.
void flatten(const Dim& dim, Dim::Atom kind, std::vector<Dim>& operands) {
  if (dim.terms().size() == 1) {
    const Dim::Factor* atom = sole_atom(dim.terms()[0], kind);
    if (atom && atom->operands[0] != -atom->operands[1]) {
      for (const Dim& operand : atom->operands) flatten(operand, kind, operands);
      return;
    }
  }
  operands.push_back(dim);
}

// Computes max(a, b) or min(a, b): flat, sorted with a constant first, without operands that
// another operand bounds.
Dim extremum(Dim::Atom kind, const Dim& a, const Dim& b) {
  std::vector<Dim> operands;
  flatten(a, kind, operands);
  flatten(b, kind, operands);
  std::vector<Dim> kept;
  for (const Dim& operand : operands) {
    const auto bounded_by = [&](const Dim& x, const Dim& y) {
      return kind == Dim::Atom::max ? known_at_least(y, x) : known_at_least(x, y);
    };
    if (std::any_of(kept.begin(), kept.end(),
                    [&](const Dim& other) { return bounded_by(operand, other); })) {
      continue;
    }
    std::erase_if(kept, [&](const Dim& other) { return bounded_by(other, operand); });
    kept.push_back(operand);
  }
  std::sort(kept.begin(), kept.end(), [](const Dim& x, const Dim& y) {
    if (x.is_constant() != y.is_constant()) return x.is_constant();
    return compare(x, y) < 0;
  });
  Dim result = kept.back();
  for (size_t i = kept.size() - 1; i-- > 0;) result = make_atom(kind, kept[i], result);
  return result;
}

}  // namespace

int64_t floor_divide(int64_t a, int64_t b) {
  if (b == -1) return static_cast<int64_t>(0 - static_cast<uint64_t>(a));
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

int64_t floor_modulo(int64_t a, int64_t b) {
  if (b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

Dim Dim::floor_div(const Dim& a, const Dim& b) {
  if (b.equals(0)) return make_atom(Atom::floor_div, a, b);
  if (a.is_constant() && b.is_constant()) return floor_divide(*a.constant(), *b.constant());
  if (b.equals(1) || a.terms().empty()) return a;
  if (a == b) return 1;
  if (is_large(a) || is_large(b)) return make_atom(Atom::floor_div, a, b);
  if (b.terms().front().coefficient < 0) {
    const WrapWatch watch;
    const Dim dividend = -a;
    const Dim divisor = -b;
    return watch.wrapped() ? make_atom(Atom::floor_div, a, b) : floor_div(dividend, divisor);
  }
  if (const auto k = b.constant()) {
    return floor_div_constant(a, *k);
  }
  if (b.terms().size() == 1) {
    auto [quotient, rest] = split_by(a, b.terms()[0]);
    if (!quotient.terms().empty()) return quotient + floor_div(rest, b);
  } else if (const auto quotient = divide_exactly(a, b)) {
    return *quotient;
  }
  const Dim::Term shared = shared_monomial(a, b);
  if (shared.coefficient != 1 || !shared.factors.empty()) {
    return floor_div(split_by(a, shared).quotient, split_by(b, shared).quotient);
  }
  if (known_below(a, b)) return 0;
  // (x//y)//b = x//(y*b). This does not hold for b < 0, where the inner rounding goes the other
  // way.
  if (a.terms().size() == 1 && b.known_non_negative()) {
    if (const Factor* nested = sole_atom(a.terms()[0], Atom::floor_div)) {
      const WrapWatch watch;
      const Dim divisor = nested->operands[1] * b;
      if (!watch.wrapped() && !is_large(divisor)) return floor_div(nested->operands[0], divisor);
    }
  }
  return make_atom(Atom::floor_div, a, b);
}

Dim Dim::ceil_div(const Dim& a, const Dim& b) {
  if (!is_large(a)) return -floor_div(-a, b);
  return floor_div(a, b) + min(1, max(mod(a, b), -mod(a, b)));
}

Dim Dim::mod(const Dim& a, const Dim& b) {
  if (b.equals(0)) return make_atom(Atom::mod, a, b);
  if (a.is_constant() && b.is_constant()) return floor_modulo(*a.constant(), *b.constant());
  if (a.terms().empty() || a == b || b.equals(1)) return 0;
  if (is_large(a) || is_large(b)) return make_atom(Atom::mod, a, b);
  if (b.terms().front().coefficient < 0) {
    const WrapWatch watch;
    const Dim dividend = -a;
    const Dim divisor = -b;
    return watch.wrapped() ? make_atom(Atom::mod, a, b) : -mod(dividend, divisor);
  }
  if (const auto k = b.constant()) {
    return mod_constant(a, *k);
  }
  if (b.terms().size() == 1) {
    const auto [quotient, rest] = split_by(a, b.terms()[0]);
    if (!quotient.terms().empty()) return mod(rest, b);
  } else if (divide_exactly(a, b)) {
    return 0;
  }
  return known_below(a, b) ? a : make_atom(Atom::mod, a, b);
}

Dim Dim::max(const Dim& a, const Dim& b) { return extremum(Atom::max, a, b); }

Dim Dim::min(const Dim& a, const Dim& b) { return extremum(Atom::min, a, b); }

namespace {

// Returns true if the ranges prove that the expression is not 1, or its divisors, as those of 2*n.
bool is_never_one(const Dim& size) {
  int64_t divisor = 0;
  int64_t constant = 0;
  for (const Dim::Term& term : size.terms()) {
    if (term.factors.empty()) {
      constant = term.coefficient;
    } else {
      const bool has_gcd = term.coefficient != std::numeric_limits<int64_t>::min();
      divisor = std::gcd(divisor, has_gcd ? term.coefficient : 1);
    }
  }
  return (divisor > 1 && floor_modulo(constant, divisor) != 1) || known_at_least(size, 2);
}

// Returns true for min(other, k) with k >= 1. Where it broadcasts to `other`, it is `other` or 1.
bool is_bounded_by(const Dim& size, const Dim& other) {
  std::vector<Dim> operands;
  flatten(size, Dim::Atom::min, operands);
  const auto rest = std::remove(operands.begin(), operands.end(), other);
  return rest != operands.begin() && rest != operands.end() &&
         std::all_of(operands.begin(), rest,
                     [](const Dim& operand) { return known_at_least(operand, 1); });
}

}  // namespace

// The result is flat and sorted, with each operand once and no ones. A size that is never 1 is
// itself the result.
Dim Dim::broadcast(const Dim& a, const Dim& b) {
  std::vector<Dim> operands;
  flatten(a, Atom::broadcast, operands);
  flatten(b, Atom::broadcast, operands);
  std::erase_if(operands, [](const Dim& operand) { return operand.equals(1); });
  const std::vector<Dim> all = operands;
  std::erase_if(operands, [&](const Dim& operand) {
    return std::any_of(all.begin(), all.end(),
                       [&](const Dim& other) { return is_bounded_by(operand, other); });
  });
  for (const bool constant : {true, false}) {
    for (const Dim& operand : operands) {
      if (operand.is_constant() != constant) continue;
      if (constant || is_never_one(operand)) return operand;
    }
  }
  if (operands.empty()) return 1;
  std::sort(operands.begin(), operands.end(),
            [](const Dim& x, const Dim& y) { return compare(x, y) < 0; });
  operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
  Dim result = operands.back();
  for (size_t i = operands.size() - 1; i-- > 0;)
    result = make_atom(Atom::broadcast, operands[i], result);
  return result;
}

}  // namespace onnx_native
