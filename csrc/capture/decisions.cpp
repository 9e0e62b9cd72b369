#include "capture/decisions.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "base/error.h"

namespace onnx_native::capture {
namespace {

thread_local Decisions* active = nullptr;

bool mentions(const Dim& dim, const std::string& symbol) {
  const std::vector<std::string> names = dim.symbols();
  return std::ranges::find(names, symbol) != names.end();
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

Decisions* active_decisions() { return active; }
void set_active_decisions(Decisions* decisions) { active = decisions; }

Dim Decisions::symbol(const std::string& name) const {
  return Dim::symbol(name, DimRange::captured_size(symbols_.at(name).range));
}

std::optional<int64_t> Decisions::example(const Dim& dim) const {
  return dim.evaluate([this](std::string_view name) -> std::optional<int64_t> {
    const auto at = symbols_.find(std::string(name));
    return at == symbols_.end() ? std::nullopt : std::optional(at->second.example);
  });
}

std::optional<bool> Decisions::proven(const Dim& difference, Relation relation) const {
  if (const auto number = difference.constant()) return is_true(*number, relation);
  const Dim declared = difference.substitute([this](std::string_view name) -> std::optional<Dim> {
    const auto at = symbols_.find(std::string(name));
    if (at == symbols_.end()) return std::nullopt;
    DimRange range = at->second.range;
    range.low = std::max<int64_t>(range.low.value_or(1), 1);  // inputs are not empty
    range.is_input_size = true;
    return Dim::symbol(name, range);
  });
  const DimRange range = declared.range();
  switch (relation) {
    case Relation::equal:
      if ((range.low && *range.low > 0) || (range.high && *range.high < 0)) return false;
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

Dim Decisions::resolved(const Dim::Factor& factor) {
  if (factor.operands.empty()) return Dim::of(factor);
  const Dim a = resolved(factor.operands[0]);
  const Dim b = resolved(factor.operands[1]);
  // Decides in the direction that holds for the example, so that equal sizes stay possible.
  const auto a_is_least = [&] {
    if (example(a) <= example(b))
      return decide(a - b, Relation::less_equal, concat(a.str(), " <= ", b.str()));
    return !decide(b - a, Relation::less_equal, concat(b.str(), " <= ", a.str()));
  };
  switch (factor.kind) {
    case Dim::Atom::floor_div:
      return Dim::floor_div(a, b);
    case Dim::Atom::mod:
      return Dim::mod(a, b);
    case Dim::Atom::min:
      return a_is_least() ? a : b;
    case Dim::Atom::max:
      return a_is_least() ? b : a;
    default:
      return Dim::broadcast(a, b);
  }
}

Dim Decisions::resolved(const Dim& dim) {
  Dim sum = 0;
  for (const Dim::Term& term : dim.terms()) {
    Dim product = term.coefficient;
    for (const Dim::Factor& factor : term.factors) product = product * resolved(factor);
    sum = sum + product;
  }
  return sum;
}

bool Decisions::decide(const Dim& given, Relation relation, const std::string& text) {
  if (const auto known = proven(given, relation)) return *known;
  const Dim difference = resolved(given);
  if (const auto known = proven(difference, relation)) return *known;
  const std::optional<int64_t> value = example(difference);
  if (!value) refuse("the program branches on a size that depends on data: " + text);
  const bool holds = is_true(*value, relation);
  if (relation == Relation::equal && holds) {
    note_equation(difference);
    refuse("the program depends on " + text + ", which holds for the example");
  }
  const bool known = std::ranges::any_of(guards_, [&](const Guard& guard) {
    return guard.relation == relation && guard.difference == difference;
  });
  if (!known) guards_.push_back({difference, relation, holds, text, line_()});
  return holds;
}

int64_t Decisions::pinned(const Dim& dim, const std::string& use) {
  if (const auto number = dim.constant()) return *number;
  refuse(use + " needs the number " + dim.str());
}

bool Decisions::satisfied(const std::string& symbol, int64_t value) const {
  return std::ranges::all_of(guards_, [&](const Guard& guard) {
    if (!mentions(guard.difference, symbol)) return true;
    const std::optional<int64_t> difference =
        guard.difference.evaluate([&](std::string_view name) -> std::optional<int64_t> {
          const auto at = symbols_.find(std::string(name));
          if (at == symbols_.end()) return std::nullopt;
          return name == symbol ? value : at->second.example;
        });
    return difference && is_true(*difference, guard.relation) == guard.holds;
  });
}

// Solves difference == 0 for the symbol of a term; nullopt if the capture may not choose its value.
std::optional<Dim> Decisions::solved(const Dim& difference, const Dim::Term& term) const {
  if (term.factors.size() != 1 || term.factors[0].kind != Dim::Atom::symbol) return std::nullopt;
  const std::string& name = term.factors[0].name;
  const auto at = symbols_.find(name);
  if (at == symbols_.end() || at->second.origin == Symbol::Origin::declared) return std::nullopt;
  if (term.coefficient != 1 && term.coefficient != -1) return std::nullopt;
  const Dim rest = difference - Dim::from_terms({term});
  if (rest.is_constant() || mentions(rest, name)) return std::nullopt;
  const Dim value = term.coefficient == 1 ? -rest : rest;
  // Two names for one size contradict the user.
  if (at->second.origin == Symbol::Origin::named && value.terms().size() < 2) return std::nullopt;
  return value;
}

// Prefers a symbol that the user did not name, and a sum to a difference.
void Decisions::note_equation(const Dim& difference) {
  int best = -1;
  for (const Dim::Term& term : difference.terms()) {
    const std::optional<Dim> value = solved(difference, term);
    if (!value) continue;
    const std::string& name = term.factors[0].name;
    const bool is_sum = std::ranges::all_of(
        value->terms(), [](const Dim::Term& part) { return part.coefficient > 0; });
    const bool is_inferred = symbols_.at(name).origin == Symbol::Origin::inferred;
    const int rank = (is_inferred ? 2 : 0) + (is_sum ? 1 : 0);
    if (rank <= best) continue;
    best = rank;
    equation_ = {name, *value};
  }
}

void Decisions::check_narrowing() {
  for (const auto& [name, symbol] : symbols_) {
    const int64_t low = std::max<int64_t>(symbol.range.low.value_or(1), 1);
    const bool smaller = symbol.example > low && satisfied(name, symbol.example - 1);
    const bool larger = (!symbol.range.high || symbol.example < *symbol.range.high) &&
                        satisfied(name, symbol.example + 1);
    if (smaller || larger) continue;
    for (const Guard& guard : guards_) {
      // a <= b and b <= a
      const bool both = std::ranges::any_of(guards_, [&](const Guard& other) {
        return other.holds && other.relation == Relation::less_equal &&
               other.difference == -guard.difference;
      });
      if (both && guard.holds && guard.relation == Relation::less_equal)
        note_equation(guard.difference);
    }
    refuse(concat("the conditions of the program leave only ", name, " == ", symbol.example));
  }
}

std::optional<Dim> Decisions::recognized(int64_t number) const {
  if (!recognizes_numbers_ || number == 0) return std::nullopt;
  Dim product = 1;
  for (const auto& [name, known] : symbols_) {
    for (; number % known.example == 0; number /= known.example) product = product * symbol(name);
  }
  if (product.is_constant()) return std::nullopt;
  return product * Dim(number);
}

void Decisions::note_refusal(const std::string& reason) {
  if (!reason_.empty()) return;
  const std::string line = line_();
  reason_ = line.empty() ? reason : concat(reason, " (", line, ")");
}

void Decisions::refuse(const std::string& reason) {
  note_refusal(reason);
  TORCH_CHECK(false, "onnx_native cannot record this program: ", reason_);
}

}  // namespace onnx_native::capture
