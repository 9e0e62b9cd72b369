// A program as torch.export's graphs print it, for the metadata of models.
#pragma once

#include <string>
#include <unordered_map>

#include "aten/graph.h"

namespace onnx_native::aten {

// Returns the name of an operator in Python: "aten.add.Tensor", "aten.linear.default".
std::string python_name(const Node& node);
// Prints the calls of a graph and of its subgraphs, which must outlive this object.
class FxText {
 public:
  explicit FxText(const Graph& graph) { add(graph); }
  // Returns the call as torch.fx prints it:
  //   %linear : [num_users=1] = call_function[target=torch.ops.aten.linear.default](args = (%x,
  //   %p_fc_weight), kwargs = {})
  // Arguments at the end that are equal to their defaults are left out.
  std::string of(const Node& node) const;

 private:
  FxText() = default;
  void add(const Graph& graph);
  void count(const Argument& argument);
  void print(const Argument& argument, std::string& to) const;

  std::unordered_map<const Value*, int64_t> users_;
  std::unordered_map<const Value*, std::string> placeholders_;  // of constants
};

}  // namespace onnx_native::aten
