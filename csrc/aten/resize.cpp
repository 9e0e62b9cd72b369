#include "aten/resize.h"

#include <optional>
#include <utility>

#include "aten/fault.h"
#include "aten/strides.h"
#include "aten/views.h"

namespace onnx_native::aten {
namespace {

// Returns the sizes of argument 1, which has this type.
Argument sizes_of(Graph& graph, const Node& node, const Type& type) {
  Argument::List sizes;
  for (size_t i = 0; i < type.shape->size(); ++i) {
    const Dim& size = (*type.shape)[i];
    if (const auto number = size.constant()) {
      sizes.emplace_back(*number);
    } else {
      Node* asks = graph.add_node("aten::sym_size.int",
                                  {node.arguments[1], static_cast<int64_t>(i)}, node.location);
      sizes.emplace_back(graph.add_output(asks, "size", Type::sym_int(size)));
    }
  }
  return sizes;
}

}  // namespace

void resize_as_view(Graph& graph, Node& node, bool is_contiguous) {
  const Value* self = node.arguments[0].as_value();
  const bool as_other = node.schema->name == "aten::resize_as_";
  Type to;
  if (const Value* other = as_other ? node.arguments[1].as_value() : nullptr) to = other->type;
  if (!as_other && !node.outputs.empty()) to = node.outputs[0]->type;
  if (!self->type.shape || !to.shape)
    fail_unsupported(node, "cannot resize a tensor with unknown sizes");
  if (!is_contiguous) fail_unsupported(node, "cannot resize a tensor that may not be contiguous");
  const Dim left = numel(*self->type.shape) - numel(*to.shape);
  if (!left.known_non_negative())
    fail_unsupported(node, "cannot resize to more elements: the new elements are uninitialized");
  Argument::List strides;
  const std::optional<Layout> packed = contiguous_layout(to);
  for (const Stride& stride : packed->strides) {
    if (!stride->is_constant())
      fail_unsupported(node, "cannot resize to inner sizes that are dynamic; make them static");
    strides.emplace_back(*stride->constant());
  }
  Argument sizes = as_other ? sizes_of(graph, node, to) : node.arguments[1];
  node.arguments = {node.arguments[0], std::move(sizes), std::move(strides), int64_t{0}};
  node.schema = find_schema("aten::as_strided_");
  node.op = node.schema->key;
}

}  // namespace onnx_native::aten
