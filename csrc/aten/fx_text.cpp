#include "aten/fx_text.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <utility>

#include "aten/signature_text.h"
#include "aten/visit.h"

namespace onnx_native::aten {
namespace {

std::string number_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", number);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string dtype_text(DType dtype) {
  static const std::map<DType, std::string> kTorchNames{
      {DType::f32, "float32"},   {DType::f64, "float64"},   {DType::f16, "float16"},
      {DType::bf16, "bfloat16"}, {DType::i64, "int64"},     {DType::i32, "int32"},
      {DType::i16, "int16"},     {DType::i8, "int8"},       {DType::u8, "uint8"},
      {DType::u16, "uint16"},    {DType::u32, "uint32"},    {DType::u64, "uint64"},
      {DType::boolean, "bool"},  {DType::c64, "complex64"}, {DType::c128, "complex128"},
  };
  const auto known = kTorchNames.find(dtype);
  return "torch." + (known == kTorchNames.end() ? std::string(name(dtype)) : known->second);
}

// Returns how torch.fx prints the callee.
std::string target_text(const Node& node) {
  constexpr std::string_view kPython = "python::";
  if (node.op.starts_with(kPython)) return "operator." + node.op.substr(kPython.size());
  return "torch.ops." + python_name(node);
}

// Returns the name of an operator without its namespace and overload.
std::string plain_name(std::string_view op) {
  op.remove_prefix(op.rfind(':') + 1);
  return std::string(op.substr(0, op.find('.')));
}

}  // namespace

std::string python_name(const Node& node) {
  const size_t colons = node.op.find("::");
  if (colons == std::string::npos) return node.op;
  std::string text = node.op;
  text.replace(colons, 2, ".");
  const bool has_overload = text.find('.', colons + 1) != std::string::npos;
  if (node.schema && !has_overload) text += ".default";
  return text;
}

void FxText::count(const Argument& argument) {
  for_each_value(argument, [this](const Value* value) { ++users_[value]; });
  if (const auto* body = argument.get<std::shared_ptr<Graph>>()) add(**body);
}

void FxText::add(const Graph& graph) {
  for (const Constant& constant : graph.constants)
    placeholders_.emplace(constant.value, placeholder_name(constant));
  for (const Node* node : graph.nodes) {
    for (const Argument& argument : node->arguments) count(argument);
  }
  for (const Argument& output : graph.outputs) count(output);
}

void FxText::print(const Argument& argument, std::string& to) const {
  if (const Value* value = argument.as_value()) {
    const auto weight = placeholders_.find(value);
    to += '%';
    to += weight == placeholders_.end() ? value->name : weight->second;
  } else if (const auto* integer = argument.get<int64_t>()) {
    to += std::to_string(*integer);
  } else if (const auto* real = argument.get<double>()) {
    to += number_text(*real);
  } else if (const auto* truth = argument.get<bool>()) {
    to += *truth ? "True" : "False";
  } else if (const auto* complex = argument.get<std::complex<double>>()) {
    to += fmt::format("({}{:+}j)", complex->real(), complex->imag());
  } else if (const auto* text = argument.get<std::string>()) {
    to += text->ends_with("_format") ? "torch." + *text : *text;
  } else if (const auto* dtype = argument.get<DType>()) {
    to += dtype_text(*dtype);
  } else if (const auto* items = argument.get<Argument::List>()) {
    to += '[';
    for (size_t i = 0; i < items->size(); ++i) {
      if (i > 0) to += ", ";
      print((*items)[i], to);
    }
    to += ']';
  } else if (argument.get<std::shared_ptr<Graph>>()) {
    to += "%graph";
  } else {
    to += "None";
  }
}

std::string FxText::of(const Node& node) const {
  const auto is_default = [&node](size_t i) {
    if (!node.schema || i >= node.schema->arguments.size()) return false;
    if (!node.schema->arguments[i].has_default) return false;
    const auto text = [](const Argument& argument) {
      std::string printed;
      if (!argument.as_value()) FxText().print(argument, printed);
      return printed;
    };
    const std::string given = text(node.arguments[i]);
    return !given.empty() && given == text(default_arguments(*node.schema)[i]);
  };
  const auto is_keyword = [&node](size_t i) {
    return node.schema && i < node.schema->arguments.size() && node.schema->arguments[i].kwarg_only;
  };
  size_t positional = 0;  // number of positional arguments to print
  int64_t users = 0;
  std::string args, kwargs;
  for (size_t i = 0; i < node.arguments.size(); ++i) {
    if (!is_keyword(i) && !is_default(i)) positional = i + 1;
  }
  for (size_t i = 0; i < node.arguments.size(); ++i) {
    if (is_keyword(i)) {
      if (is_default(i)) continue;
      kwargs += kwargs.empty() ? "" : ", ";
      kwargs += node.schema->arguments[i].name + ": ";
      print(node.arguments[i], kwargs);
    } else if (i < positional) {
      args += i == 0 ? "" : ", ";
      print(node.arguments[i], args);
    }
  }
  for (const Value* output : node.outputs) {
    const auto count = users_.find(output);
    if (count != users_.end()) users += count->second;
  }
  const std::string name = node.location && !node.location->node.empty() ? node.location->node
                           : node.outputs.empty()                        ? plain_name(node.op)
                                                                         : node.outputs[0]->name;
  return fmt::format(
      "%{} : [num_users={}] = call_function[target={}](args = ({}{}), kwargs = {{{}}})", name,
      users, target_text(node), args, positional == 1 ? "," : "", kwargs);
}

}  // namespace onnx_native::aten
