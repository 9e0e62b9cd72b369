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

// Copies the elements of the buffers and weights that the program writes to: the module goes on to
// write to its own, and the model has those of the time of the export.
void keep_written_elements(aten::Graph& graph);

// Selects the program's updates that the user wants in the model. The graph must outlive it.
class State {
 public:
  // Throws ExportError(invalid_argument) if the user names a buffer or input that the program does
  // not update.
  State(const aten::Graph& graph, const StateOptions& options);

  const std::vector<const aten::Mutation*>& kept() const { return kept_; }
  const std::vector<const aten::Mutation*>& dropped() const { return dropped_; }

  // Adds the buffers as inputs, after the user's inputs.
  void add_inputs(Builder& builder, ops::Environment& environment, const aten::Graph& graph);
  // Adds the new values as outputs, after the user's outputs.
  void add_outputs(Builder& builder, ops::Lowerer& lowerer, Outputs& outputs);

  std::vector<StateTensor> take() { return std::move(tensors_); }

 private:
  std::vector<const aten::Mutation*> kept_;
  std::vector<const aten::Mutation*> dropped_;
  std::vector<StateTensor> tensors_;
};

}  // namespace onnx_native
