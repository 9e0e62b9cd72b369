// torchao's operators, a part of the family of quantization.
#pragma once

#include "ops/engine/op_table.h"

namespace onnx_native::ops {

void register_quantize_affine(OpTable& ops);

}  // namespace onnx_native::ops
