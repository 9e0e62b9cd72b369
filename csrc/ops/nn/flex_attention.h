// The higher-order operator flex_attention.
#pragma once

#include "ops/engine/op_table.h"

namespace onnx_native::ops {

// Registers flex_attention; register_control_flow calls it.
void def_flex_attention(OpTable& ops);

}  // namespace onnx_native::ops
