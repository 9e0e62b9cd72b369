// Iterations whose number the graph computes, as ONNX Loops.
#pragma once

#include <functional>

#include "onnx/builder.h"

namespace onnx_native::ops {

// The next states from the iteration's number (0-d int64, from 0) and the states.
using LoopStep = std::function<Values(Value iteration, const Values& states)>;

// The states after `count` (0-d int64) steps, then what `step` gives beyond them, stacked. States
// keep their dtypes and shapes.
Values loop(Builder& b, Value count, const Values& initial, const LoopStep& step);
// The same, but ends when the first of what `step` gives, a 0-d bool, is false.
Values loop_while(Builder& b, Value count, const Values& initial, const LoopStep& step);

// Whether any element is true, for `loop_while`; of no elements none is.
Value any_true(Builder& b, Value condition);

}  // namespace onnx_native::ops
