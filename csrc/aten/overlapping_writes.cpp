#include "aten/overlapping_writes.h"

#include <algorithm>

#include "aten/fault.h"
#include "aten/functional_schema.h"
#include "aten/op_facts.h"
#include "aten/unwritable.h"
#include "aten/view_kinds.h"
#include "aten/views.h"

namespace onnx_native::aten {
namespace {

// Returns true if writing an element again gives it the same value.
bool is_idempotent(const Node& node) {
  const Schema* functional = find_functional(*node.schema).schema;
  return functional && facts_of(*functional).idempotent;
}

bool is_one_element(const Argument* argument) {
  const Value* value = argument ? argument->as_value() : nullptr;
  return value && value->type.shape &&
         std::ranges::all_of(*value->type.shape, [](const Dim& size) { return size.equals(1); });
}

// Returns true for a tensor whose elements are all equal, such as `ones`.
bool is_filled(const Argument* argument) {
  const Value* value = argument ? argument->as_value() : nullptr;
  const Node* producer = value ? value->producer : nullptr;
  return producer && producer->schema && facts_of(*producer->schema).uniform;
}

// Returns true if the call writes the same value to all elements.
bool writes_one_value(const Node& node) {
  if (!node.schema) return false;
  if (is_idempotent(node)) return true;
  if (node.schema->name == "aten::copy_") {
    const Argument* source = find_argument(node, "src");
    return is_one_element(source) || is_filled(source);
  }
  if (node.schema->name != "aten::index_put_") return false;
  const Argument* accumulate = find_argument(node, "accumulate");
  const bool* adds = accumulate ? accumulate->get<bool>() : nullptr;
  return adds && !*adds && is_one_element(find_argument(node, "values"));
}

// Returns the layout in a base that is contiguous: which elements of the base the tensor shows does
// not depend on the base's strides. nullopt if the tensor may be a copy.
std::optional<Layout> layout_in_base(const Tensor& tensor) {
  if (!tensor.view) return contiguous_layout(tensor.names.front()->type);
  if (tensor.view->condition) return std::nullopt;
  return view_layout(*tensor.view->node, tensor.output, layout_in_base(*tensor.view->base));
}

}  // namespace

void check_overlapping_write(const Node& node, const Tensor& written,
                             const std::function<std::optional<Layout>()>& layout) {
  bool overlaps = false;
  for (const Tensor* at = &written; at->view && !overlaps; at = at->view->base)
    overlaps = may_overlap(*at->view->node, at->output);
  if (!overlaps || writes_one_value(node)) return;
  const View& view = *written.view;
  const Type& type = view.node->outputs[static_cast<size_t>(written.output)]->type;
  const auto shares = [&](const std::optional<Layout>& known) {
    return type.shape && known && is_known_to_overlap(*type.shape, *known);
  };
  if (!shares(layout()) && !shares(layout_in_base(written))) return;
  fail_unsupported(node,
                   concat("cannot write to %", written.names.front()->name,
                          ": several of its elements share one memory location, so the result "
                          "depends on the order of the writes; write to a clone() instead"));
}

void check_writable(const Node& node, const Storage& written) {
  if (written.holds_twice)
    fail_unsupported(node,
                     "cannot write to an element of a list that may hold the tensor more than "
                     "once; write to a clone() instead");
  if (written.unwritable)
    fail_unsupported(node, concat("the program writes to ",
                                  *written.unwritable->arguments[1].get<std::string>()));
}

}  // namespace onnx_native::aten
