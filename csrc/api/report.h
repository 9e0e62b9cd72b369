// What an export did, in numbers and warnings.
#pragma once

#include <string>
#include <vector>

#include "api/export.h"
#include "api/state.h"

namespace onnx_native {

// Describes a finished export. `unseen`: classes of modules that were to be functions of the model
// and of which it has no node.
void describe(ExportReport& report, const aten::Graph& graph, onnx::Model& model, State& state,
              const std::vector<std::string>& unseen);

}  // namespace onnx_native
