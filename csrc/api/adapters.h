// Weights that the runtime may replace, as those of LoRA: inputs of the model with zeros as
// defaults.
#pragma once

#include <string>
#include <vector>

#include "aten/graph.h"
#include "onnx/graph.h"

namespace onnx_native {

// Returns true if a pattern (base/name_patterns.h) is that of this parameter.
bool is_adapter(const aten::Constant& constant, const std::vector<std::string>& patterns);
// Returns the names of the model's inputs that hold such weights. Throws
// ExportError(invalid_argument) for a pattern that is no parameter's.
std::vector<std::string> adapter_names(const aten::Graph& graph,
                                       const std::vector<std::string>& patterns);
// Gives these inputs zeros, which all of one size share, as defaults. The graph is finished.
void set_adapter_defaults(onnx::Model& model, const std::vector<std::string>& names);
// Returns true if the input of a finished model has a default.
bool has_default(const onnx::Value& input);

}  // namespace onnx_native
