// Calls to ONNX operators: torch.ops.onnx.*, torch.onnx.ops.symbolic and symbolic_multi_out.
#pragma once

#include <string_view>

#include "ops/engine/binder.h"

namespace onnx_native::ops {

// Returns the opset in the name ("onnx::Attention.opset23" -> 23); 0 for other operators.
int64_t onnx_call_opset(std::string_view op);
// Returns a lowering that emits the node as the program states it; nullptr for other operators.
const Lowering* find_onnx_call(std::string_view op);

}  // namespace onnx_native::ops
