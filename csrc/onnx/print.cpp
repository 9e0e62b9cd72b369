#include <charconv>
#include <cmath>
#include <unordered_map>

#include "base/weight.h"
#include "onnx/graph.h"

namespace onnx_native::onnx {
namespace {

// Constants with more elements print as their type.
constexpr int64_t kLargestPrinted = 16;

std::string_view onnx_name(DType dtype) {
  static constexpr std::string_view kNames[] = {
      "undefined",      "float",      "uint8",         "int8",       "uint16",   "int16",
      "int32",          "int64",      "string",        "bool",       "float16",  "double",
      "uint32",         "uint64",     "complex64",     "complex128", "bfloat16", "float8e4m3fn",
      "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"};
  const auto number = static_cast<size_t>(dtype);
  return number < std::size(kNames) ? kNames[number] : "undefined";
}

bool is_identifier(std::string_view text) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  if (text.empty() || !is_letter(text.front())) return false;
  for (const char c : text) {
    if (!is_letter(c) && !(c >= '0' && c <= '9')) return false;
  }
  return true;
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string identifier(std::string_view text) {
  return is_identifier(text) ? std::string(text) : in_quotes(text);
}

// Returns the shortest text that parses back to the same float.
std::string number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), static_cast<float>(value)).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

template <class Items, class Print>
std::string joined(const Items& items, const Print& print) {
  std::string out;
  for (const auto& item : items) {
    if (!out.empty()) out += ", ";
    out += print(item);
  }
  return out;
}

std::string type_text(DType dtype, const std::optional<Shape>& shape) {
  std::string out(onnx_name(dtype));
  if (!shape) return out + "[]";
  if (shape->empty()) return out;
  return out + "[" +
         joined(
             *shape,
             [](const Dim& dim) { return dim.is_constant() ? dim.str() : identifier(dim.str()); }) +
         "]";
}

std::string type_text(const Value& value) {
  const std::string tensor = type_text(value.dtype, value.shape);
  switch (value.kind) {
    case ValueKind::sequence:
      return "seq(" + tensor + ")";
    case ValueKind::optional:
      return "optional(" + tensor + ")";
    case ValueKind::tensor:
      break;
  }
  return tensor;
}

std::string elements(const TensorData& data) {
  std::string out = "{";
  for (int64_t i = 0; i < data.numel(); ++i) {
    if (i > 0) out += ", ";
    out += is_floating(data.dtype) ? number(data.number(i)) : std::to_string(data.integer(i));
  }
  return out + "}";
}

bool is_printed(const TensorData& data) {
  return data.numel() <= kLargestPrinted && !is_complex(data.dtype) && item_size(data.dtype) > 0;
}

class Printer {
 public:
  std::string graph(const Graph& graph, const std::string& indent) {
    const auto typed = [this](const Value* value) { return type_text(*value) + " " + name(value); };
    std::string out = identifier(graph.name) + " (" + joined(graph.inputs, typed) + ") => (";
    // The body is printed before the outputs, so that unnamed values are numbered in node order.
    std::string body;
    for (const Node* node : graph.nodes) {
      body += indent + "  " + this->node(*node, indent + "  ") + "\n";
    }
    out += joined(graph.outputs, typed) + ")";
    if (!graph.initializers.empty()) {
      out +=
          "\n" + indent + "<" +
          joined(graph.initializers, [this](const Value* value) { return initializer(*value); }) +
          ">";
    }
    return out + " {\n" + body + indent + "}";
  }

  std::string node(const Node& node, const std::string& indent) {
    std::string out = joined(node.outputs, [this](const Value* value) { return name(value); });
    out += out.empty() ? "" : " = ";
    out += (node.domain.empty() ? "" : node.domain + ".") + node.op_type;
    if (!node.attributes.empty()) {
      out += " <" +
             joined(node.attributes,
                    [&](const Attribute& attribute) {
                      return attribute.name +
                             std::visit(
                                 [&](const auto& value) { return attribute_text(value, indent); },
                                 attribute.value);
                    }) +
             ">";
    }
    return out + " (" + joined(node.inputs, [this](const Value* value) { return name(value); }) +
           ")";
  }

  std::string function(const Function& function, int64_t opset) {
    std::string out = "<domain: " + in_quotes(function.domain) +
                      ", opset_import: [\"\" : " + std::to_string(opset) + "]>\n" +
                      identifier(function.name) + " ";
    if (!function.attributes.empty()) {
      out += "<" + joined(function.attributes, [](const auto& name) { return name; }) + "> ";
    }
    const auto plain = [this](const Value* value) { return name(value); };
    out += "(" + joined(function.body->inputs, plain) + ") => (" +
           joined(function.body->outputs, plain) + ") {\n";
    for (const Value* constant : function.body->initializers) {
      out += "  " + name(constant) +
             " = Constant <value: tensor = " + tensor_text(*constant->constant) + "> ()\n";
    }
    for (const Node* node : function.body->nodes) out += "  " + this->node(*node, "  ") + "\n";
    return out + "}";
  }

 private:
  std::string name(const Value* value) {
    if (!value) return "\"\"";
    if (!value->name.empty()) return identifier(value->name);
    return "_" + std::to_string(numbers_.emplace(value, numbers_.size()).first->second);
  }

  std::string initializer(const Value& value) {
    std::string out = type_text(value) + " " + name(&value);
    return is_printed(*value.constant) ? out + " = " + elements(current(*value.constant)) : out;
  }

  static std::string tensor_text(const TensorData& data) {
    const std::string type = type_text(data.dtype, Shape(data.shape.begin(), data.shape.end()));
    return type + " " + (is_printed(data) ? elements(current(data)) : "{...}");
  }

  std::string attribute_text(int64_t value, const std::string&) {
    return ": int = " + std::to_string(value);
  }
  std::string attribute_text(DType value, const std::string&) {
    return ": int = " + std::to_string(static_cast<int>(value));
  }
  std::string attribute_text(double value, const std::string&) {
    return ": float = " + number(value);
  }
  std::string attribute_text(const std::string& value, const std::string&) {
    return ": string = " + in_quotes(value);
  }
  std::string attribute_text(const std::vector<int64_t>& values, const std::string&) {
    return ": ints = [" + joined(values, [](int64_t value) { return std::to_string(value); }) + "]";
  }
  std::string attribute_text(const std::vector<double>& values, const std::string&) {
    return ": floats = [" + joined(values, number) + "]";
  }
  std::string attribute_text(const std::vector<std::string>& values, const std::string&) {
    return ": strings = [" + joined(values, in_quotes) + "]";
  }
  std::string attribute_text(const std::shared_ptr<TensorData>& value, const std::string&) {
    return ": tensor = " + tensor_text(*value);
  }
  std::string attribute_text(const std::shared_ptr<Graph>& value, const std::string& indent) {
    return ": graph = " + graph(*value, indent + "  ");
  }

  std::unordered_map<const Value*, size_t> numbers_;
};

}  // namespace

std::string print(const Model& model) {
  Printer printer;
  std::string out = "<opset_import: [\"\" : " + std::to_string(model.opset);
  for (const auto& [domain, version] : model.domains) {
    if (!domain.empty()) out += ", " + in_quotes(domain) + " : " + std::to_string(version);
  }
  out += "]>\n" + printer.graph(*model.graph, "") + "\n";
  for (const Function& function : model.functions) {
    out += Printer().function(function, model.opset) + "\n";
  }
  return out;
}

std::string print(const Graph& graph) { return Printer().graph(graph, "") + "\n"; }

std::string print(const Node& node) { return Printer().node(node, ""); }

}  // namespace onnx_native::onnx
