// The runtime that a model is written for, and the layout of its weights.
#pragma once

#include <string_view>

namespace onnx_native {

// The runtime whose operators the model may use.
enum class Target {
  onnx,  // standard operators only
  // Also contrib operators of ONNX Runtime, of which its provider has kernels (onnx/providers.h).
  onnxruntime_cpu,
  onnxruntime_cuda,
  onnxruntime_webgpu,
  opencv,  // standard operators only, in the forms that OpenCV's importer takes
  mnn,     // likewise for MNN's converter
  tract,   // likewise for tract
};

// The layout in which the model stores a matrix that only products use.
enum class WeightLayout {
  runtime,  // transposed as runtimes and quantizers expect it, named "<name>.T"
  module,   // as in the module, under its name, with a Transpose node
};

// Returns the name that parse_target() takes.
std::string_view name(Target target);
// These return the option with this name. They throw ExportError(invalid_argument) with the known
// names for any other text. Targets: "onnx", "onnxruntime-cpu", "onnxruntime-cuda",
// "onnxruntime-webgpu", "opencv", "mnn", "tract"; layouts: "runtime", "module".
Target parse_target(std::string_view text);
WeightLayout parse_weight_layout(std::string_view text);

}  // namespace onnx_native
