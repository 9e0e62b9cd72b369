// Operators that importers of other tools do not take: importers.inc, which
// generate_importers.py writes.
#pragma once

#include <string>
#include <vector>

#include "onnx/graph.h"

namespace onnx_native::onnx {

// Returns the operators of the model that the importer of its target does not take, as text: the
// importer with its version, operator and source line. One entry per operator; empty for a target
// without an importer.
std::vector<std::string> untaken_operators(Model& model);

// Returns true for a Resize by scales that are not the ratios of the sizes, or may not be.
bool has_other_scales(const Node& node);

}  // namespace onnx_native::onnx
