// Errors that name a call in the program.
#pragma once

#include <string>

#include "aten/graph.h"
#include "base/error.h"

namespace onnx_native::aten {

// Returns a fault with the cause, the call, the types of its arguments and its location in the
// user's program.
Fault fault_at(const Node& node, std::string cause);

// Adds the call and its location to an error that names no call yet.
void add_place(ExportError& error, const Node& node);

// Throws ExportError(unsupported) with the call and its location in the user's program.
[[noreturn]] void fail_unsupported(const Node& node, std::string cause);

}  // namespace onnx_native::aten
