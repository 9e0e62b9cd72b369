// Calls that PyTorch itself rejects.
#pragma once

#include <optional>
#include <string>

#include "aten/graph.h"

namespace onnx_native::aten {

// Runs one of PyTorch's own operators on arguments of the types of this call: its kernel without
// elements, and its CPU kernel. Returns PyTorch's message if both fail, with the same message for
// all elements and all sizes that were tried in the place of symbols. Returns nullopt if the call
// runs, or if it is not known to fail: an argument is of unknown type, or the message depends on a
// symbol. A small call that draws no random numbers fails if its CPU kernel does; if it has
// integers among its elements, only where the same call of floats runs.
std::optional<std::string> refusal(const Node& call);

// Returns the message with which one of the two kernels fails for one number in the place of all
// symbols. It explains a call that is known to fail.
std::optional<std::string> likely_refusal(const Node& call);

// Returns true if the kernel without elements runs the call for one number in the place of all
// symbols.
bool may_run(const Node& call);

// Throws ExportError(invalid_program) with PyTorch's message, the call and its location.
[[noreturn]] void fail_refused(const Node& call, const std::string& message);

}  // namespace onnx_native::aten
