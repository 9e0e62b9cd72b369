#include "capture/size_reads.h"

#include <algorithm>
#include <unordered_set>

#include "aten/functional_schema.h"
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

bool has_constant_sizes(const aten::Value* value) {
  return value->type.shape && constant_shape(*value->type.shape);
}

// The older exporter folds no shape without sizes: it reads `x` for `torch.zeros_like(x)`.
bool has_sizes(const aten::Value* value) { return !value->type.shape->empty(); }

// Returns true for `torch.zeros_like(x)` if the sizes of x are constant.
bool takes_constant_sizes(const aten::Node& node) {
  return ignores_elements(node) && std::ranges::all_of(node.outputs, has_constant_sizes) &&
         std::ranges::all_of(node.outputs, has_sizes);
}

// Returns the tensor whose elements `x.zero_()` replaces by a literal, if its sizes are constant.
const aten::Value* replaced_elements(const aten::Node& node) {
  if (!writes(node)) return nullptr;
  const aten::Schema* functional = aten::find_functional(*node.schema).schema;
  if (!functional || !aten::facts_of(*functional).uniform) return nullptr;
  const auto is_value = [](const aten::Argument& argument) { return argument.as_value(); };
  if (std::any_of(node.arguments.begin() + 1, node.arguments.end(), is_value)) return nullptr;
  const aten::Value* self = node.arguments[0].as_value();
  return self && has_constant_sizes(self) ? self : nullptr;
}

bool is_size(const aten::Node& node) { return node.op == "aten::sym_size.int"; }

bool is_read(const aten::Node& node, size_t argument) {
  if (is_size(node)) return false;  // SizeReads knows the tensor that the program asked
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
    note_sizes(&node);
    const aten::Value* replaced = replaced_elements(node);
    if (replaced) read.erase(replaced);
    const size_t first = replaced || takes_constant_sizes(node) ? 1 : 0;
    for (size_t argument = first; argument < node.arguments.size(); ++argument) {
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
