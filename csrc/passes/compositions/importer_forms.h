// The forms of nodes that the importer of the model's target takes.
#pragma once

#include <cstdint>

#include "base/target.h"
#include "onnx/graph.h"
#include "passes/compositions/compose.h"

namespace onnx_native::passes {

// Returns true if the target has an importer that takes some nodes in one form only.
bool has_importer_forms(Target target);

// Returns how to write a node that the target's importer does not take, or takes for another one;
// nullptr if it takes the node, or if there is no such form in the opset.
Composer importer_form(const onnx::Node& node, Target target, int64_t opset);

}  // namespace onnx_native::passes
