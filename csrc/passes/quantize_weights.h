// Quantizes the weights of products.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/quantization.h"
#include "onnx/graph.h"

namespace onnx_native::passes {

// Returns true if the model's settings leave this weight of a product or an embedding as it is,
// because of its name or of the module that calls it.
bool is_left_out(const onnx::Model& model, const onnx::Node& node, const onnx::Value& weight);
// Returns the names of the module's weights from which a constant comes.
std::set<std::string> weight_names(const TensorData& data);
// Returns the names of all modules that run.
std::set<std::string> module_names(const onnx::Model& model);
// Returns true if one of the patterns (base/name_patterns.h) is that of a module that runs the
// node.
bool is_in_module(const onnx::Node& node, const std::vector<std::string>& patterns);

// Throws ExportError(invalid_argument) if the model's settings have no meaning, or name a module or
// weight that it does not have. The model is as it was lowered.
void check_quantization(const onnx::Model& model);
// Does what the model's settings ask for. Throws ExportError(invalid_argument) if the model cannot
// have quantized weights.
QuantizedWeights quantize_weights(onnx::Model& model);

}  // namespace onnx_native::passes
