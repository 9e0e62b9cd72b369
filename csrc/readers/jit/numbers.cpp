// Symbolic numbers: sizes as expressions, and numbers that the model computes.
#include <torch/csrc/jit/ir/ir.h>

#include <cmath>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "base/dim_order.h"
#include "readers/jit/interpreter.h"

namespace onnx_native::readers::jit {
namespace {

using aten::Argument;

bool is_number(const Item& item) {
  if (item.get<Dim>() || item.number()) return true;
  const auto* known = item.get<c10::IValue>();
  return known && (known->isBool() || known->isDouble());
}

// Returns true if the first `count` inputs are numbers and at least one is not a constant.
bool are_open_numbers(const Call& call, size_t count) {
  if (call.size() < count) return false;
  bool open = false;
  for (size_t i = 0; i < count; ++i) {
    if (!is_number(call.input(i))) return false;
    open = open || !is_known(call.input(i));
  }
  return open;
}

Items record_number(const Call& call, std::string_view op, size_t count) {
  std::vector<Argument> arguments;
  for (size_t i = 0; i < count; ++i) arguments.push_back(call.run.argument(call.input(i)));
  return one(call.run.record_number(std::string(op), std::move(arguments)));
}

// Records a power of ints. Python's is an int or a float, depending on the exponent; TorchScript's
// is a float.
Items float_power(const Call& call) {
  Argument base = call.run.argument(call.input(0));
  const Item real = call.run.record_number("python::sym_float", {std::move(base)});
  return one(call.run.record_number("python::pow",
                                    {call.run.argument(real), call.run.argument(call.input(1))}));
}

// A float kept as an int divided by a constant, exact enough to round as Python does.
using Quotient = Interpreter::Quotient;

std::optional<Quotient> quotient(const Call& call, const Item& item) {
  if (const auto* dim = item.get<Dim>()) return Quotient{*dim, 1};
  return call.run.quotient(item);
}

// Returns a constant factor as a fraction whose denominator is a power of two, if possible.
std::optional<Quotient> fraction(const Item& item) {
  if (const auto number = item.integer()) return Quotient{*number, 1};
  const auto number = item.floating();
  if (!number || !std::isfinite(*number) || *number == 0) return std::nullopt;
  double scaled = *number;
  int64_t denominator = 1;
  while (scaled != std::floor(scaled) && denominator < 1024) {
    scaled *= 2;
    denominator *= 2;
  }
  if (scaled != std::floor(scaled) || std::abs(scaled) > 1e6) return std::nullopt;
  return Quotient{static_cast<int64_t>(scaled), denominator};
}

std::optional<Quotient> divided(const Call& call, bool inverse) {
  const std::optional<Quotient> a = quotient(call, call.input(0));
  const std::optional<Quotient> b = fraction(call.input(1));
  if (!a || !b) return std::nullopt;
  const int64_t numerator = b->numerator.constant_or(0);
  if (!inverse) return Quotient{a->numerator * numerator, a->denominator * b->denominator};
  if (numerator <= 0) return std::nullopt;
  return Quotient{a->numerator * b->denominator, a->denominator * numerator};
}

// --- Arithmetic

struct Binary {
  Dim (*formula)(const Dim&, const Dim&);  // of integers; nullptr: the result is a float
  std::string_view op;
  std::string_view of_floats = op;  // where TorchScript's arithmetic is not Python's
};

const std::unordered_map<std::string_view, Binary>& binaries() {
  static const auto& table = *new std::unordered_map<std::string_view, Binary>{
      {"aten::add", {[](const Dim& a, const Dim& b) { return a + b; }, "python::add"}},
      {"aten::sub", {[](const Dim& a, const Dim& b) { return a - b; }, "python::sub"}},
      {"aten::mul", {[](const Dim& a, const Dim& b) { return a * b; }, "python::mul"}},
      {"aten::floordiv", {Dim::floor_div, "python::floordiv", "aten::floordiv.float"}},
      {"aten::remainder", {Dim::mod, "python::mod", "aten::remainder.float"}},
      {"aten::div", {nullptr, "python::truediv"}},
      {"aten::pow", {nullptr, "python::pow"}},
      {"prim::max", {Dim::max, "python::sym_max"}},
      {"prim::min", {Dim::min, "python::sym_min"}},
  };
  return table;
}

std::optional<Items> binary(const Call& call) {
  if (!are_open_numbers(call, 2)) return std::nullopt;
  const std::string_view name = call.name();
  const Binary& rule = binaries().at(name);
  const bool is_float = call.node.output()->type()->kind() == c10::TypeKind::FloatType;
  const auto* a = call.input(0).get<Dim>();
  const auto* b = call.input(1).get<Dim>();
  if (a && b && rule.formula) return one(rule.formula(*a, *b));
  if (a && b && name == "aten::pow") {
    const int64_t power = b->constant_or(-1);
    if (power >= 0 && power <= 8) {
      Dim result = 1;
      for (int64_t i = 0; i < power; ++i) result = result * *a;
      return one(result);
    }
    if (is_float) return float_power(call);
  }
  Items result = record_number(call, is_float ? rule.of_floats : rule.op, 2);
  if (name == "aten::div" || name == "aten::mul") {
    if (const auto exact = divided(call, name == "aten::div"))
      call.run.set_quotient(result[0], *exact);
  }
  return result;
}

// --- Comparisons

std::optional<bool> compare(std::string_view name, const Dim& a, const Dim& b) {
  if (name == "aten::eq" || name == "aten::ne") {
    const bool equal = a == b;
    const bool different = (a - b).is_constant() || known_greater(a, b) || known_greater(b, a);
    if (!equal && !different) return std::nullopt;
    return equal == (name == "aten::eq");
  }
  // a < b and a <= b are b > a and b >= a.
  const bool turned = name == "aten::lt" || name == "aten::le";
  const Dim& left = turned ? b : a;
  const Dim& right = turned ? a : b;
  if (name == "aten::lt" || name == "aten::gt") {
    if (known_greater(left, right)) return true;
    return known_at_least(right, left) ? std::optional(false) : std::nullopt;
  }
  if (known_at_least(left, right)) return true;
  return known_greater(right, left) ? std::optional(false) : std::nullopt;
}

std::optional<Items> comparison(const Call& call) {
  if (!are_open_numbers(call, 2)) return std::nullopt;
  const std::string name(call.name());
  const auto* a = call.input(0).get<Dim>();
  const auto* b = call.input(1).get<Dim>();
  if (a && b) {
    if (const std::optional<bool> known = compare(name, *a, *b)) return one(c10::IValue(*known));
  }
  return record_number(call, "python::" + name.substr(name.find("::") + 2), 2);
}

// --- One operand

std::optional<Items> negate(const Call& call) {
  if (!are_open_numbers(call, 1)) return std::nullopt;
  if (const auto* dim = call.input(0).get<Dim>()) return one(-*dim);
  return record_number(call, "python::neg", 1);
}

std::optional<Items> to_float(const Call& call) {
  if (!are_open_numbers(call, 1)) return std::nullopt;
  if (call.input(0).number() && call.input(0).number()->type.kind == aten::Type::Kind::sym_float)
    return one(call.input(0));
  Items result = record_number(call, "python::sym_float", 1);
  if (const auto* dim = call.input(0).get<Dim>()) call.run.set_quotient(result[0], {*dim, 1});
  return result;
}

std::optional<Items> rounded_number(const Call& call, std::string_view op) {
  if (!are_open_numbers(call, 1)) return std::nullopt;
  if (call.input(0).get<Dim>()) return one(call.input(0));
  if (const std::optional<Quotient> exact = call.run.quotient(call.input(0))) {
    if (op == "python::ceil") return one(Dim::ceil_div(exact->numerator, exact->denominator));
    if (op == "python::floor" || exact->numerator.known_non_negative())
      return one(Dim::floor_div(exact->numerator, exact->denominator));
  }
  return record_number(call, op, 1);
}

std::optional<Items> to_int(const Call& call) { return rounded_number(call, "python::trunc"); }
std::optional<Items> floor(const Call& call) { return rounded_number(call, "python::floor"); }
std::optional<Items> ceil(const Call& call) { return rounded_number(call, "python::ceil"); }

// The result is a float, unlike in Python.
std::optional<Items> round(const Call& call) {
  if (!are_open_numbers(call, 1) || call.size() > 1) return std::nullopt;
  const Items rounded = record_number(call, "python::round", 1);
  return one(call.run.record_number("python::sym_float", {call.run.argument(rounded[0])}));
}

std::optional<Items> square_root(const Call& call) {
  if (!are_open_numbers(call, 1)) return std::nullopt;
  return record_number(call, "python::_sym_sqrt", 1);
}

std::optional<Items> absolute(const Call& call) {
  if (call.size() == 1 && call.input(0).tensor())  // Python's abs(x)
    return one(call.run.record_one("aten::abs", {call.run.argument(call.input(0))}));
  if (!are_open_numbers(call, 1)) return std::nullopt;
  if (const auto* dim = call.input(0).get<Dim>()) return one(Dim::max(*dim, -*dim));
  return record_number(call, "python::abs", 1);
}

// --- Booleans

std::optional<Items> to_bool(const Call& call) {
  if (!are_open_numbers(call, 1)) return std::nullopt;
  const Item& item = call.input(0);
  if (item.number() && item.number()->type.kind == aten::Type::Kind::sym_bool) return one(item);
  if (const auto* dim = item.get<Dim>()) {
    if (const auto known = compare("aten::ne", *dim, 0)) return one(c10::IValue(*known));
  }
  return one(call.run.record_number("python::ne", {call.run.argument(item), int64_t{0}}));
}

std::optional<Items> negation(const Call& call) {
  if (!call.input(0).number()) return std::nullopt;
  return record_number(call, "python::sym_not", 1);
}

// `a and b`, `a or b`, `a ^ b`; one of them may be a constant.
std::optional<Items> logical(const Call& call) {
  if (call.size() != 2 || !are_open_numbers(call, 2)) return std::nullopt;
  const std::string_view name = call.name();
  const bool is_and = name == "aten::__and__";
  for (const size_t i : {0, 1}) {
    const std::optional<bool> known = call.input(i).boolean();
    if (known) return one(*known == is_and ? call.input(1 - i) : call.input(i));
  }
  if (call.input(0).get<Dim>() || call.input(1).get<Dim>()) return std::nullopt;
  if (name == "aten::__xor__") return record_number(call, "python::ne", 2);
  return record_number(call, is_and ? "python::and_" : "python::or_", 2);
}

// `n << k` and `n >> k` for a constant k.
std::optional<Items> shift(const Call& call) {
  if (call.size() != 2 || !are_open_numbers(call, 2)) return std::nullopt;
  const auto* number = call.input(0).get<Dim>();
  const std::optional<int64_t> by = call.input(1).integer();
  if (!number || !by || *by < 0 || *by > 62) return std::nullopt;
  const int64_t power = int64_t{1} << *by;
  const bool is_left = call.name() == "aten::__lshift__";
  return one(is_left ? *number * power : Dim::floor_div(*number, power));
}

// Returns the trip count of `for i in range(low, high, step)`.
std::optional<Items> range_length(const Call& call) {
  if (!are_open_numbers(call, 3)) return std::nullopt;
  const auto* low = call.input(0).get<Dim>();
  const auto* high = call.input(1).get<Dim>();
  const auto step = call.input(2).integer();
  if (!low || !high || !step || *step == 0) return std::nullopt;
  const Dim span = *step > 0 ? *high - *low : *low - *high;
  const Dim length = Dim::ceil_div(span, std::abs(*step));
  return one(length.known_non_negative() ? length : Dim::max(0, length));
}

std::optional<Items> derive_index(const Call& call) {
  if (!are_open_numbers(call, 3)) return std::nullopt;
  const auto* index = call.input(0).get<Dim>();
  const auto* start = call.input(1).get<Dim>();
  const auto* step = call.input(2).get<Dim>();
  if (!index || !start || !step) return std::nullopt;
  return one(*start + *index * *step);
}

}  // namespace

void add_number_handlers(Handlers& handlers) {
  for (const auto& [name, rule] : binaries()) handlers[name].push_back(binary);
  for (const std::string_view name :
       {"aten::eq", "aten::ne", "aten::lt", "aten::le", "aten::gt", "aten::ge"}) {
    handlers[name].push_back(comparison);
  }
  handlers["aten::neg"].push_back(negate);
  handlers["prim::abs"].push_back(absolute);
  handlers["aten::abs"].push_back(absolute);
  handlers["aten::floor"].push_back(floor);
  handlers["aten::ceil"].push_back(ceil);
  handlers["aten::round"].push_back(round);
  handlers["aten::sqrt"].push_back(square_root);
  handlers["aten::__not__"].push_back(negation);
  handlers["aten::__and__"].push_back(logical);
  handlers["aten::__or__"].push_back(logical);
  handlers["aten::__xor__"].push_back(logical);
  handlers["aten::__lshift__"].push_back(shift);
  handlers["aten::__rshift__"].push_back(shift);
  handlers["aten::__range_length"].push_back(range_length);
  handlers["aten::__derive_index"].push_back(derive_index);
  handlers["aten::Int"].push_back(to_int);
  handlers["aten::Float"].push_back(to_float);
  handlers["aten::Bool"].push_back(to_bool);
}

}  // namespace onnx_native::readers::jit
