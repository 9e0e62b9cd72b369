#include "passes/key.h"

#include <map>

#include "base/weight.h"
#include "onnx/schema.h"

namespace onnx_native::passes {
namespace {

// Constants of up to this many bytes are compared by their contents.
constexpr int64_t kLargestCompared = 4096;

}  // namespace

bool Key::add_tensor(const TensorData& data) {
  if (!data.is_contiguous() || can_change(data) || data.nbytes() > kLargestCompared ||
      item_size(data.dtype) == 0) {
    return false;
  }
  add(data.dtype);
  add(data.shape.size());
  for (const int64_t size : data.shape) add(size);
  const auto bytes = data.bytes();
  add_text({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  return true;
}

bool Key::add_attributes(const onnx::Node& node,
                         const std::function<bool(const onnx::Graph&)>& add_graph) {
  std::map<std::string_view, const onnx::AttributeValue*> attributes;
  for (const auto& attribute : node.attributes) attributes[attribute.name] = &attribute.value;
  for (const auto& [name, value] : attributes) {
    add_text(name);
    add(value->index());
    const bool comparable = std::visit(
        [&](const auto& held) {
          if constexpr (std::is_same_v<decltype(held), const std::shared_ptr<onnx::Graph>&>) {
            return add_graph && add_graph(*held);
          } else {
            return add_held(held);
          }
        },
        *value);
    if (!comparable) return false;
  }
  return true;
}

std::optional<std::string> key_of(const onnx::Node& node) {
  if (!node.domain.empty() || onnx::is_random(node.op_type)) return std::nullopt;
  Key key;
  key.add_text(node.op_type);
  key.add(node.inputs.size());
  for (const onnx::Value* input : node.inputs) key.add_identity(input);
  key.add(node.outputs.size());
  for (const onnx::Value* output : node.outputs) key.add(output != nullptr);
  if (!key.add_attributes(node)) return std::nullopt;
  return key.take();
}

}  // namespace onnx_native::passes
