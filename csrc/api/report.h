// Fills in the report of an export: numbers and warnings.
#pragma once

#include <string>
#include <vector>

#include "api/export.h"
#include "api/state.h"

namespace onnx_native {

// Describes a finished export. `unseen`: the module classes that the user asked to turn into
// functions, but that no node comes from.
void describe(ExportReport& report, const aten::Graph& graph, onnx::Model& model, State& state,
              const std::vector<std::string>& unseen);

}  // namespace onnx_native
