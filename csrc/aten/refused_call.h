// Asks PyTorch whether it accepts a call.
#pragma once

#include <optional>
#include <string>

#include "aten/graph.h"

namespace onnx_native::aten {

// Runs the operator's meta kernel on arguments of the types of this call, with one number for all
// symbols. Returns PyTorch's message if it rejects them; nullopt if it accepts them, or if an
// argument is of unknown type or the operator has no meta kernel.
std::optional<std::string> refusal(const Node& call);

}  // namespace onnx_native::aten
