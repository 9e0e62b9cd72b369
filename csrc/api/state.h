// The model's state: buffers and inputs that the program updates.
#pragma once

#include <utility>
#include <vector>

#include "api/interface.h"
#include "aten/graph.h"
#include "onnx_native/export.h"
#include "onnx_native/program.h"
#include "ops/engine/lower.h"

namespace onnx_native {

// What of the program's updates the user wants in the model. The graph must outlive it.
class State {
 public:
  // Throws ExportError(invalid_argument) when the program does not update what the user names.
  State(const aten::Graph& graph, const StateOptions& options);

  const std::vector<const aten::Mutation*>& kept() const { return kept_; }
  const std::vector<const aten::Mutation*>& dropped() const { return dropped_; }

  // Makes inputs of the buffers, after the user's.
  void add_inputs(Builder& builder, ops::Environment& environment, const aten::Graph& graph);
  // Makes outputs of the new values, after the user's.
  void add_outputs(Builder& builder, ops::Lowerer& lowerer, Outputs& outputs);

  std::vector<StateTensor> take() { return std::move(tensors_); }

 private:
  std::vector<const aten::Mutation*> kept_;
  std::vector<const aten::Mutation*> dropped_;
  std::vector<StateTensor> tensors_;
};

}  // namespace onnx_native
