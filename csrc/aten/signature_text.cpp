#include "aten/signature_text.h"

#include <cctype>
#include <map>

namespace onnx_native::aten {
namespace {

std::string line(const std::string& name, const char* kind, const std::string& target = {}) {
  return concat(name, ": ", kind, target.empty() ? "" : " target='" + target + "'");
}

// Returns the lines of the constants of a kind, given by its name.
std::string lines_of(const Graph& graph, std::string_view kind) {
  std::string text;
  for (const Constant& constant : graph.constants) {
    if (kind_name(constant.kind) != kind) continue;
    text += line(placeholder_name(constant), kind_name(constant.kind), constant.value->name);
    if (is_buffer(constant.kind)) text += concat(" persistent=", persistent_text(constant.kind));
    text += '\n';
  }
  return text;
}

class Ranges {
 public:
  void add(const Graph& graph) {
    for (const Value* input : graph.inputs) add(input->type);
    for (const Node* node : graph.nodes) {
      for (const Value* output : node->outputs) add(output->type);
      for (const Argument& argument : node->arguments)
        if (const auto* body = argument.get<std::shared_ptr<Graph>>()) add(**body);
    }
  }

  std::string text() const {
    const auto bound = [](std::optional<int64_t> bound, const char* infinite) {
      return bound ? std::to_string(*bound) : std::string(infinite);
    };
    std::string text;
    for (const auto& [name, range] : ranges_) {
      text += concat(text.empty() ? "" : ", ", name, ": VR[", bound(range.low, "-int_oo"), ", ",
                     bound(range.high, "int_oo"), "]");
    }
    return "{" + text + "}";
  }

 private:
  void add(const Type& type) {
    if (type.dim) add(*type.dim);
    if (!type.shape) return;
    for (const Dim& dim : *type.shape) add(dim);
  }
  void add(const Dim& dim) {
    dim.for_each_symbol(
        [this](const Dim::Factor& symbol) { ranges_.try_emplace(symbol.name, symbol.range); });
  }

  std::map<std::string, DimRange> ranges_;
};

}  // namespace

const char* kind_name(ConstantKind kind) {
  return kind == ConstantKind::parameter ? "PARAMETER"
         : is_buffer(kind)               ? "BUFFER"
                                         : "CONSTANT_TENSOR";
}

const char* persistent_text(ConstantKind kind) {
  if (!is_buffer(kind)) return "None";
  return kind == ConstantKind::buffer ? "True" : "False";
}

std::string placeholder_name(const Constant& constant) {
  std::string name = constant.kind == ConstantKind::parameter ? "p_"
                     : is_buffer(constant.kind)               ? "b_"
                                                              : "c_";
  for (const char c : constant.value->name) {
    const auto byte = static_cast<unsigned char>(c);
    name += byte < 0x80 && std::isalnum(byte) ? static_cast<char>(std::tolower(byte)) : '_';
  }
  return name;
}

std::string signature_text(const Graph& graph) {
  std::string text = "\n# inputs\n";
  for (const char* kind : {"PARAMETER", "BUFFER", "CONSTANT_TENSOR"}) text += lines_of(graph, kind);
  for (const Value* input : graph.inputs) text += line(input->name, "USER_INPUT") + "\n";
  text += "\n# outputs\n";
  for (const Mutation& mutation : graph.mutations) {
    const char* kind = mutation.is_buffer ? "BUFFER_MUTATION" : "USER_INPUT_MUTATION";
    text += line(mutation.value ? mutation.value->name : "", kind, mutation.target) + "\n";
  }
  for (const Argument& output : graph.outputs) {
    const Value* value = output.as_value();
    text += line(value ? value->name : "", "USER_OUTPUT") + "\n";
  }
  return text;
}

std::string ranges_text(const Graph& graph) {
  Ranges ranges;
  ranges.add(graph);
  return ranges.text();
}

}  // namespace onnx_native::aten
