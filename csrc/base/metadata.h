// The levels of metadata: how much of its program a model records.
#pragma once

#include <string_view>

namespace onnx_native {

enum class Metadata {
  none,
  names,  // the names of modules, calls and operators, and the kinds of inputs, outputs and weights
  full,   // also the source lines, the calls and the signature of the program
};

// Returns the level with this name. Throws ExportError(invalid_argument) for any other text.
Metadata parse_metadata(std::string_view text);

}  // namespace onnx_native
