// Parts of one tensor whose number the model computes: x.split(2), x.chunk(3).
#pragma once

#include "readers/jit/open_list.h"

namespace onnx_native::readers::jit {

// One of them: a view, as in eager mode. A negative index counts from the end.
Item piece_at(Interpreter& run, const OpenList::Column& column, const Item& index);
// Those from `begin` on and before `end`, of numbers or None. They stay views.
OpenList::Column pieces_between(Interpreter& run, const OpenList::Column& column, const Item& begin,
                                const Item& end);
// Copies of them: a ragged column.
OpenList::Column copied_pieces(Interpreter& run, const OpenList::Column& column);
// All along a new first axis. The model fails when it runs where the last one is shorter.
aten::Value* stacked_pieces(Interpreter& run, const OpenList::Column& column);

}  // namespace onnx_native::readers::jit
