// Facts about an attention mask that its sub-graph proves. A mask is bool (false masks) or float
// (-inf masks), and masks along its last axis.
#pragma once

#include "onnx/builder.h"

namespace onnx_native::ops {

// Returns true if no element of a bool mask can be masked.
bool never_masks(const onnx::Value* mask);
// Returns true if no row can be masked entirely. A row without elements does not count.
bool every_row_open(const onnx::Value* mask);
// Returns true if no element of a float32 mask can be the lowest finite number.
bool never_lowest(const onnx::Value* mask);

// Returns, per row, true if an element is not masked; the last axis keeps size 1.
Value open_rows(Builder& b, Value mask);
// The same of a bool mask as 1 and 0 of a floating-point dtype.
Value open_rows_as(Builder& b, Value mask, DType dtype);

}  // namespace onnx_native::ops
