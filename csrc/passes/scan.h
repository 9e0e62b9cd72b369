// A Scan, as passes read and change it.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "onnx/graph.h"

namespace onnx_native::passes {

// A Scan whose steps get slices along the first axis, in order.
class Scan {
 public:
  // Returns nullopt for other nodes, and for a Scan along other axes or backwards.
  static std::optional<Scan> of(onnx::Node& node);

  onnx::Node& node;
  onnx::Graph& body;

  // Returns how many states the steps hand on: the first inputs and outputs of the body.
  size_t states() const { return states_; }
  // Returns the index of a state; nullopt for other values.
  std::optional<size_t> state(const onnx::Value* value) const;
  // Returns the sequence of which a value of the body is a slice; nullptr for other values.
  onnx::Value* sequence(const onnx::Value* value) const;
  const Dim& steps() const { return node.inputs.back()->dim(0); }

  // Gives the steps slices of a sequence; returns the slice, of the same type as `like`.
  onnx::Value* add_slices(onnx::Value* sequence, const onnx::Value& like);
  // Removes sequences whose slices have no uses. One stays: it says how many steps there are.
  void drop_unused_slices();
  // Removes states, whose values in the body have no uses.
  void drop_states(std::vector<size_t> states);

 private:
  Scan(onnx::Node& scan, onnx::Graph& steps);
  void note_inputs();
  void note_count();  // of sequences, as the node's attribute

  size_t states_;
  std::unordered_map<const onnx::Value*, size_t> indices_;          // of states
  std::unordered_map<const onnx::Value*, onnx::Value*> sequences_;  // by the slices of a step
};

}  // namespace onnx_native::passes
