// The kernels that ONNX Runtime's providers register: providers_<name>.inc, which
// generate_provider_kernels.py writes. They say which nodes of a model run on the CPU, because the
// provider of the model's target has no kernel for their types.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/target.h"
#include "onnx/graph.h"

namespace onnx_native::onnx {

inline constexpr const char* kRuntimeDomain = "com.microsoft";

// Returns true if the model is written for a provider of ONNX Runtime.
bool has_provider(Target target);
// Returns the provider's name ("CUDA").
std::string_view provider_name(Target target);

// Returns true if the provider has a kernel of the operator ("com.microsoft.MatMulNBits", "Mul")
// whose first input has the dtype. Also true for a target without a provider.
bool may_have_kernel(Target target, std::string_view op, int64_t opset, DType dtype);

// Returns true if the provider has a kernel for the node, were its float32 tensors of the dtype
// `half`. Also true for a target without a provider.
bool has_kernel_in(Target target, const Node& node, int64_t opset, DType half);

// Returns the nodes of which the provider of the model's target has no kernel, as text: operator,
// dtypes and source line; one entry per operator and dtypes. Leaves out nodes that compute sizes
// from sizes: ONNX Runtime always runs them on the CPU, where the sizes are. Empty for a target
// without a provider.
std::vector<std::string> missing_provider_kernels(Model& model);

}  // namespace onnx_native::onnx
