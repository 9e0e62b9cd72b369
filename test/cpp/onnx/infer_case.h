// Infers the types of one node's outputs from text: tensors as "f32[s0, 4]", of unknown rank as
// "f32?", integer tensors with known elements as "i64{2, s0}" (1-D) and "i64(s0)" (0-D), an absent
// input as "".
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "onnx/graph.h"
#include "onnx/infer.h"
#include "onnx/typing.h"

namespace onnx_native::onnx {

// Declares a symbol: an integer if its name starts with "int_", else an input size.
inline std::optional<Dim> symbol_of(std::string_view name) {
  return Dim::symbol(name, name.starts_with("int_") ? DimRange::integer() : DimRange::input_size());
}

inline std::vector<Dim> parse_dims(std::string_view text) {
  std::vector<Dim> dims;
  size_t begin = 0;
  int depth = 0;
  for (size_t at = 0; at <= text.size(); ++at) {
    if (at < text.size() && text[at] == '(') ++depth;
    if (at < text.size() && text[at] == ')') --depth;
    if (at < text.size() && (text[at] != ',' || depth > 0)) continue;
    if (at > begin) dims.push_back(parse_dim(text.substr(begin, at - begin), symbol_of).value());
    begin = at + 1;
  }
  return dims;
}

inline Value* parse_value(Graph& graph, std::string_view text) {
  if (text.empty()) return nullptr;
  const size_t open = text.find_first_of("[{(?");
  const DType dtype = dtype_from_name(text.substr(0, open)).value();
  if (text[open] == '?') return graph.add_value(dtype);
  std::vector<Dim> dims = parse_dims(text.substr(open + 1, text.size() - open - 2));
  if (text[open] == '[') return graph.add_value(dtype, std::move(dims));
  Value* value = graph.add_value(
      dtype, text[open] == '(' ? Shape{} : Shape{static_cast<int64_t>(dims.size())});
  onnx::Typing::set_contents(*value, std::move(dims));
  return value;
}

inline std::string text_of(const Value& value) {
  std::string text(name(value.dtype));
  text += value.shape ? str(*value.shape) : "?";
  if (value.contents) {
    const std::string elements = str(*value.contents);
    text += "{" + elements.substr(1, elements.size() - 2) + "}";
  }
  return text;
}

// Returns the types of the node's outputs, separated by "; ".
inline std::string inferred(std::string_view op_type, const std::vector<std::string>& inputs,
                            std::vector<Attribute> attributes = {}, size_t outputs = 1,
                            int64_t opset = 23) {
  Dim::restart_fresh();
  Graph graph;
  std::vector<Value*> values;
  for (const std::string& input : inputs) values.push_back(parse_value(graph, input));
  Node* node = graph.add_node(op_type, std::move(values), outputs, std::move(attributes));
  infer(*node, opset);
  std::string text;
  for (const Value* output : node->outputs) {
    if (!text.empty()) text += "; ";
    text += text_of(*output);
  }
  return text;
}

}  // namespace onnx_native::onnx
