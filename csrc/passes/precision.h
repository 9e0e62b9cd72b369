// Exports float32 programs in half precision.
#pragma once

#include <string>
#include <vector>

#include "base/precision.h"
#include "onnx/graph.h"

namespace onnx_native::passes {

struct PrecisionOptions {
  Precision precision = Precision::program;
  bool keep_io_types = true;  // float32 inputs and outputs stay float32
  // Patterns of the names of modules that compute in float32 (base/name_patterns.h).
  std::vector<std::string> float32_modules;
  std::vector<std::string> half_inputs;  // names of inputs that are lowered in any case
};

PrecisionCounts lower_precision(onnx::Model& model, const PrecisionOptions& options);

}  // namespace onnx_native::passes
