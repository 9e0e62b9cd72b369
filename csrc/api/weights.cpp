#include "api/weights.h"

#include <ATen/core/Tensor.h>

#include "api/metadata.h"
#include "api/program_contents.h"
#include "aten/torch_tensor.h"
#include "base/packed.h"
#include "writer/writer.h"

namespace onnx_native {

ModuleWeights::ModuleWeights(const aten::Graph& graph) {
  for (const aten::Constant& constant : graph.constants)
    by_name_.emplace(constant.value->name, &constant);
}

const aten::Constant* ModuleWeights::find(std::string_view name) const {
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : at->second;
}

StoredWeight ModuleWeights::stored_in(std::string_view initializer) const {
  return weight_layout(initializer,
                       [this](std::string_view name) { return find(name) != nullptr; });
}

int64_t weight_bytes(const Program& program) {
  int64_t bytes = 0;
  for (const onnx::Value* value : program.contents().model->graph->initializers)
    bytes += stored_bytes(*value->constant);
  return bytes;
}

void check_reads(const Program& program) { program.contents().report.reads.check(); }

SeparateWeights serialize_without_weights(const Program& program, Metadata metadata) {
  check_reads(program);
  std::vector<writer::Weight> weights;
  SeparateWeights result;
  result.model = writer::serialize_without_weights(*program.contents().model, weights,
                                                   metadata_options(program.contents(), metadata));
  for (const writer::Weight& weight : weights)
    result.weights.emplace_back(weight.name, weight.data);
  return result;
}

std::vector<std::string> set_weights(const Program& program,
                                     const std::map<std::string, at::Tensor>& tensors) {
  std::vector<std::string> known;
  std::vector<std::pair<aten::TensorWeight*, at::Tensor>> before;
  try {
    for (const aten::Constant& constant : program.contents().graph->constants) {
      const auto given = tensors.find(constant.value->name);
      auto* weight = dynamic_cast<aten::TensorWeight*>(weight_of(constant.data));
      if (!weight || given == tensors.end()) continue;
      before.emplace_back(weight, weight->tensor());
      weight->assign(given->second);
      known.push_back(given->first);
    }
    check_reads(program);
  } catch (...) {
    for (const auto& [weight, tensor] : before) weight->assign(tensor);
    throw;
  }
  return known;
}

}  // namespace onnx_native
