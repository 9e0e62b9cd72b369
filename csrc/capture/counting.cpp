// Decisions of a recording whose loops run as often as in its example. See Symbol::is_counted.

#include <algorithm>

#include "base/error.h"
#include "capture/decisions.h"

namespace onnx_native::capture {
namespace {

std::string_view word_of(Relation relation) {
  switch (relation) {
    case Relation::equal:
      return " == ";
    case Relation::less:
      return " < ";
    case Relation::less_equal:
      return " <= ";
  }
  return "";
}

}  // namespace

std::pair<Dim, int64_t> split(const Dim& sum) {
  std::vector<Dim::Term> terms = sum.terms();
  int64_t number = 0;
  std::erase_if(terms, [&number](const Dim::Term& term) {
    if (!term.factors.empty()) return false;
    number += term.coefficient;
    return true;
  });
  return {Dim::from_terms(std::move(terms)), number};
}

std::optional<int64_t> Decisions::counted(const Dim& dim) const {
  if (!on_decision_) return std::nullopt;
  const Dim known = dim.substitute([this](std::string_view name) {
    const auto at = symbols_.find(std::string(name));
    const bool is_counted = at != symbols_.end() && at->second.is_counted;
    return is_counted ? std::optional(Dim(at->second.example)) : std::nullopt;
  });
  return known.constant();
}

void Decisions::note_loop_steps(const Dim& steps) {
  const std::string text = steps.str();
  if (!steps.is_constant() && std::ranges::find(loop_steps_, text) == loop_steps_.end())
    loop_steps_.push_back(text);
}

int64_t Decisions::count(const Dim& dim, int64_t number) {
  const Dim difference = dim - Dim(number);
  if (!proven(difference, Relation::equal)) tell(difference, Relation::equal, true);
  return number;
}

void Decisions::tell(const Dim& difference, Relation relation, bool holds, bool is_of_empty) {
  if (calls_ > 0) return;
  const auto [rest, number] = split(difference);
  on_decision_({rest.str(), number, relation, holds, is_of_empty});
}

void Decisions::note_not_empty(const Dim& difference, Relation relation, const std::string& text) {
  const std::optional<bool> holds = proven(difference, relation);
  if (!holds || proven(difference, relation, 0) || !is_in_program_()) return;
  if (on_decision_) return tell(difference, relation, *holds, /*is_of_empty=*/true);
  note_guard({difference, relation, *holds, text, {}});
}

bool Decisions::repeat(const Dim& given, Relation relation, bool holds, bool is_of_empty) {
  if (on_decision_) {  // another recording repeats it once more
    std::optional<bool> known = proven(given, relation);
    const std::optional<int64_t> value = example(given);
    if (!known && value) known = proven(Dim(*value), relation);
    if (known == holds) tell(given, relation, holds, is_of_empty);
    return known == holds;
  }
  Dim difference = given;
  const auto [rest, number] = split(given);
  const bool is_negative =
      std::ranges::all_of(rest.terms(), [](const Dim::Term& term) { return term.coefficient < 0; });
  if (is_negative) {  // 512 - n < 0 is the opposite of n <= 512
    difference = -given;
    if (relation != Relation::equal) {
      relation = relation == Relation::less ? Relation::less_equal : Relation::less;
      holds = !holds;
    }
  }
  const std::string text =
      concat((is_negative ? -rest : rest).str(), word_of(relation), is_negative ? number : -number);
  const std::optional<bool> known = proven(difference, relation);
  if (!known) return decide(difference, relation, text) == holds;
  if (is_of_empty && !proven(difference, relation, 0))
    note_guard({difference, relation, *known, text, {}});
  return *known == holds;
}

}  // namespace onnx_native::capture
