// Calls of ONNX's own operators: torch.ops.onnx.*, torch.onnx.ops.symbolic and symbolic_multi_out.
#pragma once

#include <string_view>

#include "ops/engine/binder.h"

namespace onnx_native::ops {

// "onnx::Attention.opset23" -> 23; 0 for other operators.
int64_t onnx_call_opset(std::string_view op);
// The node as the program writes it; nullptr for other operators.
const Lowering* find_onnx_call(std::string_view op);

}  // namespace onnx_native::ops
