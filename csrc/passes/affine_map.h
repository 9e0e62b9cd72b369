// Values of the steps of a Scan as affine maps of what the steps get: the gates of recurrent cells.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "onnx/graph.h"
#include "passes/scan.h"

namespace onnx_native::passes {

// Indices from `begin` to `end`, which is exclusive.
struct IndexRange {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
};

// A part of a matrix, (rows, columns). A transposed matrix is stored as (columns, rows).
struct MatrixPart {
  onnx::Value* value = nullptr;
  bool is_transposed = false;
  IndexRange rows, columns;
};

// A factor that a step multiplies by a weight. It is a value of the step, or its slice of a
// sequence. The sequence is (steps, batch, size), or (batch, steps, size) if it `swaps` them.
struct StepOperand {
  onnx::Value* value = nullptr;
  bool is_sequence = false;
  bool swaps = false;

  bool operator==(const StepOperand&) const = default;
};

struct AffineTerm {
  StepOperand operand;
  MatrixPart weight;
};

// A part of a vector.
struct BiasPart {
  onnx::Value* value = nullptr;
  IndexRange range;
};

// The sum of products and biases. A GRU may add another map, multiplied by a gate.
struct AffineMap {
  std::vector<AffineTerm> terms;
  std::vector<BiasPart> biases;
  const onnx::Value* scale = nullptr;  // the result of a Sigmoid
  std::shared_ptr<const AffineMap> scaled;
};

// Returns a value of the body, (batch, size), as an affine map; nullopt if it is none. Looks
// through products of whole sequences that are computed before the Scan.
std::optional<AffineMap> affine_map(const Scan& scan, onnx::Value* value);

// A state that is multiplied by the result of a Sigmoid.
struct ScaledState {
  const onnx::Value* scale;
  const onnx::Value* state;
};
// Returns nullopt for other values.
std::optional<ScaledState> scaled_state(const Scan& scan, const onnx::Value* value);

}  // namespace onnx_native::passes
