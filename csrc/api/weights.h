// Access to the weights of an exported program, to read or replace them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "aten/graph.h"
#include "base/metadata.h"
#include "base/tensor_data.h"
#include "base/weight_names.h"

namespace at {
class Tensor;
}

namespace onnx_native {

class Program;

// The module's weights by their names. The graph outlives it.
class ModuleWeights {
 public:
  explicit ModuleWeights(const aten::Graph& graph);

  // Returns nullptr if the module has no weight of this name.
  const aten::Constant* find(std::string_view name) const;
  // Returns what the initializer with this name stores of the weights.
  StoredWeight stored_in(std::string_view initializer) const;

 private:
  std::unordered_map<std::string_view, const aten::Constant*> by_name_;
};

// Returns the total size of all weights in bytes.
int64_t weight_bytes(const Program& program);

// A model's bytes without its weights, and the weights with their names. The model refers to
// weights by their index in this list. They live as long as the Program.
struct SeparateWeights {
  std::string model;
  std::vector<std::pair<std::string, const TensorData*>> weights;
};
SeparateWeights serialize_without_weights(const Program& program, Metadata metadata);

// Throws ExportError(invalid_argument) if a weight changed whose values affect the exported graph.
void check_reads(const Program& program);

// Replaces the elements of weights, by their names in the module; returns the names that the
// program has. Changes all or none: throws ExportError(invalid_argument) with the name of a weight
// that differs in dtype or shape, or whose values affect the exported graph.
std::vector<std::string> set_weights(const Program& program,
                                     const std::map<std::string, at::Tensor>& tensors);

}  // namespace onnx_native
