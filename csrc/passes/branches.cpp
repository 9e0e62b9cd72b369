#include <algorithm>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "onnx/infer.h"
#include "onnx/typing.h"
#include "passes/key.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/scopes.h"

namespace onnx_native::passes {
namespace {

using onnx::Graph;
using onnx::Node;
using onnx::Value;

using Replaced = std::unordered_map<const Value*, Value*>;

// The nodes of a branch by what they compute from values outside of it.
class Branch {
 public:
  explicit Branch(Graph& graph) : graph_(graph) {
    for (Node* node : graph.nodes) {
      for (const Value* input : node->inputs) {
        if (!input || input->graph != &graph) continue;
        std::vector<Node*>& users = users_[input];  // once each: a product may be a square
        if (users.empty() || users.back() != node) users.push_back(node);
      }
      add(*node);
    }
  }
  Graph& graph() { return graph_; }

  // Returns the key of a node that depends on no other node of the branch; else an empty text.
  std::string key(const Node& node) const {
    const auto is_inner = [this](const Value* value) { return value && value->graph == &graph_; };
    if (std::ranges::any_of(node.inputs, is_inner)) return "";
    if (std::ranges::find(node.outputs, nullptr) != node.outputs.end()) return "";
    return key_of(node).value_or("");
  }
  // Returns a node with this key that was not taken before, or nullptr.
  Node* take(const std::string& key) {
    const auto found = nodes_.find(key);
    if (found == nodes_.end() || found->second.empty()) return nullptr;
    Node* node = found->second.front();
    found->second.erase(found->second.begin());
    return node;
  }
  // Replaces a node of the branch with one outside.
  void replace(Node& node, const Node& outside) {
    const std::vector<Value*> outputs = node.outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
      replaced_.emplace(outputs[i], outside.outputs[i]);
      for (Node* user : users_[outputs[i]]) {
        std::ranges::replace(user->inputs, outputs[i], outside.outputs[i]);
        add(*user);
      }
    }
    unused_.push_back(&node);
  }
  // Uses the replacements everywhere, and erases the nodes that have them.
  void finish() {
    onnx::replace_uses(graph_, replaced_);
    for (Node* node : unused_) graph_.erase(node);
  }

 private:
  void add(Node& node) {
    std::string text = key(node);
    if (!text.empty()) nodes_[std::move(text)].push_back(&node);
  }

  Graph& graph_;
  std::unordered_map<const Value*, std::vector<Node*>> users_;
  std::unordered_map<std::string, std::vector<Node*>> nodes_;
  Replaced replaced_;
  std::vector<Node*> unused_;
};

Graph* branch_of(const Node& node, std::string_view name) {
  const auto* body = node.attribute(name);
  return body ? std::get_if<std::shared_ptr<Graph>>(body)->get() : nullptr;
}

// Adds a node before the If that computes what a node of each branch does.
Node& add_outside(onnx::Model& model, Graph& graph, const Node& choice, const Node& first,
                  const Node& second) {
  Node* outside = graph.insert_node(choice.position, first.op_type, first.inputs,
                                    first.outputs.size(), first.attributes);
  outside->location = common_location(model, first.location, second.location);
  onnx::infer(*outside, model.opset);
  for (size_t i = 0; i < first.outputs.size(); ++i) {
    Value& value = *outside->outputs[i];
    if (!value.shape && first.outputs[i]->shape == second.outputs[i]->shape)
      onnx::Typing::set_shape(value, first.outputs[i]->shape);
    value.name = std::exchange(first.outputs[i]->name, "");
  }
  return *outside;
}

// Replaces an If by one without the results that are the same value in both branches.
void remove_equal_results(Graph& graph, Node& choice, Graph& yes, Graph& no) {
  std::vector<size_t> kept;
  Replaced replaced;
  for (size_t i = 0; i < choice.outputs.size(); ++i) {
    Value* output = choice.outputs[i];
    const bool is_result = std::ranges::find(graph.outputs, output) != graph.outputs.end();
    if (yes.outputs[i] != no.outputs[i] || is_result) {
      kept.push_back(i);
    } else if (output) {
      replaced.emplace(output, yes.outputs[i]);
    }
  }
  if (kept.size() == choice.outputs.size()) return;
  std::vector<Value*> of_yes, of_no;
  for (const size_t i : kept) {
    of_yes.push_back(yes.outputs[i]);
    of_no.push_back(no.outputs[i]);
  }
  yes.outputs = std::move(of_yes);
  no.outputs = std::move(of_no);
  if (!kept.empty()) {
    Node* shorter =
        graph.insert_node(choice.position, "If", choice.inputs, kept.size(), choice.attributes);
    shorter->location = choice.location;
    for (size_t i = 0; i < kept.size(); ++i) {
      Value* before = choice.outputs[kept[i]];
      Value* now = shorter->outputs[i];
      onnx::Typing::copy(before ? *before : *no.outputs[i], *now);
      if (!before) continue;
      now->name = std::exchange(before->name, "");
      now->named = std::exchange(before->named, false);
      replaced.emplace(before, now);
    }
  }
  onnx::replace_uses(graph, replaced);
  graph.erase(&choice);
}

int64_t hoist(onnx::Model& model, Graph& graph, Node& choice) {
  Graph* yes = branch_of(choice, "then_branch");
  Graph* no = branch_of(choice, "else_branch");
  if (!yes || !no) return 0;
  Branch first(*yes), second(*no);
  int64_t changes = 0;
  for (Node* node : std::vector<Node*>(yes->nodes.begin(), yes->nodes.end())) {
    const std::string key = first.key(*node);
    Node* same = key.empty() ? nullptr : second.take(key);
    if (!same) continue;
    const Node& outside = add_outside(model, graph, choice, *node, *same);
    first.replace(*node, outside);
    second.replace(*same, outside);
    ++changes;
  }
  if (changes == 0) return 0;
  first.finish();
  second.finish();
  remove_equal_results(graph, choice, *yes, *no);
  copy_outer_results(*yes);
  copy_outer_results(*no);
  return changes;
}

}  // namespace

// Moves nodes that both branches of an If have, and that depend on values outside of it, before the
// If: importers and other passes see them there. A result that is then the same value in both
// branches is no result of the If. Skips random operators, nodes with sub-graphs and other domains.
int64_t hoist_from_branches(onnx::Model& model) {
  std::vector<std::pair<Graph*, Node*>> choices;
  onnx::for_each_graph(*model.graph, [&choices](Graph& graph) {
    for (Node* node : graph.nodes) {
      if (node->is("If")) choices.emplace_back(&graph, node);
    }
  });
  int64_t changes = 0;
  for (auto it = choices.rbegin(); it != choices.rend(); ++it)  // inner ones first
    changes += hoist(model, *it->first, *it->second);
  return changes;
}

}  // namespace onnx_native::passes
