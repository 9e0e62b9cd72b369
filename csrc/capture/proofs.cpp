#include "capture/proofs.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace onnx_native::capture {
namespace {

std::vector<DimFact> facts_of(std::span<const Guard> guards) {
  std::vector<DimFact> facts;
  for (const Guard& guard : guards)
    if (std::optional<DimFact> fact = fact_of(guard)) facts.push_back(std::move(*fact));
  return facts;
}

// Removes the facts that have other symbols.
void keep_those_about(const std::vector<std::string>& symbols, std::vector<DimFact>& facts) {
  const auto is_known = [&](const std::string& symbol) {
    return std::ranges::find(symbols, symbol) != symbols.end();
  };
  std::erase_if(facts, [&](const DimFact& fact) {
    return !std::ranges::all_of(fact.dim.symbols(), is_known);
  });
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

std::optional<DimFact> fact_of(const Guard& guard) {
  if (guard.condition) return std::nullopt;
  const Dim& zero = guard.difference;
  if (guard.relation == Relation::equal)
    return DimFact{zero, guard.holds ? DimFact::Kind::zero : DimFact::Kind::not_zero};
  // The expression is at most `bound` if the guard holds, and at least `bound + 1` if not.
  const int64_t bound = guard.relation == Relation::less ? -1 : 0;
  return DimFact{guard.holds ? Dim(bound) - zero : zero - Dim(bound + 1),
                 DimFact::Kind::non_negative};
}

DimRange narrowed_by(std::span<const DimFact> facts, const Dim& difference, DimRange range) {
  for (const auto& [dim, kind] : facts) {
    if (kind == DimFact::Kind::not_zero) continue;
    const bool is_zero = kind == DimFact::Kind::zero;
    if (const auto offset = (difference - dim).constant()) {
      at_least(range, *offset);
      if (is_zero) at_most(range, *offset);
    }
    if (const auto offset = (difference + dim).constant()) {
      at_most(range, *offset);
      if (is_zero) at_least(range, *offset);
    }
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
  std::vector<DimFact> facts = facts_of(guards);
  const Dim declared = difference.substitute([&](std::string_view name) -> std::optional<Dim> {
    const auto at = symbols_.find(std::string(name));
    if (at == symbols_.end()) return std::nullopt;
    DimRange range = narrowed_by(facts, Dim::symbol(name), at->second.range);
    if (!at->second.is_size) return Dim::symbol(name, range);
    range.low = std::max(range.low.value_or(least), least);
    range.is_input_size = true;
    return Dim::symbol(name, range);
  });
  const DimRange range = narrowed_by(facts, difference, declared.range());
  if (const auto known = decided(range, relation)) return known;
  // Proves what needs more than the ranges of the parts: 2 * ((n + 1) // 2) >= n.
  DimRange sides;
  if (declared.known_non_negative()) sides.low = declared.known_positive(false) ? 1 : 0;
  if ((-declared).known_non_negative()) sides.high = (-declared).known_positive(false) ? -1 : 0;
  if (const auto known = decided(sides, relation)) return known;
  keep_those_about(declared.symbols(), facts);
  return decided(range_by_residues(declared, facts), relation);
}

}  // namespace onnx_native::capture
