#include "aten/size_calls.h"

#include <utility>

namespace onnx_native::aten {

Argument SizeCalls::factor(const Dim::Factor& factor) {
  const Dim dim = Dim::of(factor);
  if (auto known = known_size(dim)) return std::move(*known);
  const auto call = [&](const char* op) {
    Argument a = size(factor.operands[0]);
    Argument b = size(factor.operands[1]);
    return size_call(op, {std::move(a), std::move(b)}, dim);
  };
  switch (factor.kind) {
    case Dim::Atom::symbol:
      return symbol_size(dim);
    case Dim::Atom::floor_div:
      return call("python::floordiv");
    case Dim::Atom::mod:
      return call("python::mod");
    case Dim::Atom::max:
      return call("python::sym_max");
    case Dim::Atom::min:
      return call("python::sym_min");
    case Dim::Atom::broadcast:
      break;
  }
  return broadcast_size(factor);
}

Argument SizeCalls::term(const Dim::Term& term) {
  if (term.factors.empty()) return term.coefficient;
  Dim product = Dim::of(term.factors[0]);
  Argument result = factor(term.factors[0]);
  for (size_t i = 1; i < term.factors.size(); ++i) {
    product = product * Dim::of(term.factors[i]);
    result = size_call("python::mul", {result, factor(term.factors[i])}, product);
  }
  if (term.coefficient == 1) return result;
  return size_call("python::mul", {result, term.coefficient}, product * term.coefficient);
}

Argument SizeCalls::size(const Dim& dim) {
  if (const auto number = dim.constant()) return *number;
  if (auto known = known_size(dim)) return std::move(*known);
  const std::vector<Dim::Term>& terms = dim.terms();
  Argument result = term(terms[0]);
  Dim sum = Dim::from_terms({terms[0]});
  for (size_t i = 1; i < terms.size(); ++i) {
    const Argument next = term(terms[i]);
    sum = sum + Dim::from_terms({terms[i]});
    result = size_call("python::add", {result, next}, sum);
  }
  return result;
}

}  // namespace onnx_native::aten
