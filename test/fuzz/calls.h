// Calls of operators, as .pt2 archives hold them.
#pragma once

#include <nlohmann/json.hpp>

#include "fuzz/choices.h"

namespace onnx_native::fuzz {

using Json = nlohmann::json;

// Replaces a node of a serialized graph by a call of some operator of the table: arguments of the
// types that its schema wants, most of them of sizes and values that make no sense.
void replace_call(Json& graph, Random& random);

}  // namespace onnx_native::fuzz
