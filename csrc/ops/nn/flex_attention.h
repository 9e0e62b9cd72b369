// The higher-order operator flex_attention.
#pragma once

#include "ops/engine/op_table.h"

namespace onnx_native::ops {

// Part of the family of control flow.
void def_flex_attention(OpTable& ops);

}  // namespace onnx_native::ops
