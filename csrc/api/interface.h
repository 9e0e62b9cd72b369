// Builds the model's inputs and outputs from the program's.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "aten/graph.h"
#include "onnx/builder.h"
#include "onnx_native/export.h"
#include "ops/engine/lower.h"

namespace onnx_native {

// Adds the program's inputs to the model under the user's names, and binds their sizes.
void add_inputs(Builder& builder, ops::Environment& environment, const aten::Graph& graph,
                const ExportOptions& options);

// Adds initializers for the constants that outputs need, unless the environment has them, and
// inputs for those that the user wants as adapters.
void add_constants(Builder& builder, ops::Environment& environment, const aten::Graph& graph,
                   const std::vector<std::string>& adapters);

// Adds results as graph outputs. An input, a weight or a value that is already an output goes
// through an Identity, so that each output has its own name.
class Outputs {
 public:
  Outputs(Builder& builder, const std::vector<std::string>& names)
      : builder_(builder), names_(names) {}

  // Adds a result of the program, under the user's name if there is one. Skips results that are not
  // values.
  void add(ops::Lowerer& lowerer, const aten::Argument& result);
  void add_named(Value value, std::string_view name);

 private:
  Builder& builder_;
  const std::vector<std::string>& names_;
  std::unordered_set<Value> used_;
};

}  // namespace onnx_native
