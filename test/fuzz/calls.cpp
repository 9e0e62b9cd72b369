#include "fuzz/calls.h"

#include <string>
#include <vector>

#include "aten/schema.h"

namespace onnx_native::fuzz {
namespace {

using aten::SchemaType;
using aten::TypeKind;

// "aten::add.Tensor" -> "torch.ops.aten.add.Tensor"
std::string target_of(std::string op) {
  const bool has_overload = op.find('.') != std::string::npos;
  op.replace(op.find("::"), 2, ".");
  return "torch.ops." + op + (has_overload ? "" : ".default");
}

class Arguments {
 public:
  Arguments(const Json& graph, Random& random) : choose_(random) {
    for (const auto& [name, meta] : graph["tensor_values"].items()) tensors_.push_back(name);
  }

  bool one_in(uint32_t count) { return choose_.one_in(count); }
  Json tensor() {
    if (tensors_.empty()) return {{"name", "none"}};
    return {{"name", choose_.of(tensors_)}};
  }
  Json argument(const SchemaType& type) {
    if (type.optional && one_in(3)) return none();
    if (type.list) return list(type);
    switch (type.kind) {
      case TypeKind::tensor:
        return {{"as_tensor", tensor()}};
      case TypeKind::integer:
      case TypeKind::sym_int:
        return {{"as_int", choose_.integer()}};
      case TypeKind::floating:
        return {{"as_float", choose_.real()}};
      case TypeKind::scalar:
        return one_in(2) ? Json{{"as_int", choose_.integer()}} : Json{{"as_float", choose_.real()}};
      case TypeKind::boolean:
        return {{"as_bool", one_in(2)}};
      case TypeKind::dtype:
        return {{"as_scalar_type", 1 + choose_.below(13)}};
      case TypeKind::string:
        return {{"as_string", choose_.word()}};
      case TypeKind::layout:
        return {{"as_layout", 7}};
      case TypeKind::memory_format:
        return {{"as_memory_format", 1 + choose_.below(4)}};
      case TypeKind::device:
        return {{"as_device", {{"type", "cpu"}}}};
      case TypeKind::complex:
        return {{"as_complex", {{"real", choose_.real()}, {"imag", choose_.real()}}}};
      default:
        return none();
    }
  }

 private:
  static Json none() { return {{"as_none", true}}; }
  Json list(const SchemaType& type) {
    const size_t size = choose_.length(type.fixed_size);
    Json items = Json::array();
    const auto fill = [&](const auto& make) {
      for (size_t i = 0; i < size; ++i) items.push_back(make());
    };
    switch (type.kind) {
      case TypeKind::tensor:
        fill([&] { return tensor(); });
        if (!type.optional_elements) return {{"as_tensors", items}};
        for (Json& item : items) item = one_in(3) ? none() : Json{{"as_tensor", item}};
        return {{"as_optional_tensors", items}};
      case TypeKind::boolean:
        fill([&] { return one_in(2); });
        return {{"as_bools", items}};
      case TypeKind::floating:
        fill([&] { return choose_.real(); });
        return {{"as_floats", items}};
      default:
        fill([&] { return choose_.integer(); });
        return {{"as_ints", items}};
    }
  }

  Choices choose_;
  std::vector<std::string> tensors_;
};

}  // namespace

void replace_call(Json& graph, Random& random) {
  Json& nodes = graph["nodes"];
  if (!nodes.is_array() || nodes.empty() || !graph["tensor_values"].is_object()) return;
  Json& node = nodes[random() % nodes.size()];
  const std::string& op = operators()[random() % operators().size()];
  const aten::Schema& schema = *aten::find_schema(op);
  Arguments arguments(graph, random);
  Json inputs = Json::array();
  for (const aten::SchemaArgument& argument : schema.arguments) {
    if (argument.has_default && arguments.one_in(2)) continue;
    inputs.push_back(
        {{"name", argument.name}, {"arg", arguments.argument(argument.type)}, {"kind", 1}});
  }
  Json outputs = Json::array();
  for (const aten::SchemaArgument& result : schema.returns) {
    if (result.type.list) {
      outputs.push_back({{"as_tensors", {arguments.tensor(), arguments.tensor()}}});
    } else {
      outputs.push_back({{"as_tensor", arguments.tensor()}});
    }
  }
  // Keeps the first output of the replaced node, so that its uses stay valid.
  if (!outputs.empty() && node.is_object() && node["outputs"].is_array() &&
      !node["outputs"].empty() && !schema.returns[0].type.list)
    outputs[0] = node["outputs"][0];
  node = {{"name", op},
          {"target", target_of(op)},
          {"inputs", inputs},
          {"outputs", outputs},
          {"metadata", Json::object()}};
}

}  // namespace onnx_native::fuzz
