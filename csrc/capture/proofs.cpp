#include "capture/proofs.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/residues.h"

namespace onnx_native::capture {
namespace {

// What the guards say of expressions of these symbols.
std::vector<DimFact> facts_of(std::span<const Guard> guards,
                              const std::vector<std::string>& symbols) {
  const auto is_known = [&](const std::string& symbol) {
    return std::ranges::find(symbols, symbol) != symbols.end();
  };
  std::vector<DimFact> facts;
  for (const Guard& guard : guards) {
    if (guard.condition || !std::ranges::all_of(guard.difference.symbols(), is_known)) continue;
    const Dim& zero = guard.difference;
    if (guard.relation == Relation::equal) {
      facts.push_back({zero, guard.holds ? DimFact::Kind::zero : DimFact::Kind::not_zero});
      continue;
    }
    // The expression is at most `bound` if the guard holds, and at least `bound + 1` if not.
    const int64_t bound = guard.relation == Relation::less ? -1 : 0;
    facts.push_back(
        {guard.holds ? Dim(bound) - zero : zero - Dim(bound + 1), DimFact::Kind::non_negative});
  }
  return facts;
}

}  // namespace

bool is_true(int64_t difference, Relation relation) {
  switch (relation) {
    case Relation::equal:
      return difference == 0;
    case Relation::less:
      return difference < 0;
    case Relation::less_equal:
      return difference <= 0;
  }
  return false;
}

std::optional<bool> decided(const DimRange& range, Relation relation) {
  switch (relation) {
    case Relation::equal:
      if ((range.low && *range.low > 0) || (range.high && *range.high < 0)) return false;
      if (range.low == 0 && range.high == 0) return true;
      break;
    case Relation::less:
      if (range.high && *range.high < 0) return true;
      if (range.low && *range.low >= 0) return false;
      break;
    case Relation::less_equal:
      if (range.high && *range.high <= 0) return true;
      if (range.low && *range.low > 0) return false;
      break;
  }
  return std::nullopt;
}

void at_most(DimRange& range, int64_t value) {
  range.high = std::min(range.high.value_or(value), value);
}

void at_least(DimRange& range, int64_t value) {
  range.low = std::max(range.low.value_or(value), value);
}

DimRange guarded(DimRange range, const Dim& difference, std::span<const Guard> guards) {
  for (const Guard& guard : guards) {
    if (guard.condition) continue;
    if (guard.relation == Relation::equal) {
      const Dim& zero = guard.difference;
      const auto same = guard.holds ? (difference - zero).constant() : std::nullopt;
      const auto opposite = guard.holds ? (difference + zero).constant() : std::nullopt;
      for (const auto& value : {same, opposite})
        if (value) at_most(range, *value), at_least(range, *value);
      continue;
    }
    // The guard's own expression is at most `bound` if it holds, and at least `bound + 1` if not.
    const int64_t bound = guard.relation == Relation::less ? -1 : 0;
    if (const auto offset = (difference - guard.difference).constant())
      guard.holds ? at_most(range, bound + *offset) : at_least(range, bound + 1 + *offset);
    if (const auto offset = (difference + guard.difference).constant())
      guard.holds ? at_least(range, *offset - bound) : at_most(range, *offset - bound - 1);
  }
  return range;
}

std::optional<bool> Decisions::proven(const Dim& difference, Relation relation,
                                      int64_t least) const {
  return proven(difference, relation, least, guards_);
}

std::optional<bool> Decisions::proven_given(size_t i, bool holds, const Dim& difference,
                                            Relation relation) const {
  Guard given = guards_.at(i);
  given.holds = given.holds == holds;
  return proven(difference, relation, 1, {&given, 1});
}

std::optional<bool> Decisions::proven(const Dim& difference, Relation relation, int64_t least,
                                      std::span<const Guard> guards) const {
  if (const auto number = difference.constant()) return is_true(*number, relation);
  const Dim declared =
      difference.substitute([this, least, guards](std::string_view name) -> std::optional<Dim> {
        const auto at = symbols_.find(std::string(name));
        if (at == symbols_.end()) return std::nullopt;
        DimRange range = guarded(at->second.range, Dim::symbol(name), guards);
        if (!at->second.is_size) return Dim::symbol(name, range);
        range.low = std::max(range.low.value_or(least), least);
        range.is_input_size = true;
        return Dim::symbol(name, range);
      });
  const DimRange range = guarded(declared.range(), difference, guards);
  if (const auto known = decided(range, relation)) return known;
  // Proves what needs more than the ranges of the parts: 2 * ((n + 1) // 2) >= n.
  DimRange sides;
  if (declared.known_non_negative()) sides.low = declared.known_positive(false) ? 1 : 0;
  if ((-declared).known_non_negative()) sides.high = (-declared).known_positive(false) ? -1 : 0;
  if (const auto known = decided(sides, relation)) return known;
  return decided(range_by_residues(declared, facts_of(guards, declared.symbols())), relation);
}

}  // namespace onnx_native::capture
