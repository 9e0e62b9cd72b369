// Compositions of integer operators whose ONNX Runtime kernels are not exact.
#pragma once

#include "onnx/builder.h"

namespace onnx_native::ops {

void add_exact_integers(Compositions& table);

}  // namespace onnx_native::ops
