// Lists of slices of one tensor, of data-dependent length: x.split(2), x.chunk(3).
#pragma once

#include "readers/jit/open_list.h"

namespace onnx_native::readers::jit {

// Returns one piece. It is a view, matching eager. A negative index counts from the end.
Item piece_at(Interpreter& run, const OpenList::Column& column, const Item& index);
// Returns pieces[begin:end]. The bounds are numbers or None. The pieces remain views.
OpenList::Column pieces_between(Interpreter& run, const OpenList::Column& column, const Item& begin,
                                const Item& end);
// Copies the pieces to a ragged column.
OpenList::Column copied_pieces(Interpreter& run, const OpenList::Column& column);
// Stacks all pieces on a new axis 0. The model fails at run time if the last one is shorter.
aten::Value* stacked_pieces(Interpreter& run, const OpenList::Column& column);

}  // namespace onnx_native::readers::jit
