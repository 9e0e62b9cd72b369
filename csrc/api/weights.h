// The weights of an exported program, for an owner who looks at them or replaces them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/tensor_data.h"

namespace at {
class Tensor;
}

namespace onnx_native {

class Program;

// The bytes of all weights.
int64_t weight_bytes(const Program& program);

// A model's bytes without its weights, and these with their names: the model refers to them by
// their places in this list. They live as long as the Program.
struct SeparateWeights {
  std::string model;
  std::vector<std::pair<std::string, const TensorData*>> weights;
};
SeparateWeights serialize_without_weights(const Program& program, bool metadata);

// Throws ExportError(invalid_argument) when a weight has changed that decided how the model looks.
void check_reads(const Program& program);

// Gives weights new elements, by the names that they have in the module; returns the names that the
// program has. All or none: throws ExportError(invalid_argument) with the name of one that differs
// in dtype or shape, or whose values decided how the model looks.
std::vector<std::string> set_weights(const Program& program,
                                     const std::map<std::string, at::Tensor>& tensors);

}  // namespace onnx_native
