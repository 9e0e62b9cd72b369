// Moves nodes into functions of the model.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "passes/module_calls.h"

namespace onnx_native::passes {

// Calls `visit` for each value that the node uses and that its sub-graphs do not define.
void for_each_use(const onnx::Node& node, const std::function<void(onnx::Value*)>& visit);

// Builds the functions of a model.
class Functions {
 public:
  explicit Functions(onnx::Model& model);

  // Replaces `nodes` with a call of a function, inserted at the first of them. They must be in
  // order and able to run back to back there. Returns nullptr and changes nothing if no other node
  // uses their results.
  onnx::Node* outline(onnx::Graph& graph, const std::vector<onnx::Node*>& nodes,
                      const ModuleCall& call);
  bool is_call(const onnx::Node& node) const { return calls_.contains(&node); }

 private:
  using Replacements = std::unordered_map<const onnx::Value*, onnx::Value*>;

  std::vector<onnx::Value*> results(const std::vector<onnx::Node*>& nodes);
  std::vector<onnx::Value*> add_inputs(const std::vector<onnx::Node*>& nodes,
                                       const std::string& module, onnx::Graph& body,
                                       Replacements& inside);
  // Returns the function with this body; adds it to the model if it is new.
  const onnx::Function& function(std::unique_ptr<onnx::Graph> body, const std::string& class_name);
  const Location* inner_location(const Location* location, size_t scopes);

  onnx::Model& model_;
  std::unordered_map<const onnx::Value*, int64_t> uses_;
  std::unordered_map<std::string, size_t> known_;  // body -> its index in model_.functions
  std::unordered_map<std::string, int64_t> names_;
  std::unordered_set<const onnx::Node*> calls_;
  std::map<std::pair<const Location*, size_t>, const Location*> locations_;
};

}  // namespace onnx_native::passes
