#include "base/dim.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/dim_data.h"
#include "base/dim_terms.h"

namespace onnx_native {

struct Dim::Rep {
  std::vector<Term> terms;
  size_t hash = 0;
};

namespace {

void mix(size_t& seed, size_t value) {
  seed ^= value + 0x9e3779b97f4a7c15ULL + (seed << 6) + (seed >> 2);
}

size_t hash_terms(const std::vector<Dim::Term>& terms) {
  size_t seed = terms.size();
  for (const Dim::Term& term : terms) {
    mix(seed, static_cast<size_t>(term.coefficient));
    for (const Dim::Factor& factor : term.factors) {
      mix(seed, static_cast<size_t>(factor.kind));
      mix(seed, std::hash<std::string>()(factor.name));
      for (const Dim& operand : factor.operands) mix(seed, operand.hash());
    }
  }
  return seed;
}

// Wraps on overflow like int64 tensors.
int64_t wrapping_add(int64_t a, int64_t b) {
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) WrapWatch::note();
  return sum;
}
int64_t wrapping_multiply(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) WrapWatch::note();
  return product;
}

// Returns the sum of two canonical term lists, the second one multiplied by `scale`.
std::vector<Dim::Term> merge(const std::vector<Dim::Term>& a, const std::vector<Dim::Term>& b,
                             int64_t scale) {
  std::vector<Dim::Term> sum;
  sum.reserve(a.size() + b.size());
  size_t i = 0;
  size_t j = 0;
  while (i < a.size() || j < b.size()) {
    const int order = i == a.size() ? 1 : j == b.size() ? -1 : compare(a[i].factors, b[j].factors);
    if (order < 0) {
      sum.push_back(a[i++]);
    } else if (order > 0) {
      sum.push_back({wrapping_multiply(b[j].coefficient, scale), b[j].factors});
      ++j;
    } else {
      const int64_t coefficient =
          wrapping_add(a[i].coefficient, wrapping_multiply(b[j].coefficient, scale));
      if (coefficient != 0) sum.push_back({coefficient, a[i].factors});
      ++i;
      ++j;
    }
  }
  return sum;
}

// The names of this thread's symbols, and the next number to try for each stem.
struct SymbolNames {
  std::set<std::string, std::less<>> used;
  std::map<std::string, int64_t, std::less<>> next;
};
SymbolNames& symbol_names() {
  thread_local SymbolNames names;
  return names;
}

}  // namespace

uint64_t& WrapWatch::count() {
  thread_local uint64_t wraps = 0;
  return wraps;
}

// Compares names, u2 before u10: a sum of sizes keeps its order when one more is added.
int compare_names(const std::string& a, const std::string& b) {
  const auto stem = [](std::string_view name) {
    return name.substr(0, name.find_last_not_of("0123456789") + 1);
  };
  const std::string_view first = stem(a), second = stem(b);
  if (first != second) return first < second ? -1 : 1;
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  return a.compare(b);
}

int compare(const Dim::Factor& a, const Dim::Factor& b) {
  if (a.kind != b.kind) return a.kind < b.kind ? -1 : 1;
  if (a.kind == Dim::Atom::symbol) return compare_names(a.name, b.name);
  for (size_t i = 0; i < a.operands.size(); ++i) {
    if (const int order = compare(a.operands[i], b.operands[i])) return order;
  }
  return 0;
}

int compare(const std::vector<Dim::Factor>& a, const std::vector<Dim::Factor>& b) {
  if (a.size() != b.size()) return a.size() > b.size() ? -1 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    if (const int order = compare(a[i], b[i])) return order;
  }
  return 0;
}

int compare(const Dim& a, const Dim& b) {
  const auto& left = a.terms();
  const auto& right = b.terms();
  if (&left == &right) return 0;
  for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    if (const int order = compare(left[i].factors, right[i].factors)) return order;
    if (left[i].coefficient != right[i].coefficient) {
      return left[i].coefficient < right[i].coefficient ? -1 : 1;
    }
  }
  if (left.size() == right.size()) return 0;
  return left.size() < right.size() ? -1 : 1;
}

Dim make_atom(Dim::Atom kind, const Dim& a, const Dim& b) { return Dim::of({kind, "", {a, b}}); }

Dim::Dim(int64_t value) {
  constexpr int64_t kCachedFrom = -64;
  constexpr int64_t kCachedUpTo = 4096;
  const auto make = [](int64_t constant) {
    auto rep = std::make_shared<Rep>();
    if (constant != 0) rep->terms.push_back({constant, {}});
    rep->hash = hash_terms(rep->terms);
    return rep;
  };
  if (value < kCachedFrom || value > kCachedUpTo) {
    rep_ = make(value);
    return;
  }
  static const auto cached = [&] {
    std::vector<std::shared_ptr<const Rep>> reps;
    for (int64_t i = kCachedFrom; i <= kCachedUpTo; ++i) reps.push_back(make(i));
    return reps;
  }();
  rep_ = cached[static_cast<size_t>(value - kCachedFrom)];
}

Dim Dim::from_terms(std::vector<Term> terms) {
  for (Term& term : terms) {
    std::sort(term.factors.begin(), term.factors.end(),
              [](const Factor& a, const Factor& b) { return compare(a, b) < 0; });
  }
  std::sort(terms.begin(), terms.end(),
            [](const Term& a, const Term& b) { return compare(a.factors, b.factors) < 0; });
  auto rep = std::make_shared<Rep>();
  for (Term& term : terms) {
    if (!rep->terms.empty() && compare(rep->terms.back().factors, term.factors) == 0) {
      Term& last = rep->terms.back();
      last.coefficient = wrapping_add(last.coefficient, term.coefficient);
    } else {
      if (!rep->terms.empty() && rep->terms.back().coefficient == 0) rep->terms.pop_back();
      rep->terms.push_back(std::move(term));
    }
  }
  if (!rep->terms.empty() && rep->terms.back().coefficient == 0) rep->terms.pop_back();
  rep->hash = hash_terms(rep->terms);
  return Dim(std::shared_ptr<const Rep>(std::move(rep)));
}

Dim Dim::of(Factor factor) { return from_terms({{1, {std::move(factor)}}}); }

Dim Dim::symbol(std::string_view name, const DimRange& range) {
  auto& used = symbol_names().used;
  if (used.find(name) == used.end()) used.emplace(name);
  return of({Atom::symbol, std::string(name), {}, range});
}

Dim Dim::fresh(const DimRange& range, std::string_view stem) {
  SymbolNames& names = symbol_names();
  auto next = names.next.find(stem);
  if (next == names.next.end()) next = names.next.emplace(stem, 0).first;
  std::string name;
  do {
    name = std::string(stem) + std::to_string(next->second++);
  } while (names.used.contains(name));
  return symbol(name, range);
}

void Dim::restart_fresh() { symbol_names() = {}; }

const std::vector<Dim::Term>& Dim::terms() const { return rep_->terms; }

bool Dim::is_constant() const {
  return rep_->terms.empty() || (rep_->terms.size() == 1 && rep_->terms[0].factors.empty());
}

std::optional<int64_t> Dim::constant() const {
  if (rep_->terms.empty()) return 0;
  if (is_constant()) return rep_->terms[0].coefficient;
  return std::nullopt;
}

bool Dim::is(Atom kind) const {
  if (rep_->terms.size() != 1) return false;
  const Term& term = rep_->terms[0];
  return term.coefficient == 1 && term.factors.size() == 1 && term.factors[0].kind == kind;
}

bool Dim::operator==(const Dim& other) const {
  return rep_ == other.rep_ || (rep_->hash == other.rep_->hash && compare(*this, other) == 0);
}

size_t Dim::hash() const { return rep_->hash; }

Dim operator+(const Dim& a, const Dim& b) {
  if (a.terms().empty()) return b;
  if (b.terms().empty()) return a;
  if (a.is_constant() && b.is_constant()) return wrapping_add(*a.constant(), *b.constant());
  return Dim::from_terms(merge(a.terms(), b.terms(), 1));
}

Dim operator-(const Dim& a, const Dim& b) {
  if (b.terms().empty()) return a;
  if (a.rep_ == b.rep_) return 0;
  return Dim::from_terms(merge(a.terms(), b.terms(), -1));
}

Dim operator*(const Dim& a, const Dim& b) {
  if (a.terms().empty() || b.equals(1)) return a;
  if (b.terms().empty() || a.equals(1)) return b;
  if (a.is_constant() && b.is_constant()) return wrapping_multiply(*a.constant(), *b.constant());
  std::vector<Dim::Term> product;
  product.reserve(a.terms().size() * b.terms().size());
  for (const Dim::Term& left : a.terms()) {
    for (const Dim::Term& right : b.terms()) {
      Dim::Term term{wrapping_multiply(left.coefficient, right.coefficient), left.factors};
      term.factors.insert(term.factors.end(), right.factors.begin(), right.factors.end());
      product.push_back(std::move(term));
    }
  }
  return Dim::from_terms(std::move(product));
}

Dim Dim::operator-() const { return Dim(0) - *this; }

void Dim::for_each_symbol(const std::function<void(const Factor& symbol)>& visit) const {
  for (const Term& term : terms()) {
    for (const Factor& factor : term.factors) {
      if (factor.kind == Atom::symbol) visit(factor);
      for (const Dim& operand : factor.operands) operand.for_each_symbol(visit);
    }
  }
}

bool Dim::may_be_empty() const {
  if (is_constant()) return equals(0);
  if (known_positive()) return false;
  return depends_on_data(*this) || has_limit() || (is_polynomial() && (*this + 1).known_positive());
}

bool depends_on_data(const Dim& size) {
  bool found = false;
  size.for_each_symbol(
      [&found](const Dim::Factor& symbol) { found = found || !symbol.range.is_input_size; });
  return found;
}

bool Dim::is_polynomial() const {
  return std::ranges::all_of(terms(), [](const Term& term) {
    return std::ranges::all_of(term.factors,
                               [](const Factor& f) { return f.kind == Atom::symbol; });
  });
}

bool Dim::has_limit() const {
  const auto limits = [](const Factor& factor) {
    return factor.kind == Atom::min || factor.kind == Atom::max ||
           std::ranges::any_of(factor.operands, &Dim::has_limit);
  };
  return std::ranges::any_of(
      terms(), [&](const Term& term) { return std::ranges::any_of(term.factors, limits); });
}

std::vector<std::string> Dim::symbols() const {
  std::vector<std::string> names;
  for_each_symbol([&](const Factor& symbol) {
    if (std::ranges::find(names, symbol.name) == names.end()) names.push_back(symbol.name);
  });
  return names;
}

Dim Dim::substitute(const std::function<std::optional<Dim>(std::string_view)>& replacement) const {
  if (is_constant()) return *this;
  const auto replaced = [&](const Factor& factor) -> Dim {
    if (factor.kind == Atom::symbol) {
      const auto replaced = replacement(factor.name);
      return replaced ? *replaced : of(factor);
    }
    const Dim a = factor.operands[0].substitute(replacement);
    const Dim b = factor.operands[1].substitute(replacement);
    switch (factor.kind) {
      case Atom::floor_div:
        return floor_div(a, b);
      case Atom::mod:
        return mod(a, b);
      case Atom::max:
        return max(a, b);
      case Atom::broadcast:
        return broadcast(a, b);
      default:
        return min(a, b);
    }
  };
  Dim sum = 0;
  for (const Term& term : terms()) {
    Dim product = term.coefficient;
    for (const Factor& factor : term.factors) product = product * replaced(factor);
    sum = sum + product;
  }
  return sum;
}

Dim Dim::from_source(int64_t source) const {
  if (is_constant()) return *this;
  std::vector<Term> marked = terms();
  for (Term& term : marked) {
    for (Factor& factor : term.factors) {
      if (factor.kind == Atom::symbol) factor.source = source;
      for (Dim& operand : factor.operands) operand = operand.from_source(source);
    }
  }
  return from_terms(std::move(marked));
}

std::optional<int64_t> Dim::evaluate(
    const std::function<std::optional<int64_t>(std::string_view)>& value) const {
  const auto evaluated = [&](const Factor& factor) -> std::optional<int64_t> {
    if (factor.kind == Atom::symbol) return value(factor.name);
    const auto a = factor.operands[0].evaluate(value);
    const auto b = factor.operands[1].evaluate(value);
    if (!a || !b) return std::nullopt;
    switch (factor.kind) {
      case Atom::floor_div:
        return *b == 0 ? std::nullopt : std::optional(floor_divide(*a, *b));
      case Atom::mod:
        return *b == 0 ? std::nullopt : std::optional(floor_modulo(*a, *b));
      case Atom::max:
        return std::max(*a, *b);
      case Atom::broadcast:
        return *a == 1 ? *b : *a;
      default:
        return std::min(*a, *b);
    }
  };
  int64_t sum = 0;
  for (const Term& term : terms()) {
    int64_t product = term.coefficient;
    for (const Factor& factor : term.factors) {
      const auto number = evaluated(factor);
      if (!number) return std::nullopt;
      product = wrapping_multiply(product, *number);
    }
    sum = wrapping_add(sum, product);
  }
  return sum;
}

Dim numel(const Shape& shape) {
  Dim product = 1;
  for (const Dim& size : shape) product = product * size;
  return product;
}

bool is_empty(const Shape& shape) {
  return std::ranges::any_of(shape, [](const Dim& size) { return size.equals(0); });
}

bool may_be_empty(const Shape& shape) { return std::ranges::any_of(shape, &Dim::may_be_empty); }

std::optional<std::vector<int64_t>> constant_shape(const Shape& shape) {
  std::vector<int64_t> sizes;
  sizes.reserve(shape.size());
  for (const Dim& size : shape) {
    const auto constant = size.constant();
    if (!constant) return std::nullopt;
    sizes.push_back(*constant);
  }
  return sizes;
}

}  // namespace onnx_native
