// Types of the results of operators whose meta kernels PyTorch has in Python only.
#pragma once

#include "aten/meta_kernels.h"

namespace onnx_native::capture {

// Adds a kernel for each such operator. A kernel leaves calls that it does not expect, and those
// that fail, to PyTorch's.
void add_shape_rules(aten::KernelTable& table);

}  // namespace onnx_native::capture
