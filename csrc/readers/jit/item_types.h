// Types of Items at the merge points of control flow.
#pragma once

#include "readers/jit/interpreter.h"

namespace onnx_native::readers::jit {

// Returns the type of a tensor or number as a sub-graph result; kind `unknown` for all other items.
aten::Type type_of(const Item& item);

// Returns a type that covers both. Sizes that differ, or that `recorder`'s current graph does not
// know, become fresh symbols; `renamed` gets true for each of them. If ranks differ, the shape is
// unknown. Throws ExportError(unsupported) if kinds or dtypes differ.
aten::Type joined(const Recorder& recorder, const aten::Type& a, const aten::Type& b,
                  std::vector<bool>* renamed = nullptr);

// Returns a placeholder of this type for a value that is never read.
aten::Argument filler(Interpreter& run, const aten::Type& type);

// Lowers a tensor or number to an operand or result of control flow in the current graph.
aten::Argument operand(Interpreter& run, const Item& item, const aten::Type& type);
// Wraps a result of control flow in an Item.
Item result_item(aten::Value* value);

// Appends the leaves of nested tuples, lists and dicts: tensors, numbers and constants.
void flatten(const Item& item, Items& leaves);
// Appends the leaves of `item` in the structure of `like`.
void flatten_like(const Item& like, const Item& item, Items& leaves);
// Extends the structure of `item` so that it can also hold `other`, for example None. Returns false
// if that needs no change.
bool widen(Item& item, const Item& other);
// Returns the same structure with other leaves, taken from `leaves` at `next`, which advances.
Item rebuilt(const Item& item, const Items& leaves, size_t& next);

}  // namespace onnx_native::readers::jit
