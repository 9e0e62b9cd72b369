#include "capture/way_sizes.h"

#include <array>

namespace onnx_native::capture {
namespace {

// Returns true if a is a multiple of b, by a number.
bool is_multiple(const Dim& a, const Dim& b) {
  const std::vector<Dim::Term>& of_a = a.terms();
  const std::vector<Dim::Term>& of_b = b.terms();
  if (of_b.empty() || of_a.size() != of_b.size()) return false;
  const int64_t factor = of_a[0].coefficient / of_b[0].coefficient;
  return b * Dim(factor) == a;
}

}  // namespace

WaySizes::WaySizes(const Guard& guard) {
  if (guard.condition) return;
  yes_ = facts(guard, true);
  no_ = facts(guard, false);
}

WaySizes::Facts WaySizes::facts(const Guard& guard, bool truth) {
  Facts facts;
  const Dim& difference = guard.difference;
  DimRange range = difference.range();
  // The condition bounds the difference.
  std::optional<int64_t> low, high;
  switch (guard.relation) {
    case Relation::equal:
      if (truth) low = high = 0;
      break;
    case Relation::less:
      truth ? high = -1 : low = 0;
      break;
    case Relation::less_equal:
      truth ? high = 0 : low = 1;
      break;
  }
  if (low && (!range.low || *range.low < *low)) range.low = low;
  if (high && (!range.high || *range.high > *high)) range.high = high;
  if (range.low && range.low == range.high) facts.zero = difference - Dim(*range.low);
  // Bounds of a symbol s, where the difference is s + number or number - s.
  const std::vector<std::string> names = difference.symbols();
  if (names.size() != 1) return facts;
  const std::vector<Dim::Term>& terms = difference.terms();
  const Dim::Term& first = terms[0];
  if (first.factors.size() != 1 || first.factors[0].kind != Dim::Atom::symbol) return facts;
  const Dim symbol = Dim::of(first.factors[0]);
  const std::optional<int64_t> sum = (difference - symbol).constant();
  const std::optional<int64_t> from = (difference + symbol).constant();
  if (!sum && !from) return facts;
  DimRange bounds = first.factors[0].range;
  if (bounds.is_input_size && bounds.low.value_or(0) < 1) bounds.low = 1;  // inputs are not empty
  const auto at_least = [&](int64_t value) {
    if (!bounds.low || *bounds.low < value) bounds.low = value;
  };
  const auto at_most = [&](int64_t value) {
    if (!bounds.high || *bounds.high > value) bounds.high = value;
  };
  if (range.low) sum ? at_least(*range.low - *sum) : at_most(*from - *range.low);
  if (range.high) sum ? at_most(*range.high - *sum) : at_least(*from - *range.high);
  const bool is_known = bounds.low && bounds.low == bounds.high;
  facts.known.emplace(names[0], is_known ? Dim(*bounds.low) : Dim::symbol(names[0], bounds));
  return facts;
}

bool WaySizes::are_equal(const Dim& a, const Dim& b, const Facts& facts) {
  if (a == b || (facts.zero && is_multiple(a - b, *facts.zero))) return true;
  if (facts.known.empty()) return false;
  const auto replaced = [&](const Dim& dim) {
    return dim.substitute([&](std::string_view name) -> std::optional<Dim> {
      const auto at = facts.known.find(std::string(name));
      return at == facts.known.end() ? std::nullopt : std::optional(at->second);
    });
  };
  return replaced(a) == replaced(b);
}

std::optional<Dim> WaySizes::join(const Dim& yes, const Dim& no) const {
  if (yes == no) return yes;
  const std::array<Dim, 4> candidates{no, yes, Dim::min(yes, no), Dim::max(yes, no)};
  for (const Dim& candidate : candidates) {
    if (are_equal(candidate, yes, yes_) && are_equal(candidate, no, no_)) return candidate;
  }
  return std::nullopt;
}

std::optional<Shape> WaySizes::join(const Shape& yes, const Shape& no) const {
  if (yes.size() != no.size()) return std::nullopt;
  Shape result;
  for (size_t axis = 0; axis < yes.size(); ++axis) {
    const std::optional<Dim> joined = join(yes[axis], no[axis]);
    if (!joined) return std::nullopt;
    result.push_back(*joined);
  }
  return result;
}

}  // namespace onnx_native::capture
