// How operators take float16 and bfloat16: the table of the pass lower_precision.
#pragma once

#include "onnx/graph.h"

namespace onnx_native::passes {

enum class PrecisionRole {
  // These compute in half precision.
  product,      // sums of products, which kernels accumulate in float32
  elementwise,  // each element of the result comes from few elements, or is one of the input's
  bounded,      // likewise, and every result is within half's range
  // These stay float32.
  range_kept,  // the result has the range of the input
  normalized,  // the result is within half's range, whatever the input is
  grows,       // the result may leave half's range, or needs all of its digits
  // These take a value in whichever dtype it has.
  indifferent,
  control_flow,
};

// Returns the role of a node that is not in the table as range_kept.
PrecisionRole precision_role(const onnx::Node& node);
// Returns true for an input of an operator in half precision that stays float32: coordinates.
bool keeps_float32(const onnx::Node& node, size_t input);

}  // namespace onnx_native::passes
