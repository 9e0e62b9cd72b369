// Mutates the TorchScript source in archives of torch.jit.save.
#pragma once

#include <string>

#include "fuzz/choices.h"

namespace onnx_native::fuzz {

// Applies one to three mutations to the functions in `text`, most of which keep it compilable:
// inserts a call of an operator of the op table or another statement; replaces a value, name or
// type; removes, repeats or swaps lines, or encloses them in an `if` or a loop.
void mutate_source(std::string& text, Random& random);

}  // namespace onnx_native::fuzz
