#include "onnx/providers.h"

#include <algorithm>
#include <set>
#include <span>
#include <unordered_set>

#include "base/error.h"
#include "onnx/kernels.h"

namespace onnx_native::onnx {
namespace {

// The dtypes that a kernel takes at some inputs and outputs; all three are bit sets.
struct TypesTaken {
  uint32_t inputs, outputs, dtypes;
};

// A kernel for an operator from an opset on, until the operator's next row; kernels of the same
// operator and opset are alternatives. An operator without a kernel takes no dtype.
struct ProviderKernel {
  std::string_view op;
  int64_t since;
  TypesTaken taken[4];
};

constexpr ProviderKernel kCpuKernels[] = {
#include "onnx/providers_cpu.inc"
};
constexpr ProviderKernel kCudaKernels[] = {
#include "onnx/providers_cuda.inc"
};
constexpr ProviderKernel kWebGpuKernels[] = {
#include "onnx/providers_webgpu.inc"
};

std::span<const ProviderKernel> table_of(Target target) {
  switch (target) {
    case Target::onnxruntime_cpu:
      return kCpuKernels;
    case Target::onnxruntime_cuda:
      return kCudaKernels;
    case Target::onnxruntime_webgpu:
      return kWebGpuKernels;
    default:
      return {};
  }
}

// Returns the kernels of an operator at an opset; contrib operators have the opset 1.
std::span<const ProviderKernel> kernels_of(Target target, std::string_view op, int64_t opset) {
  const auto table = table_of(target);
  auto last = std::ranges::lower_bound(table, op, {}, &ProviderKernel::op);
  auto first = last;
  for (; last != table.end() && last->op == op && last->since <= opset; ++last) {
    if (last->since != first->since) first = last;
  }
  return {first, last};
}

constexpr size_t kPlaces = 32;

// Returns true if each tensor at these places has one of the dtypes; a float32 one counts as
// one of `half`.
bool have_types(std::span<Value* const> values, uint32_t places, uint32_t dtypes, DType half) {
  for (size_t i = 0; i < values.size(); ++i) {
    const bool is_named = (places >> std::min(i, kPlaces - 1) & 1) != 0;
    if (!is_named || !values[i] || values[i]->kind != ValueKind::tensor) continue;
    const auto bit =
        static_cast<uint32_t>(values[i]->dtype == DType::f32 ? half : values[i]->dtype);
    if (bit >= kPlaces || (dtypes >> bit & 1) == 0) return false;
  }
  return true;
}

bool takes(const ProviderKernel& kernel, const Node& node, DType half) {
  return std::ranges::all_of(kernel.taken, [&](const TypesTaken& each) {
    return have_types(node.inputs, each.inputs, each.dtypes, half) &&
           have_types(node.outputs, each.outputs, each.dtypes, half);
  });
}

bool is_of_runtime(const Node& node) { return node.domain == kRuntimeDomain; }

std::string op_of(const Node& node) {
  return is_of_runtime(node) ? concat(node.domain, ".", node.op_type) : node.op_type;
}

// Finds the nodes that compute sizes: from sizes of the model's inputs, other sizes, and constants.
class Sizes {
 public:
  explicit Sizes(const Graph& main) : inputs_(main.inputs.begin(), main.inputs.end()) {}

  // Returns true for a node that the runtime runs on the CPU, where its inputs are. Nodes come in
  // the order of the graph, and outer graphs before inner ones.
  bool computes(const Node& node) {
    const bool measures = node.is_any({"Shape", "Size"});
    const bool is_fixed = std::ranges::all_of(node.inputs, [&](const Value* input) {
      return !input || input->is_constant() || sizes_.contains(input) ||
             (measures && inputs_.contains(input));
    });
    const bool computes = is_fixed && !is_random(node.op_type);
    if (computes || measures) sizes_.insert(node.outputs.begin(), node.outputs.end());
    return computes;
  }

 private:
  std::unordered_set<const Value*> inputs_, sizes_;
};

std::string types_of(const Node& node) {
  std::string text;
  for (const Value* input : node.inputs) {
    if (input && input->kind == ValueKind::tensor)
      text += concat(text.empty() ? " of " : ", ", name(input->dtype));
  }
  return text;
}

}  // namespace

bool has_provider(Target target) { return !table_of(target).empty(); }

std::string_view provider_name(Target target) {
  switch (target) {
    case Target::onnxruntime_cuda:
      return "CUDA";
    case Target::onnxruntime_webgpu:
      return "WebGPU";
    default:
      return "CPU";
  }
}

bool may_have_kernel(Target target, std::string_view op, int64_t opset, DType dtype) {
  if (!has_provider(target)) return true;
  const auto bit = static_cast<uint32_t>(dtype);
  const auto kernels = kernels_of(target, op, op.starts_with(kRuntimeDomain) ? 1 : opset);
  return std::ranges::any_of(kernels, [bit](const ProviderKernel& kernel) {
    return std::ranges::all_of(kernel.taken, [bit](const TypesTaken& each) {
      return (each.inputs & 1) == 0 || (bit < kPlaces && (each.dtypes >> bit & 1) != 0);
    });
  });
}

bool has_kernel_in(Target target, const Node& node, int64_t opset, DType half) {
  const auto kernels = kernels_of(target, op_of(node), is_of_runtime(node) ? 1 : opset);
  return !has_provider(target) || std::ranges::any_of(kernels, [&](const ProviderKernel& each) {
    return takes(each, node, half);
  });
}

std::vector<std::string> missing_provider_kernels(Model& model) {
  if (!has_provider(model.target)) return {};
  const bool is_cpu = model.target == Target::onnxruntime_cpu;
  std::vector<std::string> missing = is_cpu ? missing_kernels(model) : std::vector<std::string>();
  std::set<std::string> seen;
  Sizes sizes(*model.graph);
  const auto visit = [&](Graph& graph) {
    for (const Node* node : graph.nodes) {
      const bool computes_sizes = sizes.computes(*node);
      if (!node->domain.empty() && !is_of_runtime(*node)) continue;
      if (is_cpu ? unsupported_dtype(*node, model.opset).has_value() : computes_sizes) continue;
      if (has_kernel_in(model.target, *node, model.opset, DType::f32)) continue;
      const std::string line = concat(node->op_type, types_of(*node));
      if (seen.insert(line).second) missing.push_back(line + where(node->location));
    }
  };
  for_each_graph(*model.graph, visit);
  for (Function& function : model.functions) for_each_graph(*function.body, visit);
  return missing;
}

}  // namespace onnx_native::onnx
