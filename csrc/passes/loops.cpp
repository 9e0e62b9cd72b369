#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "onnx/infer.h"
#include "onnx/typing.h"
#include "passes/elementwise.h"
#include "passes/key.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/scan.h"

namespace onnx_native::passes {
namespace {

using onnx::Attribute;
using onnx::Graph;
using onnx::Node;
using onnx::Value;

// The steps of a Scan.
class Steps {
 public:
  Steps(onnx::Model& model, Graph& graph, const Scan& scan)
      : model_(model), graph_(graph), scan_(scan), body_(scan.body) {}

  int64_t hoist() {
    for (Node* node : std::vector<Node*>(body_.nodes.begin(), body_.nodes.end())) {
      for (Value*& input : node->inputs) {
        if (const auto at = replaced_.find(input); at != replaced_.end()) input = at->second;
      }
      const bool has_results = std::ranges::find(node->outputs, nullptr) == node->outputs.end();
      if (has_results && key_of(*node) && (move(*node) || batch(*node))) unused_.push_back(node);
    }
    if (unused_.empty()) return 0;
    onnx::replace_uses(body_, replaced_);
    for (Node* node : unused_) body_.erase(node);
    copy_outer_results(body_);
    scan_.drop_unused_slices();
    return static_cast<int64_t>(unused_.size());
  }

 private:
  bool is_outside(const Value* value) const { return !value || value->graph != &body_; }

  // Moves a node that computes the same in each step before the loop.
  bool move(Node& node) {
    if (!std::ranges::all_of(node.inputs, [this](const Value* each) { return is_outside(each); }))
      return false;
    const Node& outside = add(node, node.op_type, node.inputs, node.attributes);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      Value& value = *outside.outputs[i];
      if (!value.shape) onnx::Typing::copy(*node.outputs[i], value);
      value.name = std::exchange(node.outputs[i]->name, "");
      replaced_[node.outputs[i]] = &value;
    }
    return true;
  }

  // Computes for all slices at once: multiplies them and adds a bias. If the loop has no states,
  // all that it computes may come before it.
  bool batch(Node& node) {
    Value* product = node.is("MatMul") ? multiplied(node)
                     : node.is("Gemm") ? transformed(node)
                     : node.is("Add")  ? biased(node)
                                       : nullptr;
    Value* all = product || scan_.states() > 0 ? product : mapped(node);
    if (!all) return false;
    Value* output = node.outputs[0];
    Value* slice = scan_.add_slices(all, *output);
    slice->name = std::exchange(output->name, "");
    if (product) products_.insert(slice);
    replaced_[output] = slice;
    return true;
  }

  // Returns all slices of which a value is one, if they have a shape.
  Value* sequence(const Value* slice) const {
    Value* all = scan_.sequence(slice);
    return all && all->shape ? all : nullptr;
  }
  // Returns the same if the rank of the slice is at least 2.
  Value* whole(const Value* slice) const {
    Value* all = sequence(slice);
    return all && slice->rank_or(0) >= 2 ? all : nullptr;
  }

  Value* multiplied(const Node& node) {
    Value* slices = whole(node.inputs[0]);
    if (!slices || !is_outside(node.inputs[1]) || node.inputs[1]->rank_or(0) != 2) return nullptr;
    return add_one(node, "MatMul", {slices, node.inputs[1]});
  }

  Value* transformed(const Node& node) {
    Value* slices = whole(node.inputs[0]);
    const Value* bias = node.input(2);
    if (!slices || node.attribute_int("transA", 0) != 0 || node.attribute_float("alpha", 1) != 1 ||
        node.attribute_float("beta", 1) != 1 || !is_outside(node.inputs[1]) || !is_outside(bias) ||
        (bias && !bias->shape))
      return nullptr;
    Value* weight = node.inputs[1];
    if (node.attribute_int("transB", 0) != 0)
      weight = add_one(node, "Transpose", {weight}, {{"perm", std::vector<int64_t>{1, 0}}});
    Value* product = add_one(node, "MatMul", {slices, weight});
    return bias ? add_one(node, "Add", {product, node.inputs[2]}) : product;
  }

  Value* biased(const Node& node) {
    for (const size_t i : {0, 1}) {
      const Value *product = node.inputs[i], *bias = node.inputs[1 - i];
      if (!products_.contains(product) || !is_outside(bias) ||
          bias->rank_or(product->rank_or(0) + 1) > product->rank_or(0) ||
          node.outputs[0]->shape != product->shape)
        continue;
      return add_one(node, "Add", {whole(product), node.inputs[1 - i]});
    }
    return nullptr;
  }

  // Computes an elementwise operator, or one along the last axis, for all slices.
  Value* mapped(const Node& node) {
    const Value& output = *node.outputs[0];
    if (!output.shape || node.outputs.size() != 1) return nullptr;
    const int64_t rank = output.rank();
    std::vector<Attribute> attributes = node.attributes;
    if (node.is_any({"Softmax", "LogSoftmax"}) || normalizes_last_axis(node, rank)) {
      const auto axis = std::ranges::find(attributes, "axis", &Attribute::name);
      const int64_t at = node.attribute_int("axis", -1);
      if (at != -1 && at != rank - 1) return nullptr;
      if (axis != attributes.end()) axis->value = int64_t{-1};
    } else if (!is_elementwise(node)) {
      return nullptr;
    }
    std::vector<Value*> inputs;
    for (Value* input : node.inputs) {
      Value* all = sequence(input);
      // With the axis of the steps in front, slices of a smaller rank would be broadcast otherwise.
      const bool is_alike =
          input && (all ? input->rank_or(-1) == rank
                        : is_outside(input) && input->shape && input->rank() <= rank);
      if (input && !is_alike) return nullptr;
      inputs.push_back(all ? all : input);
    }
    return add_one(node, node.op_type, std::move(inputs), std::move(attributes));
  }

  // Adds a node before the loop, in place of one in it.
  Node& add(const Node& node, std::string_view op_type, std::vector<Value*> inputs,
            std::vector<Attribute> attributes = {}) {
    Node* outside = graph_.insert_node(scan_.node.position, op_type, std::move(inputs),
                                       node.outputs.size(), std::move(attributes));
    outside->location = node.location;
    onnx::infer(*outside, model_.opset);
    return *outside;
  }
  Value* add_one(const Node& node, std::string_view op_type, std::vector<Value*> inputs,
                 std::vector<Attribute> attributes = {}) {
    return add(node, op_type, std::move(inputs), std::move(attributes)).outputs[0];
  }

  onnx::Model& model_;
  Graph& graph_;
  Scan scan_;
  Graph& body_;
  std::unordered_set<const Value*> products_;
  std::unordered_map<const Value*, Value*> replaced_;
  std::vector<Node*> unused_;
};

}  // namespace

// Moves nodes of a Scan that compute the same in each step before it, and multiplies all its slices
// by a matrix at once. Skips random operators, nodes with sub-graphs and other domains.
int64_t hoist_from_loops(onnx::Model& model) {
  std::vector<std::pair<Graph*, Scan>> scans;
  onnx::for_each_graph(*model.graph, [&scans](Graph& graph) {
    for (Node* node : graph.nodes) {
      if (const auto scan = Scan::of(*node)) scans.emplace_back(&graph, *scan);
    }
  });
  int64_t changes = 0;
  for (auto it = scans.rbegin(); it != scans.rend(); ++it)  // inner ones first
    changes += Steps(model, *it->first, it->second).hoist();
  return changes;
}

}  // namespace onnx_native::passes
