// Complex result dtypes, for programs that do not record them.
#pragma once

#include <cstddef>

#include "aten/graph.h"

namespace onnx_native {

// Returns the dtype that the arguments imply for a result of a call with complex tensors or
// results; `undefined` for other calls. Returns a complex dtype even for results that are always
// bool or integer.
DType recorded_dtype(const aten::Node& node, size_t result);

}  // namespace onnx_native
