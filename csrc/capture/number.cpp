#include "capture/number.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <unordered_map>
#include <utility>

#include "base/error.h"

namespace onnx_native::capture {
namespace {

using Binary = double (*)(double, double);
using Unary = double (*)(double);

// Operators with two operands: how they print, and their value.
struct BinaryOperator {
  std::string_view word;
  Binary apply;
};

// Python's float arithmetic: the remainder is exact, and the quotient follows from it.
double floored_remainder(double a, double b) {
  const double remainder = std::fmod(a, b);
  if (remainder == 0) return std::copysign(0.0, b);
  return (b < 0) == (remainder < 0) ? remainder : remainder + b;
}

double floor_divided(double a, double b) {
  const double truncated = std::fmod(a, b);
  double quotient = (a - truncated) / b;
  if (truncated != 0 && (b < 0) != (truncated < 0)) quotient -= 1;
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

const BinaryOperator* binary(std::string_view op) {
  static const std::unordered_map<std::string_view, BinaryOperator> kBinary{
      {"python::add", {" + ", [](double a, double b) { return a + b; }}},
      {"python::sub", {" - ", [](double a, double b) { return a - b; }}},
      {"python::mul", {"*", [](double a, double b) { return a * b; }}},
      {"python::truediv", {" / ", [](double a, double b) { return a / b; }}},
      {"python::floordiv", {" // ", floor_divided}},
      {"python::mod", {" % ", floored_remainder}},
      {"python::pow", {"**", [](double a, double b) { return std::pow(a, b); }}},
      {"python::sym_max", {" max ", [](double a, double b) { return std::fmax(a, b); }}},
      {"python::sym_min", {" min ", [](double a, double b) { return std::fmin(a, b); }}},
      {"python::eq", {" == ", [](double a, double b) { return a == b ? 1.0 : 0.0; }}},
      {"python::lt", {" < ", [](double a, double b) { return a < b ? 1.0 : 0.0; }}},
      {"python::le", {" <= ", [](double a, double b) { return a <= b ? 1.0 : 0.0; }}},
  };
  const auto at = kBinary.find(op);
  return at == kBinary.end() ? nullptr : &at->second;
}

Unary unary(std::string_view op) {
  static const std::unordered_map<std::string_view, Unary> kUnary{
      {"python::neg", [](double a) { return -a; }},
      {"python::floor", [](double a) { return std::floor(a); }},
      {"python::ceil", [](double a) { return std::ceil(a); }},
      {"python::trunc", [](double a) { return std::trunc(a); }},
      {"python::round", [](double a) { return std::nearbyint(a); }},  // half to even
      {"python::_sym_sqrt", [](double a) { return std::sqrt(a); }},
      {"python::_sym_exp", [](double a) { return std::exp(a); }},
      {"python::_sym_log", [](double a) { return std::log(a); }},
      {"python::_sym_log2", [](double a) { return std::log2(a); }},
      {"python::_sym_log10", [](double a) { return std::log10(a); }},
      {"python::_sym_sin", [](double a) { return std::sin(a); }},
      {"python::_sym_cos", [](double a) { return std::cos(a); }},
      {"python::_sym_tanh", [](double a) { return std::tanh(a); }},
      {"python::sym_float", [](double a) { return a; }},
      {"python::sym_not", [](double a) { return a == 0 ? 1.0 : 0.0; }},
  };
  const auto at = kUnary.find(op);
  return at == kUnary.end() ? nullptr : at->second;
}

std::optional<double> evaluate_call(const Number::Call& call, const SymbolValue& value) {
  std::vector<double> operands;
  for (const NumberPtr& operand : call.operands) {
    const std::optional<double> known = evaluate(*operand, value);
    if (!known) return std::nullopt;
    operands.push_back(*known);
  }
  std::optional<double> result;
  if (operands.size() == 2) {
    const BinaryOperator* found = binary(call.op);
    const bool divides =
        call.op == "python::truediv" || call.op == "python::floordiv" || call.op == "python::mod";
    if (divides && operands[1] == 0) return std::nullopt;  // Python raises
    if (found) result = found->apply(operands[0], operands[1]);
  } else if (const Unary apply = operands.size() == 1 ? unary(call.op) : nullptr) {
    result = apply(operands[0]);
  }
  return result && std::isfinite(*result) ? result : std::nullopt;
}

}  // namespace

bool is_condition(std::string_view op) {
  constexpr std::array<std::string_view, 6> kConditions{
      "python::eq", "python::lt", "python::le", "python::and_", "python::or_", "python::sym_not"};
  return std::ranges::find(kConditions, op) != kConditions.end();
}

NumberPtr make_number(decltype(Number::is) is) {
  return std::make_shared<const Number>(Number{std::move(is)});
}

bool is_float_function(std::string_view op) {
  return op.starts_with("python::_sym_") && unary(op) != nullptr;
}

NumberPtr make_call(std::string_view op, std::vector<NumberPtr> operands) {
  return make_number(Number::Call{std::string(op), std::move(operands)});
}

std::optional<double> evaluate(const Number& number, const SymbolValue& value) {
  if (const auto* known = std::get_if<double>(&number.is)) return *known;
  if (const auto* known = std::get_if<bool>(&number.is)) return *known ? 1.0 : 0.0;
  if (const auto* dim = std::get_if<Dim>(&number.is)) {
    const std::optional<int64_t> known = dim->evaluate(value);
    return known ? std::optional(static_cast<double>(*known)) : std::nullopt;
  }
  const auto* call = std::get_if<Number::Call>(&number.is);
  return call ? evaluate_call(*call, value) : std::nullopt;
}

std::string str(const Number& number) {
  if (const auto* known = std::get_if<double>(&number.is)) return concat(*known);
  if (const auto* known = std::get_if<bool>(&number.is)) return *known ? "True" : "False";
  if (const auto* dim = std::get_if<Dim>(&number.is)) return dim->str();
  if (const auto* value = std::get_if<aten::Value*>(&number.is)) return (*value)->name;
  const auto& call = std::get<Number::Call>(number.is);
  if (const BinaryOperator* found = binary(call.op); found && call.operands.size() == 2)
    return concat("(", str(*call.operands[0]), found->word, str(*call.operands[1]), ")");
  if (call.op == "python::sym_not") return concat("(not ", str(*call.operands[0]), ")");
  return concat(call.op.substr(call.op.rfind(':') + 1), "(", str(*call.operands[0]), ")");
}

}  // namespace onnx_native::capture
