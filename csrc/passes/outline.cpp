#include <algorithm>
#include <deque>
#include <unordered_map>
#include <unordered_set>

#include "passes/function_body.h"
#include "passes/module_calls.h"
#include "passes/passes.h"

namespace onnx_native::passes {
namespace {

using onnx::Graph;
using onnx::Node;
using onnx::Value;

// Returns true if the node only computes sizes. Lowerings share such nodes across modules.
bool is_size(const Node& node) {
  return !node.outputs.empty() && std::ranges::all_of(node.outputs, [](const Value* output) {
    return output && output->contents && is_integral(output->dtype);
  });
}

// Outlines the module calls in one graph.
class Outliner {
 public:
  Outliner(ModuleCalls& calls, Functions& functions, Graph& graph, const ModuleCall* around)
      : calls_(calls), functions_(functions), graph_(graph), around_(around) {}

  void run() {
    for (const Node* node : graph_.nodes) place_[node] = calls_.find(node->location, around_);
    outline_bodies();
    share_sizes();
    std::vector<std::vector<const ModuleCall*>> levels;
    std::unordered_set<const ModuleCall*> seen;
    for (const Node* node : graph_.nodes) {
      for (const ModuleCall* call = place_.at(node); call != around_; call = call->outer) {
        if (!seen.insert(call).second) break;
        if (levels.size() <= call->depth) levels.resize(call->depth + 1);
        levels[call->depth].push_back(call);
      }
    }
    for (auto level = levels.rbegin(); level != levels.rend(); ++level) outline_level(*level);
  }

 private:
  void outline_bodies() {
    for (const Node* node : graph_.nodes) {
      for (const onnx::Attribute& attribute : node->attributes) {
        if (const auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.value)) {
          Outliner(calls_, functions_, **body, place_.at(node)).run();
        }
      }
    }
  }

  // Moves each size computation to the innermost call that contains all its uses.
  void share_sizes() {
    std::unordered_map<const Value*, const ModuleCall*> users;
    for (const Value* output : graph_.outputs) users[output] = around_;
    for (auto it = graph_.nodes.rbegin(); it != graph_.nodes.rend(); ++it) {
      const ModuleCall*& place = place_.at(*it);
      if (is_size(**it)) {
        for (const Value* output : (*it)->outputs) {
          if (const auto user = users.find(output); user != users.end()) {
            place = common_call(place, user->second);
          }
        }
      }
      for_each_use(**it, [&](const Value* value) {
        const auto [user, is_new] = users.emplace(value, place);
        if (!is_new) user->second = common_call(user->second, place);
      });
    }
  }

  void outline_level(const std::vector<const ModuleCall*>& level) {
    order_.clear();
    std::unordered_map<const ModuleCall*, std::vector<Node*>> members;
    for (Node* node : graph_.nodes) {
      order_.emplace(node, order_.size());
      members[place_.at(node)].push_back(node);
    }
    for (const ModuleCall* call : level) {
      std::unordered_set<Node*> left(members[call].begin(), members[call].end());
      while (!left.empty()) outline_part(*call, left);
    }
  }

  // Replaces nodes of `left` with one function call: the first of them and as many others as can
  // run with it. Removes them from `left`.
  void outline_part(const ModuleCall& call, std::unordered_set<Node*>& left) {
    const auto by_order = [this](const Node* a, const Node* b) {
      return order_.at(a) < order_.at(b);
    };
    Node* first = *std::ranges::min_element(left, by_order);
    part_.clear();
    later_.clear();
    auto end = first->position;
    size_t found = 0;
    for (auto it = first->position; found < left.size(); ++it) {
      if (left.contains(*it)) {
        if (!take_between(call, **it)) break;
        part_.insert(*it);
        ++found;
        end = std::next(it);
      } else if (depends_on_part(**it)) {
        later_.insert(*it);
      }
    }
    const std::vector<Node*> span(first->position, end);
    std::vector<Node*> body;
    std::ranges::copy_if(span, std::back_inserter(body),
                         [this](Node* node) { return part_.contains(node); });
    std::vector<size_t> numbers;
    numbers.reserve(span.size());
    for (const Node* node : span) numbers.push_back(order_.at(node));
    for (Node* node : body) {
      left.erase(node);
      place_[node] = call.outer;
    }
    Node* made = functions_.outline(graph_, body, call);
    if (!made) return;
    place_[made] = call.outer;
    // Nodes that do not depend on the call move in front of it.
    size_t next = 0;
    for (Node* node : span) {
      if (part_.contains(node) || later_.contains(node)) continue;
      graph_.nodes.splice(made->position, graph_.nodes, node->position);
      order_[node] = numbers[next++];
    }
    order_[made] = numbers[next++];
    for (Node* node : span) {
      if (later_.contains(node)) order_[node] = numbers[next++];
    }
  }

  bool depends_on_part(const Node& node) const {
    bool depends = false;
    for_each_use(node, [&](const Value* value) {
      depends |=
          value->producer && (part_.contains(value->producer) || later_.contains(value->producer));
    });
    return depends;
  }

  // Adds to the part the nodes that depend on it and that `node` depends on. Returns false if one
  // of them belongs to another call.
  bool take_between(const ModuleCall& call, const Node& node) {
    std::vector<Node*> open;
    std::unordered_set<Node*> between;
    const auto visit = [&](const Value* value) {
      if (value->producer && later_.contains(value->producer) &&
          between.insert(value->producer).second) {
        open.push_back(value->producer);
      }
    };
    for_each_use(node, visit);
    while (!open.empty()) {
      const Node* next = open.back();
      open.pop_back();
      const ModuleCall* place = place_.at(next);
      if (functions_.is_call(*next) || common_call(place, &call) != place) return false;
      for_each_use(*next, visit);
    }
    for (Node* taken : between) later_.erase(taken);
    part_.merge(between);
    return true;
  }

  ModuleCalls& calls_;
  Functions& functions_;
  Graph& graph_;
  const ModuleCall* around_;  // the call that contains the graph
  std::unordered_map<const Node*, const ModuleCall*> place_;
  std::unordered_map<const Node*, size_t> order_;  // increases along the graph
  std::unordered_set<Node*> part_;                 // the nodes that become a function
  std::unordered_set<Node*> later_;                // other nodes that depend on the part
};

}  // namespace

// The nodes of a module call become a call of a function; calls of one class with equal nodes share
// the function. Values from outside, including weights, become its inputs, and values used outside
// become its outputs; small unnamed constants move inside. So do nodes of the enclosing module
// between the call's nodes. If another call lies between them, the module call becomes several
// function calls.
std::vector<std::string> outline_modules(onnx::Model& model, const ModuleFunctions& modules) {
  ModuleCalls calls(modules);
  Functions functions(model);
  Outliner(calls, functions, *model.graph, calls.root()).run();
  eliminate_dead_code(model);
  return calls.unseen();
}

}  // namespace onnx_native::passes
