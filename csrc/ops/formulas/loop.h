// Loops with an iteration count that the graph computes, as ONNX Loop and Scan.
#pragma once

#include <functional>

#include "onnx/builder.h"

namespace onnx_native::ops {

// Maps the iteration number (0-d int64, from 0) and the states to the next states.
using LoopStep = std::function<Values(Value iteration, const Values& states)>;

// Returns the states after `count` (0-d int64) steps, then the stacked extra results of `step`.
// States keep their dtypes. They also keep their shapes, unless `changing` gives shapes that hold
// in all steps.
Values loop(Builder& b, Value count, const Values& initial, const LoopStep& step,
            const std::vector<Shape>& changing = {});
// Like loop, but ends when the first result of `step`, a 0-d bool, is false.
Values loop_while(Builder& b, Value count, const Values& initial, const LoopStep& step);

// Maps the states and one slice of each scanned tensor to the next states, then the step's outputs.
using ScanStep = std::function<Values(const Values& states, const Values& slices)>;

struct ScanOptions {
  int64_t axis = 0;         // the axis along which tensors are scanned
  bool backwards = false;   // from the last slice to the first; outputs keep the scanned order
  int64_t output_axis = 0;  // the axis along which outputs are stacked
};

struct Scanned {
  Values states;   // after the last step
  Values outputs;  // stacked over all steps
};

// Runs `step` for each slice of the scanned tensors, whose scanned axis must not be empty. States
// keep their dtypes and shapes.
Scanned scan(Builder& b, const Values& initial, const Values& scanned, const ScanStep& step,
             const ScanOptions& options = {});

// Returns true if any element is true, false for no elements. 0-d bool, for `loop_while`.
Value any_true(Builder& b, Value condition);

}  // namespace onnx_native::ops
