#include "capture/math_function.h"

#include <string>
#include <utility>
#include <variant>

#include "base/error.h"
#include "capture/symbolic_size.h"

namespace onnx_native::capture {
namespace {

// Returns true for a quotient of a size by a positive number, whose floor is exact.
bool is_non_negative_quotient(const Number& number, const Decisions& decisions) {
  const auto* call = std::get_if<Number::Call>(&number.is);
  if (!call || call->op != "python::truediv") return false;
  const auto* numerator = std::get_if<Dim>(&call->operands[0]->is);
  const auto* denominator = std::get_if<Dim>(&call->operands[1]->is);
  return numerator && denominator && denominator->constant().value_or(0) > 0 &&
         decisions.proven(*numerator, Relation::less) == false;
}

// Returns the integer that was converted to this float; nullptr for any other number.
const Dim* as_integer(const Number& number) {
  const auto* call = std::get_if<Number::Call>(&number.is);
  return call && call->op == "python::sym_float" ? std::get_if<Dim>(&call->operands[0]->is)
                                                 : nullptr;
}

}  // namespace

c10::SymNode math_function(std::string_view name, c10::SymNode number, Decisions& decisions) {
  const NumberPtr operand = to_number(number, decisions);
  const std::string op = concat("python::_sym_", name);
  if (is_float_function(op))
    return to_sym_float(make_call(op, {operand}), decisions).toSymNodeImpl();
  if (number->is_int()) return number;
  if (const Dim* integer = as_integer(*operand))  // trunc, floor and the like
    return to_sym_int(*integer, decisions).toSymNode();
  if (name == "trunc" && is_non_negative_quotient(*operand, decisions)) return number->floor();
  const Dim result = decisions.define(make_call(concat("python::", name), {operand}));
  return to_sym_int(result, decisions).toSymNode();
}

}  // namespace onnx_native::capture
