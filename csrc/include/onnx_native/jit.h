// Exports torch::jit::Modules, scripted or traced.
#pragma once

#include <vector>

#include "onnx_native/export.h"

namespace at {
class Tensor;
}
namespace torch::jit {
struct Module;
}

namespace onnx_native {

// The module's method for inputs such as `options.inputs` says, one for each argument of the method
// (trailing ones with defaults may be missing). An argument that is a number takes a spec of its
// dtype without sizes: "n:int64[]". Weights are shared with the module, which may be destroyed but
// must not be changed before the model is saved. Call eval() before, if operators are not to be in
// training mode. Throws ExportError: invalid_argument when the inputs do not fit the method, and
// what export_file throws.
Program export_module(const torch::jit::Module& module, const ExportOptions& options = {});

// Specs of the dtypes and fixed sizes of example tensors. Replace sizes by Dim::symbol("batch")
// where they may vary.
std::vector<InputSpec> inputs_like(const std::vector<at::Tensor>& examples);

}  // namespace onnx_native
