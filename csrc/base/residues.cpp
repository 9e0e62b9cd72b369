#include "base/residues.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dim_terms.h"
#include "base/error.h"

namespace onnx_native {
namespace {

constexpr int64_t kMostCases = 512;
constexpr int64_t kLargestPeriod = 1024;

// How an expression grows with a symbol: dim(s + period) == dim(s) + growth for each s, if the
// growth is known.
struct Period {
  int64_t period = 1;
  std::optional<int64_t> growth = 0;
};

// Returns the smallest common period; nullopt if it is too long.
std::optional<int64_t> common(int64_t a, int64_t b) {
  const int64_t period = std::lcm(a, b);
  return period <= kLargestPeriod ? std::optional(period) : std::nullopt;
}

std::optional<Period> period_of(const Dim& dim, std::string_view symbol);

std::optional<Period> period_of(const Dim::Factor& factor, std::string_view symbol) {
  using Atom = Dim::Atom;
  if (factor.kind == Atom::symbol) return Period{1, factor.name == symbol ? 1 : 0};
  const auto a = period_of(factor.operands[0], symbol);
  const auto b = period_of(factor.operands[1], symbol);
  if (!a || !b) return std::nullopt;
  const std::optional<int64_t> by = factor.operands[1].constant();
  const bool divides = factor.kind == Atom::floor_div || factor.kind == Atom::mod;
  if (!divides || !by || *by <= 0) {
    const auto period = common(a->period, b->period);
    if (!period) return std::nullopt;
    const bool is_fixed = a->growth == 0 && b->growth == 0;
    return Period{*period, is_fixed ? std::optional<int64_t>(0) : std::nullopt};
  }
  const int64_t times = *by / std::gcd(a->growth.value_or(1), *by);
  if (times > kLargestPeriod / a->period) return std::nullopt;
  if (factor.kind == Atom::mod)
    return Period{a->period * times, a->growth ? std::optional<int64_t>(0) : std::nullopt};
  return Period{a->period * times,
                a->growth ? std::optional(*a->growth * times / *by) : std::nullopt};
}

std::optional<Period> period_of(const Dim& dim, std::string_view symbol) {
  Period sum;
  for (const Dim::Term& term : dim.terms()) {
    Period product{1, term.coefficient};
    size_t growing = 0;
    for (const Dim::Factor& factor : term.factors) {
      const auto part = period_of(factor, symbol);
      const auto period = part ? common(product.period, part->period) : std::nullopt;
      if (!period) return std::nullopt;
      growing += part->growth == 0 ? 0 : 1;
      if (part->growth && *part->growth != 0)
        product.growth = *part->growth * (*period / part->period) * term.coefficient;
      if (!part->growth) growing = 2;
      product.period = *period;
    }
    if (growing == 0) product.growth = 0;
    // A product with another factor grows by what that is.
    if (growing > 1 || (growing == 1 && term.factors.size() > 1)) product.growth = std::nullopt;
    const auto period = common(sum.period, product.period);
    if (!period) return std::nullopt;
    sum.growth = sum.growth && product.growth
                     ? std::optional(*sum.growth * (*period / sum.period) +
                                     *product.growth * (*period / product.period))
                     : std::nullopt;
    sum.period = *period;
  }
  return sum;
}

bool has_remainders(const Dim& dim) {
  return std::ranges::any_of(dim.terms(), [](const Dim::Term& term) {
    return std::ranges::any_of(term.factors, [](const Dim::Factor& factor) {
      return factor.kind == Dim::Atom::floor_div || factor.kind == Dim::Atom::mod ||
             std::ranges::any_of(factor.operands, has_remainders);
    });
  });
}

// A symbol in one case: period * k + residue.
struct Case {
  int64_t period;
  int64_t residue;
  DimRange range;  // of k
};

using Cases = std::map<std::string, Case, std::less<>>;

Dim in_case(const Dim& dim, const Cases& cases) {
  return dim.substitute([&](std::string_view name) -> std::optional<Dim> {
    const auto at = cases.find(name);
    if (at == cases.end()) return std::nullopt;
    const auto& [period, residue, range] = at->second;
    if (range.low && range.low == range.high) return Dim(period * *range.low + residue);
    return Dim(period) * Dim::symbol(concat(name, "'"), range) + Dim(residue);
  });
}

bool has_none(const DimRange& range) { return range.low && range.high && *range.low > *range.high; }

// Narrows the range of the k in factor*k + offset >= 0; returns false if there is none.
bool narrow(Cases& cases, const Dim& dim) {
  if (const auto number = dim.constant()) return *number >= 0;
  const std::vector<Dim::Term>& terms = dim.terms();
  const Dim::Term& first = terms.front();
  const bool is_linear = first.factors.size() == 1 && first.factors[0].kind == Dim::Atom::symbol &&
                         (terms.size() == 1 || (terms.size() == 2 && terms[1].factors.empty()));
  if (!is_linear) return true;
  const int64_t offset = terms.size() == 2 ? terms[1].coefficient : 0;
  const std::string& name = first.factors[0].name;
  const auto at = cases.find(std::string_view(name).substr(0, name.size() - 1));
  if (at == cases.end() || name.back() != '\'') return true;
  DimRange& range = at->second.range;
  if (first.coefficient > 0) {
    at_least(range, -floor_divide(offset, first.coefficient));
  } else {
    at_most(range, floor_divide(offset, -first.coefficient));
  }
  return !has_none(range);
}

// Applies the facts; returns false if they exclude the case.
bool narrow_by_facts(Cases& cases, std::span<const DimFact> facts) {
  for (const auto& [dim, kind] : facts) {
    const Dim here = in_case(dim, cases);
    const bool is_zero = here.equals(0);
    if (kind == DimFact::Kind::not_zero ? is_zero : !narrow(cases, here)) return false;
    if (kind == DimFact::Kind::zero && !narrow(cases, -here)) return false;
  }
  return true;
}

}  // namespace

void at_most(DimRange& range, int64_t value) {
  range.high = std::min(range.high.value_or(value), value);
}

void at_least(DimRange& range, int64_t value) {
  range.low = std::max(range.low.value_or(value), value);
}

DimRange range_by_residues(const Dim& dim, std::span<const DimFact> facts) {
  if (!has_remainders(dim) && std::ranges::none_of(facts, has_remainders, &DimFact::dim)) return {};
  Cases cases;
  std::map<std::string, DimRange> ranges;
  dim.for_each_symbol([&](const Dim::Factor& symbol) {
    ranges.try_emplace(symbol.name, symbol.range);
    cases.try_emplace(symbol.name);
  });
  int64_t count = 1;
  for (auto& [name, each] : cases) {
    std::optional<Period> period = period_of(dim, name);
    if (!period) return {};
    each.period = period->period;
    for (const DimFact& fact : facts) {
      const auto of_fact = period_of(fact.dim, name);
      // A fact of another period helps where it can.
      if (of_fact && each.period % of_fact->period != 0 &&
          std::lcm(each.period, of_fact->period) <= kMostCases / count)
        each.period = std::lcm(each.period, of_fact->period);
    }
    if (each.period > kMostCases / count) return {};
    count *= each.period;
  }
  DimRange found;
  bool any = false;
  for (int64_t i = 0; i < count; ++i) {
    Cases here = cases;
    int64_t rest = i;
    bool possible = true;
    for (auto& [name, each] : here) {
      each.residue = rest % each.period;
      rest /= each.period;
      const DimRange& range = ranges.at(name);
      if (range.low) each.range.low = -floor_divide(each.residue - *range.low, each.period);
      if (range.high) each.range.high = floor_divide(*range.high - each.residue, each.period);
      possible = possible && !has_none(each.range);
    }
    if (!possible || !narrow_by_facts(here, facts)) continue;
    const DimRange range = in_case(dim, here).range();
    found.low = any && !(found.low && range.low) ? std::nullopt
                : any                            ? std::optional(std::min(*found.low, *range.low))
                                                 : range.low;
    found.high = any && !(found.high && range.high) ? std::nullopt
                 : any ? std::optional(std::max(*found.high, *range.high))
                       : range.high;
    any = true;
    if (!found.low && !found.high) return {};
  }
  return any ? found : DimRange{};
}

}  // namespace onnx_native
