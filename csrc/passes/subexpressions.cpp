#include <cstring>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using onnx::AttributeValue;
using onnx::Graph;
using onnx::Node;
using onnx::Value;

// Constants up to this size are compared by their bytes.
constexpr int64_t kLargestCompared = 4096;

bool is_random(std::string_view op_type) {
  static const std::unordered_set<std::string_view> kRandom{
      "Bernoulli",        "Dropout",       "Multinomial",       "RandomNormal",
      "RandomNormalLike", "RandomUniform", "RandomUniformLike",
  };
  return kRandom.contains(op_type);
}

// Text that is equal for equal things.
class Key {
 public:
  template <class T>
  void add(const T& plain) {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_same_v<T, std::string_view>);
    text_.append(reinterpret_cast<const char*>(&plain), sizeof(plain));
  }
  void add_text(std::string_view text) {
    add(text.size());
    text_ += text;
  }
  // Whether the tensor is small enough.
  bool add_tensor(const TensorData& data) {
    if (!data.is_contiguous() || data.nbytes() > kLargestCompared || item_size(data.dtype) == 0) {
      return false;
    }
    add(data.dtype);
    add(data.shape.size());
    for (const int64_t size : data.shape) add(size);
    const auto bytes = data.bytes();
    add_text({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    return true;
  }
  // Whether it is an attribute whose values can be compared.
  bool add_attribute(const AttributeValue& value) {
    add(value.index());
    return std::visit([this](const auto& held) { return add_held(held); }, value);
  }
  std::string take() { return std::move(text_); }

 private:
  bool add_held(int64_t value) { return add(value), true; }
  bool add_held(double value) { return add(value), true; }
  bool add_held(DType value) { return add(value), true; }
  bool add_held(const std::string& value) { return add_text(value), true; }
  template <class T>
  bool add_held(const std::vector<T>& values) {
    add(values.size());
    for (const T& value : values) add_held(value);
    return true;
  }
  bool add_held(const std::shared_ptr<TensorData>& value) { return add_tensor(*value); }
  bool add_held(const std::shared_ptr<Graph>&) { return false; }

  std::string text_;
};

std::optional<std::string> key_of(const Node& node) {
  if (!node.domain.empty() || is_random(node.op_type)) return std::nullopt;
  Key key;
  key.add_text(node.op_type);
  key.add(node.inputs.size());
  for (const Value* input : node.inputs) key.add(reinterpret_cast<uintptr_t>(input));
  key.add(node.outputs.size());
  for (const Value* output : node.outputs) key.add(output != nullptr);
  // The order of attributes means nothing.
  std::map<std::string_view, const AttributeValue*> attributes;
  for (const auto& attribute : node.attributes) attributes[attribute.name] = &attribute.value;
  for (const auto& [name, value] : attributes) {
    key.add_text(name);
    if (!key.add_attribute(*value)) return std::nullopt;
  }
  return key.take();
}

using Initializers = std::unordered_map<std::string, Value*>;

std::unordered_map<const Value*, Value*> equal_initializers(const Graph& graph) {
  std::unordered_map<const Value*, Value*> equal;
  const std::unordered_set<const Value*> results(graph.outputs.begin(), graph.outputs.end());
  Initializers first;
  for (Value* value : graph.initializers) {
    Key key;
    if (value->named || results.contains(value) || !key.add_tensor(*value->constant)) continue;
    const auto [found, is_new] = first.emplace(key.take(), value);
    if (!is_new) equal.emplace(value, found->second);
  }
  return equal;
}

}  // namespace

// Of nodes with the same operator, inputs and attributes in one graph, the first one serves all.
// Random operators, those with sub-graphs and those of other domains stay. Small equal initializers
// without a name of the user's become one.
bool eliminate_common_subexpressions(onnx::Model& model) {
  bool changed = false;
  onnx::for_each_graph(*model.graph, [&](Graph& graph) {
    const auto equal = equal_initializers(graph);
    if (equal.empty()) return;
    onnx::replace_uses(graph, equal);
    graph.erase_initializers([&equal](const Value& value) { return equal.contains(&value); });
    changed = true;
  });
  std::unordered_map<const Graph*, std::unordered_map<std::string, Node*>> seen;
  changed |= sweep(model, [&seen](Rewrite& rewrite, Graph& graph, Node& node) {
    auto key = key_of(node);
    if (!key) return;
    const auto [found, is_new] = seen[&graph].emplace(std::move(*key), &node);
    if (is_new) return;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i]) rewrite.replace(node.outputs[i], found->second->outputs[i]);
    }
  });
  return changed;
}

}  // namespace onnx_native::passes
