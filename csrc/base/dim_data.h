// Sizes that depend on data, such as the number of elements that a mask chooses.
#pragma once

#include "base/dim.h"

namespace onnx_native {

// Returns true unless a size follows from the sizes of inputs alone.
bool depends_on_data(const Dim& size);

}  // namespace onnx_native
