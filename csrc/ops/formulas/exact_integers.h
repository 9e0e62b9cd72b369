// Integer operators whose kernels in ONNX Runtime are not exact, composed of others.
#pragma once

#include "onnx/builder.h"

namespace onnx_native::ops {

void add_exact_integers(Compositions& table);

}  // namespace onnx_native::ops
