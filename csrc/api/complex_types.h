// Complex dtypes of results, for programs that do not record them.
#pragma once

#include <cstddef>

#include "aten/graph.h"

namespace onnx_native {

// The dtype of a result of a call with complex tensors or complex results, as its arguments decide;
// undefined for other calls. Results that can only be bools or integers have a complex one here.
DType recorded_dtype(const aten::Node& node, size_t result);

}  // namespace onnx_native
