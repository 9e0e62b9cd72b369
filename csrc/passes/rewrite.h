// The base of value rewrites: one forward sweep that shows a rule each node with its inputs already
// rewritten.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "onnx/graph.h"

namespace onnx_native::passes {

// The value replacements of one sweep. A graph output keeps its name and remains the result of a
// node in that graph.
class Rewrite {
 public:
  // Returns true if dtype and kind match and graph outputs stay valid. The definition of `to` must
  // dominate all uses of `from`.
  bool can_replace(const onnx::Value* from, const onnx::Value* to) const;
  // Returns true if the value is an output of its graph.
  bool is_result(const onnx::Value* value) const { return results_.contains(value); }
  // Replaces `from` if can_replace() allows it; returns true if it did.
  bool replace(onnx::Value* from, onnx::Value* to);
  // Always replaces. If `from` is a graph output and `to` cannot take its place, inserts
  // Identity(to) before `node`.
  void replace_all(onnx::Node& node, onnx::Value* from, onnx::Value* to);
  // Replaces the node with the contents of one of its sub-graphs, which must have no inputs.
  void inline_body(onnx::Node& node, onnx::Graph& body);
  void set_changed() { ++changes_; }

 private:
  friend int64_t sweep(onnx::Model& model,
                       const std::function<void(Rewrite&, onnx::Graph&, onnx::Node&)>& rule);
  onnx::Value* resolve(onnx::Value* value) const;
  void update(std::vector<onnx::Value*>& values) const;

  std::unordered_map<const onnx::Value*, onnx::Value*> replacements_;
  std::unordered_set<const onnx::Value*> results_;             // outputs of all graphs
  std::vector<std::pair<onnx::Node*, onnx::Graph*>> inlined_;  // erased when the sweep ends
  int64_t changes_ = 0;
};

// Inserts a node before another one, at its location, and infers the types of its results.
onnx::Node* insert_node_before(const onnx::Model& model, const onnx::Node& at,
                               std::string_view op_type, std::vector<onnx::Value*> inputs,
                               std::vector<onnx::Attribute> attributes, size_t outputs);
// Likewise a node with one result, which it returns.
onnx::Value* insert_before(const onnx::Model& model, const onnx::Node& at, std::string_view op_type,
                           std::vector<onnx::Value*> inputs,
                           std::vector<onnx::Attribute> attributes = {});

// Adds a copy of each result of a body that is one of its inputs or a value from outside of it: a
// body returns values that it computes.
void copy_outer_results(onnx::Graph& body);

// Removes nodes and initializers of a graph that nothing in it uses.
int64_t eliminate_dead_code(onnx::Graph& graph);

// Calls the rule for every node of the main graph and its sub-graphs; returns the number of
// changes. Leaves unused nodes to dead code elimination.
int64_t sweep(onnx::Model& model,
              const std::function<void(Rewrite&, onnx::Graph&, onnx::Node&)>& rule);

}  // namespace onnx_native::passes
