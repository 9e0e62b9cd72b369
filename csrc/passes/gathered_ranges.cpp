#include "passes/passes.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using onnx::Node;
using onnx::Value;

bool is_known_non_negative(const Value& number) {
  const std::optional<Shape>& contents = number.contents;
  return contents && contents->size() == 1 && (*contents)[0].known_non_negative();
}

// Returns true if a Slice with the same numbers selects the same elements.
bool is_slice(const Node& range) {
  const auto step = range.inputs[2]->known_integers();
  return step && step->size() == 1 && (*step)[0] > 0 && is_known_non_negative(*range.inputs[0]) &&
         is_known_non_negative(*range.inputs[1]);
}

}  // namespace

// For ONNX Runtime, whose default optimizations (1.31) make a Slice of a Gather by a Range, with
// the same numbers. A Slice counts negative bounds from the end: where the range goes down to 0 its
// limit is -1, and the Slice is empty. Such indices are negated twice, so that they do not find the
// Range.
int64_t keep_gathered_ranges(onnx::Model& model) {
  return sweep(model, [&model](Rewrite& rewrite, onnx::Graph&, Node& node) {
    const Node* range = node.is("Gather") ? node.inputs[1]->producer : nullptr;
    if (!range || !range->is("Range") || is_slice(*range)) return;
    Value* negated = insert_before(model, node, "Neg", {node.inputs[1]});
    node.inputs[1] = insert_before(model, node, "Neg", {negated});
    rewrite.set_changed();
  });
}

}  // namespace onnx_native::passes
