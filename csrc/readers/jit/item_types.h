// Types of Items where two ways through a program meet.
#pragma once

#include "readers/jit/interpreter.h"

namespace onnx_native::readers::jit {

// The type of a tensor or number as a result of a sub-graph; `unknown` for anything else.
aten::Type type_of(const Item& item);

// A type that has room for both; sizes in which they differ, or which `recorder`'s graph knows
// nothing of, get new names, and `renamed` says which. Throws ExportError(unsupported) where dtypes
// differ.
aten::Type joined(const Recorder& recorder, const aten::Type& a, const aten::Type& b,
                  std::vector<bool>* renamed = nullptr);

// A tensor of that type, where nobody looks at the elements.
aten::Argument filler(Interpreter& run, const aten::Type& type);

// A tensor or number as an operand or result of control flow, in the recorder's graph.
aten::Argument operand(Interpreter& run, const Item& item, const aten::Type& type);
// What such a result is to the program.
Item result_item(aten::Value* value);

// The tensors, numbers and known things in an item, through tuples, lists and dicts.
void flatten(const Item& item, Items& leaves);
// Its leaves in the places that `like` has for them.
void flatten_like(const Item& like, const Item& item, Items& leaves);
// Makes room in `item` for another that may take its place: for None, or for something beside it.
// False where there was room.
bool widen(Item& item, const Item& other);
// The same item over other leaves; `next` is moved on.
Item rebuilt(const Item& item, const Items& leaves, size_t& next);

}  // namespace onnx_native::readers::jit
