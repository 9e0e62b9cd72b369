// Random operator calls in the JSON of .pt2 archives.
#pragma once

#include <nlohmann/json.hpp>

#include "fuzz/choices.h"

namespace onnx_native::fuzz {

using Json = nlohmann::json;

// Replaces a random node of a serialized graph with a call of a random operator of the op table.
// The arguments have the types of its schema, but mostly invalid sizes and values.
void replace_call(Json& graph, Random& random);

}  // namespace onnx_native::fuzz
