// TorchScript's source text, as its archives hold it.
#pragma once

#include <string>

#include "fuzz/choices.h"

namespace onnx_native::fuzz {

// Changes a place or two of the functions in it, most often so that it still compiles: calls of any
// operator of the table or other statements between its lines, other values, names and types,
// lines gone, repeated, exchanged, or inside an `if` or a loop.
void mutate_source(std::string& text, Random& random);

}  // namespace onnx_native::fuzz
