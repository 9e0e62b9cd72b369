// The model's inputs and outputs, made of the program's.
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

// Makes the model's inputs of the program's, under the user's names, and binds their sizes.
void add_inputs(Builder& builder, ops::Environment& environment, const aten::Graph& graph,
                const ExportOptions& options);

// Makes initializers of the constants that outputs need, unless they are in the environment.
void add_constants(Builder& builder, ops::Environment& environment, const aten::Graph& graph);

// Results become graph outputs: an input, a weight or a value that is an output already goes
// through an Identity, so that each output has a name of its own.
class Outputs {
 public:
  Outputs(Builder& builder, const std::vector<std::string>& names)
      : builder_(builder), names_(names) {}

  // A result of the program, which the user may have named; results that are no values are left
  // out.
  void add(ops::Lowerer& lowerer, const aten::Argument& result);
  void add_named(Value value, std::string_view name);

 private:
  Builder& builder_;
  const std::vector<std::string>& names_;
  std::unordered_set<Value> used_;
};

}  // namespace onnx_native
