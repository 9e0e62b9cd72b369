// Errors that name a call of the program.
#pragma once

#include <string>

#include "aten/graph.h"
#include "base/error.h"

namespace onnx_native::aten {

// Describes a fault of a call: the cause, the types of its arguments and its place in the user's
// program.
Fault fault_at(const Node& node, std::string cause);

// Adds the call and its place to an error that does not name one yet.
void add_place(ExportError& error, const Node& node);

// Throws ExportError(unsupported) with the call and its place in the user's program.
[[noreturn]] void fail_unsupported(const Node& node, std::string cause);

}  // namespace onnx_native::aten
