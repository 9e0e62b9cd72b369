// Iterations whose number the graph computes, as ONNX Loop and Scan.
#pragma once

#include <functional>

#include "onnx/builder.h"

namespace onnx_native::ops {

// The next states from the iteration's number (0-d int64, from 0) and the states.
using LoopStep = std::function<Values(Value iteration, const Values& states)>;

// The states after `count` (0-d int64) steps, then what `step` gives beyond them, stacked. States
// keep their dtypes, and their shapes unless `changing` gives shapes that hold in all steps.
Values loop(Builder& b, Value count, const Values& initial, const LoopStep& step,
            const std::vector<Shape>& changing = {});
// The same, but ends when the first of what `step` gives, a 0-d bool, is false.
Values loop_while(Builder& b, Value count, const Values& initial, const LoopStep& step);

// The next states, then the step's outputs, from the states and one slice of each scanned tensor.
using ScanStep = std::function<Values(const Values& states, const Values& slices)>;

struct ScanOptions {
  int64_t axis = 0;         // along which tensors are scanned
  bool backwards = false;   // from the last slice to the first; outputs keep the scanned order
  int64_t output_axis = 0;  // along which outputs are stacked
};

struct Scanned {
  Values states;   // after the last step
  Values outputs;  // of all steps, stacked
};

// Runs `step` for each slice of the scanned tensors, which are not empty along the axis. States
// keep their dtypes and shapes.
Scanned scan(Builder& b, const Values& initial, const Values& scanned, const ScanStep& step,
             const ScanOptions& options = {});

// Whether any element is true, for `loop_while`; of no elements none is.
Value any_true(Builder& b, Value condition);

}  // namespace onnx_native::ops
