// What rewrites of values share: one forward sweep, in which a rule sees each node with its inputs
// already rewritten.
#pragma once

#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "onnx/graph.h"

namespace onnx_native::passes {

// Replacements of values, collected while the sweep goes on. A result of a graph keeps its name,
// and stays a value that a node of that graph makes.
class Rewrite {
 public:
  // `from` and `to` are of the same dtype; `to` is defined before `from`'s node ends.
  bool can_replace(const onnx::Value* from, const onnx::Value* to) const;
  // Whether the value is an output of its graph.
  bool is_result(const onnx::Value* value) const { return results_.contains(value); }
  // Replaces where it can; whether it did.
  bool replace(onnx::Value* from, onnx::Value* to);
  // Replaces; a result of a graph that `to` cannot take the place of becomes Identity(to), inserted
  // before `node`.
  void replace_all(onnx::Node& node, onnx::Value* from, onnx::Value* to);
  // Puts the nodes of one of the node's sub-graphs, which has no inputs, in the node's place.
  void inline_body(onnx::Node& node, onnx::Graph& body);
  void set_changed() { changed_ = true; }

 private:
  friend bool sweep(onnx::Model& model,
                    const std::function<void(Rewrite&, onnx::Graph&, onnx::Node&)>& rule);
  onnx::Value* resolve(onnx::Value* value) const;
  void update(std::vector<onnx::Value*>& values) const;

  std::unordered_map<const onnx::Value*, onnx::Value*> replacements_;
  std::unordered_set<const onnx::Value*> results_;             // outputs of all graphs
  std::vector<std::pair<onnx::Node*, onnx::Graph*>> inlined_;  // erased when the sweep ends
  bool changed_ = false;
};

// Calls the rule for every node of the main graph and its sub-graphs; whether anything changed.
// Nodes that have lost their use are left to dead code elimination.
bool sweep(onnx::Model& model,
           const std::function<void(Rewrite&, onnx::Graph&, onnx::Node&)>& rule);

}  // namespace onnx_native::passes
