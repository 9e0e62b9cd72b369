// Quantizes the weights of products.
#pragma once

#include <set>
#include <string>

#include "base/quantization.h"
#include "onnx/graph.h"

namespace onnx_native::passes {

// Returns true if the model's settings leave this weight of a product or an embedding as it is,
// because of its name or of the module that calls it.
bool is_left_out(const onnx::Model& model, const onnx::Node& node, const onnx::Value& weight);
// Returns the names of the module's weights from which a constant comes.
std::set<std::string> weight_names(const TensorData& data);
// Returns the names of all modules that run, and of all weights.
std::set<std::string> known_names(const onnx::Model& model);

// Does what the model's settings ask for. Throws ExportError(invalid_argument) if they do not fit
// the model.
QuantizedWeights quantize_weights(onnx::Model& model);

}  // namespace onnx_native::passes
