#include "ops/engine/size_call.h"

#include <string_view>
#include <unordered_map>

namespace onnx_native::ops {
namespace {

using Binary = Dim (*)(const Dim&, const Dim&);

Dim add(const Dim& a, const Dim& b) { return a + b; }
Dim subtract(const Dim& a, const Dim& b) { return a - b; }
Dim multiply(const Dim& a, const Dim& b) { return a * b; }

Binary binary(std::string_view op) {
  static const std::unordered_map<std::string_view, Binary> kBinary{
      {"python::add", add},          {"python::sub", subtract},
      {"python::mul", multiply},     {"python::floordiv", Dim::floor_div},
      {"python::mod", Dim::mod},     {"python::sym_max", Dim::max},
      {"python::sym_min", Dim::min},
  };
  const auto at = kBinary.find(op);
  return at == kBinary.end() ? nullptr : at->second;
}

const Lowered* known(const aten::Argument& argument, const Environment& environment) {
  const aten::Value* value = argument.as_value();
  const auto at = value ? environment.find(value) : environment.end();
  return at == environment.end() ? nullptr : &at->second;
}

std::optional<Dim> number(const aten::Argument& argument, const Environment& environment) {
  if (const auto* value = argument.get<int64_t>()) return Dim(*value);
  const Lowered* lowered = known(argument, environment);
  return lowered ? lowered->dim : std::nullopt;
}

// Returns the shape of the first argument, a tensor; nullptr if it is not known.
const Shape* shape(const aten::Node& node, const Environment& environment) {
  const Lowered* lowered = known(node.arguments[0], environment);
  return lowered && lowered->value && lowered->value->shape ? &*lowered->value->shape : nullptr;
}

}  // namespace

std::optional<Dim> computed_size(const aten::Node& node, const Environment& environment) {
  if (node.arguments.empty()) return std::nullopt;
  if (node.op == "aten::sym_size.int") {
    const Shape* sizes = shape(node, environment);
    const auto* axis = node.arguments[1].get<int64_t>();
    if (!sizes || !axis) return std::nullopt;
    const auto rank = static_cast<int64_t>(sizes->size());
    if (*axis < -rank || *axis >= rank) return std::nullopt;
    return (*sizes)[static_cast<size_t>(*axis < 0 ? *axis + rank : *axis)];
  }
  if (node.op == "aten::sym_numel") {
    const Shape* sizes = shape(node, environment);
    return sizes ? std::optional(numel(*sizes)) : std::nullopt;
  }
  const std::optional<Dim> a = number(node.arguments[0], environment);
  if (!a) return std::nullopt;
  if (node.op == "python::neg") return -*a;
  if (node.op == "python::abs") return Dim::max(*a, -*a);
  const Binary apply = binary(node.op);
  if (!apply || node.arguments.size() != 2) return std::nullopt;
  const std::optional<Dim> b = number(node.arguments[1], environment);
  return b ? std::optional(apply(*a, *b)) : std::nullopt;
}

bool may_be_misrecorded(const aten::Node& node, const Environment& environment) {
  if (node.op != "python::floordiv" && node.op != "python::mod") return false;
  const std::optional<Dim> divisor = number(node.arguments[1], environment);
  return divisor && !divisor->known_non_negative();
}

}  // namespace onnx_native::ops
