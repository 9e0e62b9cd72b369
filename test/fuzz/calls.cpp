#include "fuzz/calls.h"

#include <algorithm>
#include <string>
#include <vector>

#include "aten/schema.h"
#include "ops/op_table.h"

namespace onnx_native::fuzz {
namespace {

using aten::SchemaType;
using aten::TypeKind;

const std::vector<std::string>& operators() {
  static const std::vector<std::string>& names = *[] {
    auto* result = new std::vector<std::string>();
    for (const auto& [op, key] : ops::op_table().keys())
      if (aten::find_schema(op)) result->push_back(op);
    return result;
  }();
  return names;
}

// "aten::add.Tensor" -> "torch.ops.aten.add.Tensor"
std::string target_of(std::string op) {
  const bool has_overload = op.find('.') != std::string::npos;
  op.replace(op.find("::"), 2, ".");
  return "torch.ops." + op + (has_overload ? "" : ".default");
}

class Arguments {
 public:
  Arguments(const Json& graph, Random& random) : random_(random) {
    for (const auto& [name, meta] : graph["tensor_values"].items()) tensors_.push_back(name);
  }

  bool one_in(uint32_t count) { return random_() % count == 0; }
  Json tensor() {
    if (tensors_.empty()) return {{"name", "none"}};
    return {{"name", tensors_[random_() % tensors_.size()]}};
  }
  Json argument(const SchemaType& type) {
    if (type.optional && one_in(3)) return none();
    if (type.list) return list(type);
    switch (type.kind) {
      case TypeKind::tensor:
        return {{"as_tensor", tensor()}};
      case TypeKind::integer:
      case TypeKind::sym_int:
        return {{"as_int", integer()}};
      case TypeKind::floating:
        return {{"as_float", real()}};
      case TypeKind::scalar:
        return one_in(2) ? Json{{"as_int", integer()}} : Json{{"as_float", real()}};
      case TypeKind::boolean:
        return {{"as_bool", one_in(2)}};
      case TypeKind::dtype:
        return {{"as_scalar_type", 1 + random_() % 13}};
      case TypeKind::string:
        return {{"as_string", word()}};
      case TypeKind::layout:
        return {{"as_layout", 7}};
      case TypeKind::memory_format:
        return {{"as_memory_format", 1 + random_() % 4}};
      case TypeKind::device:
        return {{"as_device", {{"type", "cpu"}}}};
      case TypeKind::complex:
        return {{"as_complex", {{"real", real()}, {"imag", real()}}}};
      default:
        return none();
    }
  }

 private:
  static Json none() { return {{"as_none", true}}; }
  int64_t integer() {
    static constexpr int64_t kOdd[] = {INT64_MAX, INT64_MIN, INT32_MAX, int64_t{1} << 40, 1 << 20};
    return one_in(16) ? kOdd[random_() % std::size(kOdd)]
                      : static_cast<int64_t>(random_() % 10) - 3;
  }
  double real() {
    static constexpr double kReals[] = {0, 0.5, 1, 2, -1, 1e-6, 1e300, -7.25};
    return kReals[random_() % std::size(kReals)];
  }
  std::string word() {
    static constexpr const char* kWords[] = {"none",    "mean",     "sum",  "floor",
                                             "trunc",   "constant", "tanh", "amax",
                                             "reflect", "",         "ij",   "linear"};
    return kWords[random_() % std::size(kWords)];
  }
  Json list(const SchemaType& type) {
    size_t size = random_() % 5;
    if (type.fixed_size > 0 && !one_in(5)) size = static_cast<size_t>(type.fixed_size);
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
        fill([&] { return real(); });
        return {{"as_floats", items}};
      default:
        fill([&] { return integer(); });
        return {{"as_ints", items}};
    }
  }

  Random& random_;
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
  // What the replaced node gave is still there for those who use it.
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
