#include "capture/size_reads.h"

#include <algorithm>
#include <unordered_set>

#include "aten/op_facts.h"
#include "aten/view_kinds.h"
#include "aten/visit.h"

namespace onnx_native::capture {
namespace {

bool writes(const aten::Node& node) { return node.schema && node.schema->is_mutable(); }

// Returns true if the call takes nothing but sizes and dtypes from its tensors.
bool ignores_elements(const aten::Node& node) {
  if (!node.schema || writes(node)) return false;
  const aten::OpFacts& facts = aten::facts_of(*node.schema);
  return facts.uniform || facts.uninitialized;
}

bool has_constant_sizes(const aten::Node& node) {
  return std::ranges::all_of(node.outputs, [](const aten::Value* value) {
    return value->type.shape && constant_shape(*value->type.shape);
  });
}

bool is_read(const aten::Node& node, size_t argument) {
  if (!node.schema) return true;
  const std::string_view name = node.schema->arguments[argument].name;
  // `x.new_zeros(size)` has the dtype of x, `x.type_as(other)` and `x.to(other)` that of the other.
  if (name == "self") return !ignores_elements(node) || !aten::find_argument(node, "size");
  const aten::ViewKind kind = aten::kind_of(*node.schema);
  return name != "other" || kind != aten::ViewKind::to;
}

}  // namespace

std::vector<size_t> SizeReads::inputs_of(const aten::Graph& graph) const {
  std::unordered_set<const aten::Value*> read;
  const auto note = [&read](const aten::Value* value) { read.insert(value); };
  const auto note_sizes = [&](const aten::Node* reader) {
    const auto found = tensors_.find(reader);
    if (found != tensors_.end()) read.insert(found->second.begin(), found->second.end());
  };
  note_sizes(nullptr);
  for (const aten::Argument& output : graph.outputs) aten::for_each_value(output, note);
  for (const aten::Mutation& mutation : graph.mutations) note(mutation.value);
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const aten::Node& node = *graph.nodes[i];
    const auto is_used = [&read](const aten::Value* value) { return read.contains(value); };
    if (!writes(node) && std::ranges::none_of(node.outputs, is_used)) continue;
    if (ignores_elements(node) && has_constant_sizes(node)) continue;
    note_sizes(&node);
    for (size_t argument = 0; argument < node.arguments.size(); ++argument) {
      if (is_read(node, argument)) aten::for_each_value(node.arguments[argument], note);
    }
  }
  std::vector<size_t> positions;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    if (read.contains(graph.inputs[i])) positions.push_back(i);
  }
  return positions;
}

}  // namespace onnx_native::capture
