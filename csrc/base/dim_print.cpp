#include "base/dim_terms.h"

namespace onnx_native {
namespace {

bool is_call(const Dim::Factor& factor) {
  return factor.kind == Dim::Atom::max || factor.kind == Dim::Atom::min ||
         factor.kind == Dim::Atom::broadcast;
}

// Returns true if the text of the expression never needs parentheses.
bool is_primary(const Dim& dim) {
  if (const auto value = dim.constant()) return *value >= 0;
  if (dim.terms().size() != 1) return false;
  const Dim::Term& term = dim.terms()[0];
  return term.coefficient == 1 && term.factors.size() == 1 &&
         (term.factors[0].kind == Dim::Atom::symbol || is_call(term.factors[0]));
}

std::string operand(const Dim& dim) { return is_primary(dim) ? dim.str() : "(" + dim.str() + ")"; }

// Returns "a, b, c" for max(a, max(b, c)).
std::string arguments(const Dim::Factor& factor) {
  std::string out = factor.operands[0].str() + ", ";
  const Dim& last = factor.operands[1];
  if (last.terms().size() == 1 && last.terms()[0].coefficient == 1 &&
      last.terms()[0].factors.size() == 1 && last.terms()[0].factors[0].kind == factor.kind) {
    return out + arguments(last.terms()[0].factors[0]);
  }
  return out + last.str();
}

std::string text(const Dim::Factor& factor) {
  switch (factor.kind) {
    case Dim::Atom::symbol:
      return factor.name;
    case Dim::Atom::floor_div:
      return operand(factor.operands[0]) + "//" + operand(factor.operands[1]);
    case Dim::Atom::mod:
      return operand(factor.operands[0]) + " % " + operand(factor.operands[1]);
    case Dim::Atom::max:
      return "max(" + arguments(factor) + ")";
    case Dim::Atom::min:
      return "min(" + arguments(factor) + ")";
    case Dim::Atom::broadcast:
      return "broadcast(" + arguments(factor) + ")";
  }
  return {};
}

// Prints a term without its sign. Quotients and remainders are parenthesized next to another
// operator that binds as tightly.
std::string text(const Dim::Term& term, bool after_sign) {
  const uint64_t magnitude = term.coefficient < 0 ? 0 - static_cast<uint64_t>(term.coefficient)
                                                  : static_cast<uint64_t>(term.coefficient);
  std::string out;
  if (magnitude != 1 || term.factors.empty()) out = std::to_string(magnitude);
  const bool alone = out.empty() && term.factors.size() == 1 && !after_sign;
  for (size_t i = 0; i < term.factors.size();) {
    size_t power = 1;
    while (i + power < term.factors.size() &&
           compare(term.factors[i], term.factors[i + power]) == 0) {
      ++power;
    }
    const Dim::Factor& factor = term.factors[i];
    std::string base = text(factor);
    if (!alone && factor.kind != Dim::Atom::symbol && !is_call(factor)) base = "(" + base + ")";
    if (!out.empty()) out += "*";
    out += base;
    if (power > 1) out += "**" + std::to_string(power);
    i += power;
  }
  return out;
}

}  // namespace

std::string Dim::str() const {
  if (terms().empty()) return "0";
  std::string out;
  for (const Term& term : terms()) {
    const bool negative = term.coefficient < 0;
    if (out.empty()) {
      out = negative ? "-" + text(term, true) : text(term, false);
    } else {
      out += (negative ? " - " : " + ") + text(term, false);
    }
  }
  return out;
}

std::string str(const Shape& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) out += ", ";
    out += shape[i].str();
  }
  return out + "]";
}

}  // namespace onnx_native
