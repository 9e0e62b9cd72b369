// The equations by which another recording of a program may succeed.

#include <algorithm>

#include "base/error.h"
#include "capture/decisions.h"

namespace onnx_native::capture {
namespace {

bool mentions(const Dim& dim, const std::string& symbol) {
  const std::vector<std::string> names = dim.symbols();
  return std::ranges::find(names, symbol) != names.end();
}

}  // namespace

// Solves difference == 0 for the symbol of a term; nullopt if the capture may not choose its value.
std::optional<Dim> Decisions::solved(const Dim& difference, const Dim::Term& term) const {
  if (term.factors.size() != 1 || term.factors[0].kind != Dim::Atom::symbol) return std::nullopt;
  const std::string& name = term.factors[0].name;
  const auto at = symbols_.find(name);
  // An integer of the caller is no size of a tensor, which the caller could not choose otherwise.
  if (at == symbols_.end() || at->second.origin == Symbol::Origin::declared ||
      !at->second.is_of_input() || !at->second.is_size)
    return std::nullopt;
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
    const bool is_unnamed = symbols_.at(name).origin != Symbol::Origin::named;
    const int rank = (is_unnamed ? 2 : 0) + (is_sum ? 1 : 0);
    if (rank <= best) continue;
    best = rank;
    equation_ = {.symbol = name, .value = *value};
  }
}

void Decisions::note_branch(const std::string& source) {
  if (!equation_ || !equation_->source.empty()) return;
  equation_->source = source;
  equation_->is_branch = true;
}

bool Decisions::decide_branch(const Dim& difference, Relation relation, const std::string& text) {
  try {
    return decide(difference, relation, text);
  } catch (...) {  // decide() refuses the condition
    note_branch(line_());
    throw;
  }
}

void Decisions::note_identity(const Dim& difference, const Dim& size) {
  if (equation_ || size == Dim(1) || !follows_from_sizes(size)) return;
  for (const std::string& name : difference.symbols()) {
    const auto at = symbols_.find(name);
    if (at == symbols_.end() || at->second.origin != Symbol::Origin::data || !read_.contains(name))
      continue;
    const Dim rest = difference.substitute([&](std::string_view symbol) {
      return symbol == name ? std::optional(size) : std::nullopt;
    });
    if (rest == Dim(0)) equation_ = {.symbol = name, .value = size};
  }
}

void Decisions::refuse_loop(const Dim& count, const std::string& reason) {
  loop_symbols_ = count.symbols();
  for (const std::string& name : count.symbols()) {
    const auto at = symbols_.find(name);
    const bool may_be_fixed = at != symbols_.end() && at->second.is_size &&
                              (at->second.origin == Symbol::Origin::named ||
                               at->second.origin == Symbol::Origin::inferred);
    if (reason_.empty() && may_be_fixed)
      equation_ = {.symbol = name, .value = at->second.example, .source = line_(), .is_loop = true};
  }
  refuse(reason, example(count) ? RefusalKind::loop : RefusalKind::control_flow);
}

void Decisions::note_fixed(const std::set<std::string>& inputs) {
  for (const std::string& name : inputs) {
    const Symbol& symbol = symbols_.at(name);
    if (equation_ || !reason_.empty()) return;
    if (symbol.origin == Symbol::Origin::inferred && symbol.is_size)
      equation_ = {.symbol = name, .value = symbol.example, .source = line_()};
  }
}

void Decisions::check_narrowing() {
  if (follows_equations_) return;
  for (const auto& [name, symbol] : symbols_) {
    if (!symbol.is_of_input()) continue;
    if (holds_nearby(symbol, [this, &name = name](int64_t value) {
          return allows({{name, value}});
        }))
      continue;
    for (const Guard& guard : guards_) {
      // a <= b and b <= a
      const bool both = std::ranges::any_of(guards_, [&](const Guard& other) {
        return other.holds && other.relation == Relation::less_equal &&
               other.difference == -guard.difference;
      });
      if (both && guard.holds && guard.relation == Relation::less_equal) {
        note_equation(guard.difference);
        note_branch(guard.source);
      }
    }
    note_fixed({name});
    refuse(concat("the conditions of the program leave only ", name, " == ", symbol.example),
           RefusalKind::pinned_size);
  }
}

}  // namespace onnx_native::capture
