// Bounds of the magnitude of values, proved from the nodes that compute them.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "passes/match.h"

namespace onnx_native::passes {

// All elements are numbers between -most and most.
struct Magnitude {
  double most = 0;
  // Gathers of weights with at most kMostOfWeights. Before a rewrite relies on the bound, it calls
  // check_weights().
  std::vector<onnx::Node*> unchecked = {};
};

inline constexpr double kMostOfWeights = 1e30;

class Magnitudes {
 public:
  explicit Magnitudes(match::Uses& uses) : uses_(uses) {}

  // Returns nullopt if elements may be infinite, not a number or unknown. Remembers values.
  const std::optional<Magnitude>& of(const onnx::Value& value);

 private:
  std::optional<Magnitude> compute(const onnx::Value& value);
  std::optional<Magnitude> of_node(onnx::Node& node);
  std::optional<Magnitude> of_gather(onnx::Node& node);
  // Returns a bound of the elements of all inputs from `first` on.
  std::optional<Magnitude> of_any(const onnx::Node& node, size_t first, size_t count);

  match::Uses& uses_;
  std::unordered_map<const onnx::Value*, std::optional<Magnitude>> known_;
};

// Makes sure that the weights have the magnitude that the bound supposes: else writing the model
// throws ExportError(invalid_argument) with the weight's name.
void check_weights(const Magnitude& magnitude);

}  // namespace onnx_native::passes
