// Values of the steps of a Scan as affine maps of what the steps get: the gates of recurrent cells.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "onnx/graph.h"

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

// What a step multiplies by a weight: a value of the step, or its slice of a sequence, which is
// (steps, batch, size), or (batch, steps, size) if it `swaps` them.
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

// A Scan whose steps get slices along the first axis, in order.
class Scan {
 public:
  Scan(onnx::Node& node, onnx::Graph& body);

  onnx::Node& node;
  onnx::Graph& body;

  // Returns how many states the steps hand on: the first inputs and outputs of the body.
  size_t states() const { return states_; }
  // Returns the index of a state; nullopt for other values.
  std::optional<size_t> state(const onnx::Value* value) const;
  // Returns the sequence of which a value of the body is a slice; nullptr for other values.
  onnx::Value* sequence(const onnx::Value* value) const;
  const Dim& steps() const { return node.inputs.back()->dim(0); }

  // Returns a value of the body, (batch, size), as an affine map; nullopt if it is none. Looks
  // through products of whole sequences that are computed before the Scan.
  std::optional<AffineMap> affine(onnx::Value* value) const;
  // For a state that is multiplied by the result of a Sigmoid: that result, and the state.
  struct ScaledState {
    const onnx::Value* scale;
    const onnx::Value* state;
  };
  std::optional<ScaledState> scaled_state(const onnx::Value* value) const;

  // Replaces a value of the body by slices of a sequence, and drops states.
  void take(onnx::Value* value, onnx::Value* sequence, const std::vector<size_t>& states);

 private:
  void note_inputs();

  size_t states_;
  std::unordered_map<const onnx::Value*, size_t> indices_;          // of states
  std::unordered_map<const onnx::Value*, onnx::Value*> sequences_;  // by the slices of a step
};

}  // namespace onnx_native::passes
