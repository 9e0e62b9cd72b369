#include "capture/decisions.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "base/error.h"
#include "capture/proofs.h"

namespace onnx_native::capture {
namespace {

thread_local Decisions* active_of_thread = nullptr;
std::atomic<int64_t> used_outside{0};

std::string branch_on_data(const std::string& text) {
  return "the program branches on a number that depends on data: " + text +
         "; torch.cond would keep both branches";
}

}  // namespace

Decisions* active_decisions() { return active_of_thread; }
void set_active_decisions(Decisions* decisions) { active_of_thread = decisions; }

std::string_view operator_of(Relation relation) {
  constexpr std::array<std::string_view, 3> kOperators{"python::eq", "python::lt", "python::le"};
  return kOperators[static_cast<size_t>(relation)];
}

void note_use_outside() { ++used_outside; }
int64_t uses_outside() { return used_outside; }

std::string Guard::statement() const {
  if (holds) return text;
  constexpr std::array<std::array<std::string_view, 2>, 3> kOpposites{
      {{" == ", " != "}, {" <= ", " > "}, {" < ", " >= "}}};
  for (const auto& [relation, opposite] : kOpposites) {
    if (const size_t at = text.find(relation); at != std::string::npos)
      return concat(text.substr(0, at), opposite, text.substr(at + relation.size()));
  }
  return concat("not (", text, ")");
}

bool Guard::allows(const SymbolValue& value) const {
  if (condition) {
    const std::optional<double> now = evaluate(*condition, value);
    return now && (*now != 0) == holds;
  }
  const std::optional<int64_t> now = difference.evaluate(value);
  return now && is_true(*now, relation) == holds;
}

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

Dim Decisions::symbol(const std::string& name) const {
  const Symbol& known = symbols_.at(name);
  return Dim::symbol(name, known.is_size ? DimRange::captured_size(known.range) : known.range);
}

std::optional<int64_t> Decisions::example(const Dim& dim) const {
  return dim.evaluate([this](std::string_view name) -> std::optional<int64_t> {
    const auto at = symbols_.find(std::string(name));
    const bool known = at != symbols_.end() && at->second.origin != Symbol::Origin::data;
    return known ? std::optional(at->second.example) : std::nullopt;
  });
}

std::optional<double> Decisions::example(const Number& number) const {
  return evaluate(number,
                  [this](std::string_view name) { return example(symbol(std::string(name))); });
}

bool Decisions::follows_from_sizes(const Dim& dim) const {
  return std::ranges::all_of(dim.symbols(), [this](const std::string& name) {
    const auto at = symbols_.find(name);
    return at != symbols_.end() && at->second.is_size;
  });
}

std::optional<int64_t> Decisions::stand_in(const Dim& dim) const {
  return dim.evaluate([this](std::string_view name) -> std::optional<int64_t> {
    const auto at = symbols_.find(std::string(name));
    return at == symbols_.end() ? std::nullopt : std::optional(at->second.example);
  });
}

std::optional<bool> Decisions::at_stand_in(const Dim& difference, Relation relation) const {
  const std::optional<int64_t> value = stand_in(difference);
  return value ? std::optional(is_true(*value, relation)) : std::nullopt;
}

void Decisions::declare_data(const std::string& name, const DimRange& range,
                             std::optional<int64_t> stand_in) {
  if (!stand_in) {
    // Programs cut such sizes into equal parts, of which eager checks that there is no rest: the
    // least multiple of 1 to 8 has no rest in parts of a usual number. 5, 7, ... of them differ.
    constexpr int64_t kMultiple = 840;
    stand_in = uses_small_stand_ins_ ? 2 + stand_ins_ % 2 : kMultiple * (2 * stand_ins_ + 5);
    ++stand_ins_;
    stand_in = std::max(*stand_in, range.low.value_or(*stand_in));
    stand_in = std::min(*stand_in, range.high.value_or(*stand_in));
  }
  const size_t order = symbols_.size();
  symbols_[name] = {.example = *stand_in,
                    .range = range,
                    .origin = Symbol::Origin::data,
                    .is_size = false,
                    .order = order};
}

bool Decisions::depends_on_data_since(size_t symbol_count, const Dim& dim) const {
  return std::ranges::any_of(dim.symbols(), [&](const std::string& name) {
    const auto at = symbols_.find(name);
    return at != symbols_.end() && at->second.origin == Symbol::Origin::data &&
           at->second.order >= symbol_count;
  });
}

void Decisions::note_shape(const Shape& shape) {
  for (const Dim& size : shape) {
    if (size.is_constant()) continue;
    for (const std::string& name : size.symbols()) {
      if (const auto at = symbols_.find(name); at != symbols_.end())
        at->second.is_size_of_tensor = true;
    }
  }
}

Dim Decisions::define(const NumberPtr& number) {
  const auto [at, inserted] = defined_.try_emplace(str(*number));
  if (!inserted) return at->second;
  Dim result = Dim::fresh(DimRange::integer());
  at->second = result;
  const std::string name = result.str();
  const std::optional<double> value = example(*number);
  declare_data(name, DimRange::integer());
  Symbol& symbol = symbols_.at(name);
  symbol.definition = number;
  if (!value) return result;
  constexpr double kLargest = 1LL << 53;
  if (*value < -kLargest || *value > kLargest) refuse("a large integer is computed from a size");
  symbol.origin = Symbol::Origin::computed;
  symbol.example = static_cast<int64_t>(*value);
  return result;
}

NumberPtr Decisions::definition(const std::string& symbol) const {
  const auto at = symbols_.find(symbol);
  return at == symbols_.end() ? nullptr : at->second.definition;
}

Dim Decisions::resolved(const Dim::Factor& factor) {
  if (factor.operands.empty()) return Dim::of(factor);
  const Dim a = resolved(factor.operands[0]);
  const Dim b = resolved(factor.operands[1]);
  const bool is_extremum = factor.kind == Dim::Atom::min || factor.kind == Dim::Atom::max;
  if (is_extremum && !(example(a) && example(b)))
    return factor.kind == Dim::Atom::min ? Dim::min(a, b) : Dim::max(a, b);
  // Decides in the direction that holds for the example, so that equal sizes stay possible.
  const auto a_is_least = [&] {
    if (proven(b - a, Relation::less_equal) == true) return false;
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
  const auto told = [&](bool holds) {
    if (on_decision_ && !given.is_constant()) tell(given, relation, holds);
    return holds;
  };
  if (const auto known = proven(given, relation)) return told(*known);
  const Dim difference = resolved(given);
  if (const auto known = proven(difference, relation)) return told(*known);
  const std::optional<int64_t> value = example(difference);
  if (!value) {
    const std::string key = concat(difference.str(), " ", static_cast<int>(relation));
    NumberPtr& condition = conditions_[key];
    if (!condition)
      condition = make_call(operator_of(relation), {make_number(difference), make_number(Dim(0))});
    return choose(condition, text);
  }
  const bool holds = is_true(*value, relation);
  if (on_decision_) return told(holds);
  if (relation == Relation::equal && holds && !follows_equations_ && !is_flexible(difference)) {
    note_equation(difference);
    note_fixed_by(difference);
    refuse("the program depends on " + text + ", which holds for the example",
           RefusalKind::pinned_size);
  }
  note_guard({difference, relation, holds, text, {}});
  return holds;
}

bool Decisions::decide(const NumberPtr& condition) {
  const std::string text = str(*condition);
  const std::optional<double> value = example(*condition);
  if (!value) return choose(condition, text);
  if (on_decision_) refuse("the program depends on " + text);
  const auto* call = std::get_if<Number::Call>(&condition->is);
  if (call && call->op == "python::eq" && *value != 0 && !follows_equations_) {
    note_fixed_by(*condition);
    refuse("the program depends on " + text + ", which holds for the example",
           RefusalKind::pinned_size);
  }
  note_guard({0, Relation::equal, *value != 0, text, {}, condition});
  return *value != 0;
}

bool Decisions::choose(const NumberPtr& condition, const std::string& text) {
  if (forks()) undecided_ = condition;
  // torch.export refuses branches on numbers that are read from tensors. It records some of those
  // on sizes that depend on data.
  const RefusalKind kind = is_read(*condition) ? RefusalKind::control_flow : RefusalKind::other;
  const bool way = choose(condition, branch_on_data(text), kind);
  undecided_ = nullptr;
  return way;
}

bool Decisions::is_read(const Number& number) const {
  if (std::holds_alternative<aten::Value*>(number.is)) return true;
  if (const auto* dim = std::get_if<Dim>(&number.is))
    return std::ranges::any_of(dim->symbols(), [this](const std::string& symbol) {
      if (read_.contains(symbol)) return true;
      const NumberPtr computed = definition(symbol);
      return computed && is_read(*computed);
    });
  const auto* call = std::get_if<Number::Call>(&number.is);
  return call && std::ranges::any_of(call->operands, [this](const NumberPtr& operand) {
           return is_read(*operand);
         });
}

void Decisions::fork(std::vector<bool> choices, bool probes) {
  runs_.begin();
  choices_ = std::move(choices);
  probes_ = probes;
  chosen_.clear();
}

bool Decisions::choose(const std::shared_ptr<const void>& condition, const std::string& reason,
                       RefusalKind kind) {
  if (!choices_) refuse(reason, kind);
  if (const auto known = chosen_.find(condition); known != chosen_.end()) return known->second;
  TORCH_CHECK(chosen_.size() < choices_->size(), reason);
  const bool way = (*choices_)[chosen_.size()];
  chosen_.emplace(condition, way);
  runs_.note_choice();
  return way;
}

void Decisions::note_guard(Guard guard) {
  const bool known = std::ranges::any_of(guards_, [&](const Guard& other) {
    if (guard.condition || other.condition) return guard.text == other.text;
    return guard.relation == other.relation && guard.difference == other.difference;
  });
  if (known) return;
  // n > 1 says what n != 1 said.
  if (const std::optional<DimFact> fact = fact_of(guard)) {
    std::erase_if(guards_, [&](const Guard& other) {
      return !other.condition &&
             decided(narrowed_by({&*fact, 1}, other.difference, {}), other.relation) == other.holds;
    });
  }
  guard.source = line_();
  guards_.push_back(std::move(guard));
}

void Decisions::note_broadcast(const Dim& size, const Dim& to) {
  const Dim from_one = size - Dim(1);
  const Dim difference = size - to;
  for (const Dim& zero : {from_one, difference}) {
    if (proven(zero, Relation::equal).value_or(false)) return;
  }
  const std::string equal = concat(size.str(), " == ", to.str());
  if (proven(from_one, Relation::equal) == false) {
    decide(difference, Relation::equal, concat(to.str(), " == ", size.str()));
    return;
  }
  note_requirement(concat(size.str(), " == 1 or ", equal));
}

void Decisions::note_equal(const Dim& size, const Dim& to) {
  for (const Dim& difference : {size - to, to - size}) {
    if (asserted_.contains(difference.str())) return;  // the model checks it
  }
  note_requirement(concat(size.str(), " == 1 or ", size.str(), " == ", to.str()));
}

// The program fails elsewhere: nothing is decided by the example.
void Decisions::note_requirement(const std::string& text) {
  note_guard({0, Relation::equal, true, text, {}, make_number(true)});
}

std::optional<Dim> Decisions::identity(const std::string& symbol, const std::string& number) {
  read_.insert(symbol);
  const auto at = identities_.find(symbol);
  if (at == identities_.end()) return std::nullopt;
  note_requirement(concat(number, " == ", at->second.str()));
  return at->second;
}

bool Decisions::assume(const Dim& difference, Relation relation, bool truth,
                       const std::string& text) {
  if (const auto known = proven(difference, relation)) return *known == truth;
  if (example(difference)) return decide(difference, relation, text) == truth;
  if (relation == Relation::equal && truth && !asserted_.contains(difference.str()))
    asserted_[difference.str()] =
        make_call(operator_of(relation), {make_number(difference), make_number(Dim(0))});
  // Narrows the range of a symbol s for k*s + c.
  const Dim rest = difference - Dim(difference.substitute([](std::string_view) { return Dim(0); }));
  const std::vector<Dim::Term>& terms = rest.terms();
  const std::optional<int64_t> offset = (difference - rest).constant();
  if (terms.size() != 1 || terms[0].factors.size() != 1 || !offset ||
      terms[0].factors[0].kind != Dim::Atom::symbol)
    return true;
  const int64_t factor = terms[0].coefficient;
  if (factor != 1 && factor != -1) return true;
  const auto at = symbols_.find(terms[0].factors[0].name);
  if (at == symbols_.end() || at->second.origin != Symbol::Origin::data) return true;
  // k*s <= bound, or k*s >= bound
  const int64_t slack = relation == Relation::less ? 1 : 0;
  const int64_t bound = truth ? -*offset - slack : -*offset + (relation == Relation::less ? 0 : 1);
  DimRange& range = at->second.range;
  if (relation == Relation::equal) {
    if (!truth) return true;
    at_most(range, factor * bound);
    at_least(range, factor * bound);
  } else if (truth == (factor > 0)) {
    at_most(range, factor * bound);
  } else {
    at_least(range, factor * bound);
  }
  has_assumptions_ = true;
  // Kernels get a stand-in that the program's assertions allow.
  Symbol& symbol = at->second;
  if (symbol.is_size_of_tensor) return true;
  if (range.high) symbol.example = std::min(symbol.example, *range.high);
  if (range.low) symbol.example = std::max(symbol.example, *range.low);
  return true;
}

Dim Decisions::narrowed(const Dim& dim) const {
  if (!has_assumptions_ || dim.is_constant()) return dim;
  return dim.substitute([this](std::string_view name) -> std::optional<Dim> {
    const auto at = symbols_.find(std::string(name));
    if (at == symbols_.end() || at->second.origin != Symbol::Origin::data) return std::nullopt;
    return symbol(at->first);
  });
}

// Prints an expression. Prints the computation in place of a symbol that stands for one.
std::string Decisions::text(const Dim& dim) const {
  const std::string name = dim.str();
  const NumberPtr number = definition(name);
  return number ? str(*number) : name;
}

int64_t Decisions::pinned(const Dim& dim, const std::string& use, RefusalKind kind) {
  if (const auto number = dim.constant()) return *number;
  if (const auto number = counted(dim)) {
    lost_count_ = true;
    return count(dim, *number);
  }
  if (const auto number = example(dim)) {
    const Dim difference = dim - Dim(*number);
    if (proven(difference, Relation::equal) == true) return *number;
    if (is_one_sided(difference)) {
      decide(difference, Relation::equal, concat(text(dim), " == ", *number));
      return *number;
    }
  }
  note_fixed_by(dim);
  if (kind == RefusalKind::loop) loop_symbols_ = dim.symbols();
  refuse(use + " needs the number " + text(dim), kind);
}

bool Decisions::holds_nearby(const Symbol& symbol, const std::function<bool(int64_t)>& condition) {
  constexpr int64_t kFarthest = 64;
  const std::optional<int64_t> low = symbol.lowest();
  for (int64_t step = 1; step <= kFarthest; ++step) {
    const int64_t smaller = symbol.example - step;
    const int64_t larger = symbol.example + step;
    if ((!low || smaller >= *low) && condition(smaller)) return true;
    if ((!symbol.range.high || larger <= *symbol.range.high) && condition(larger)) return true;
  }
  return false;
}

bool Decisions::is_flexible(const Dim& difference) const {
  if (counted(difference)) return true;
  std::set<std::string> inputs;
  return add_inputs(difference, inputs) &&
         std::ranges::all_of(inputs, [&](const std::string& input) {
           return holds_nearby(symbols_.at(input), [&](int64_t value) {
             return value_at(difference, {{input, value}}) == 0;
           });
         });
}

// Returns true if an equation only bounds each of its symbols from above or from below:
// ceil(n / 128) == 1.
bool Decisions::is_one_sided(const Dim& difference) const {
  constexpr int64_t kLarge = int64_t{1} << 20;
  std::set<std::string> inputs;
  return is_flexible(difference) && add_inputs(difference, inputs) &&
         std::ranges::all_of(inputs, [&](const std::string& input) {
           const Symbol& symbol = symbols_.at(input);
           const int64_t ends[] = {symbol.lowest().value_or(-kLarge),
                                   symbol.range.high.value_or(kLarge)};
           return std::ranges::any_of(ends, [&](int64_t value) {
             return value_at(difference, {{input, value}}) == 0;
           });
         });
}

// Adds the sizes of inputs that an expression depends on. Returns false if it depends on data.
bool Decisions::add_inputs(const Dim& dim, std::set<std::string>& inputs) const {
  return std::ranges::all_of(dim.symbols(), [&](const std::string& name) {
    const auto at = symbols_.find(name);
    if (at == symbols_.end()) return false;
    if (at->second.definition) return add_inputs(*at->second.definition, inputs);
    if (at->second.is_of_input()) inputs.insert(name);
    return at->second.is_of_input();
  });
}

bool Decisions::add_inputs(const Number& number, std::set<std::string>& inputs) const {
  if (const auto* dim = std::get_if<Dim>(&number.is)) return add_inputs(*dim, inputs);
  if (const auto* call = std::get_if<Number::Call>(&number.is))
    return std::ranges::all_of(
        call->operands, [&](const NumberPtr& operand) { return add_inputs(*operand, inputs); });
  return !std::holds_alternative<aten::Value*>(number.is);
}

// Returns the value of a symbol in the example, where some sizes of inputs have other values.
std::optional<int64_t> Decisions::value_where(std::string_view name,
                                              const InputSizes& sizes) const {
  const auto at = symbols_.find(std::string(name));
  if (at == symbols_.end()) return std::nullopt;
  if (const auto given = sizes.find(at->first); given != sizes.end()) return given->second;
  if (!at->second.definition) return at->second.example;
  const std::optional<double> computed =
      evaluate(*at->second.definition,
               [&](std::string_view operand) { return value_where(operand, sizes); });
  return computed ? std::optional(static_cast<int64_t>(*computed)) : std::nullopt;
}

std::optional<int64_t> Decisions::value_at(const Dim& dim, const InputSizes& sizes) const {
  return dim.evaluate([&](std::string_view name) { return value_where(name, sizes); });
}

void Decisions::check() {
  check_narrowing();
  if (uses_outside() != uses_before_)
    refuse("the program uses a tensor or a size of the capture outside of it, in a thread perhaps");
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

void Decisions::note_refusal(const std::string& reason, RefusalKind kind) {
  if (probes_ || !reason_.empty()) return;
  refusal_kind_ = kind;
  const std::string line = line_();
  reason_ = line.empty() ? reason : concat(reason, " (", line, ")");
}

void Decisions::refuse(const std::string& reason, RefusalKind kind) {
  note_refusal(reason, kind);
  TORCH_CHECK(false, "onnx_native cannot record this program: ", reason_);
}

}  // namespace onnx_native::capture
