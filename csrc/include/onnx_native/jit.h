// Exports a scripted or traced torch::jit::Module.
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

// Exports the method `options.method`. `options.inputs` has one spec per argument of the method;
// trailing arguments with defaults may be omitted. The spec of a number has a dtype and no sizes:
// "n:int64[]". Call eval() first to export operators in inference mode. The Program shares the
// module's weights: the module may be destroyed, and Program::save writes the values that the
// weights have then, or throws if the model depends on the old ones. Throws ExportError:
// invalid_argument when the inputs do not fit the method, and the errors of export_file.
Program export_module(const torch::jit::Module& module, const ExportOptions& options = {});

// Returns unnamed input specs with the dtypes and fixed sizes of the example tensors. Replace a
// size with Dim::symbol("batch") to make it dynamic. Throws ExportError(unsupported) for a dtype
// that ONNX does not have.
std::vector<InputSpec> inputs_like(const std::vector<at::Tensor>& examples);

}  // namespace onnx_native
