#include "passes/rewrite.h"

#include <string>
#include <utility>

#include "onnx/infer.h"
#include "onnx/typing.h"

namespace onnx_native::passes {

using onnx::Graph;
using onnx::Node;
using onnx::Value;

namespace {

// Gives `to`, which takes the place of `from`, the program's name of it, unless `to` has one.
void hand_over_name(Value& from, Value& to) {
  if (from.named || !from.producer) return;
  // `from` may live on and hold other elements.
  std::string name = std::exchange(from.name, "");
  if (to.name.empty()) to.name = std::move(name);
}

}  // namespace

bool Rewrite::can_replace(const Value* from, const Value* to) const {
  if (from == to || from->dtype != to->dtype || from->kind != to->kind) return false;
  if (!results_.contains(from)) return true;
  return to->producer && to->graph == from->graph && !results_.contains(to) && !to->named;
}

bool Rewrite::replace(Value* from, Value* to) {
  to = resolve(to);
  if (!can_replace(from, to)) return false;
  if (results_.contains(from)) {
    results_.erase(from);
    results_.insert(to);
    if (!from->name.empty()) to->name = std::exchange(from->name, "");
    to->named = std::exchange(from->named, false);
  }
  hand_over_name(*from, *to);
  if (!to->shape) onnx::Typing::set_shape(*to, from->shape);
  if (!to->contents) onnx::Typing::set_contents(*to, from->contents);
  replacements_[from] = to;
  ++changes_;
  return true;
}

void Rewrite::replace_all(Node& node, Value* from, Value* to) {
  if (replace(from, to)) return;
  Graph& graph = *from->graph;
  Value* copy = graph.insert_node(node.position, "Identity", {to}, 1)->outputs[0];
  copy->producer->location = node.location;
  onnx::Typing::copy(*from, *copy);
  require(replace(from, copy), "a value cannot be replaced by its own copy");
}

void Rewrite::inline_body(Node& node, Graph& body) {
  for (const Value* output : body.outputs) results_.erase(output);
  body.outer()->take_over(body, node.position);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i]) replace_all(node, node.outputs[i], body.outputs[i]);
  }
  inlined_.emplace_back(&node, body.outer());
}

Value* Rewrite::resolve(Value* value) const {
  for (auto next = replacements_.find(value); next != replacements_.end();
       next = replacements_.find(value)) {
    value = next->second;
  }
  return value;
}

void Rewrite::update(std::vector<Value*>& values) const {
  for (Value*& value : values) {
    if (value) value = resolve(value);
  }
}

Node* insert_node_before(const onnx::Model& model, const Node& at, std::string_view op_type,
                         std::vector<Value*> inputs, std::vector<onnx::Attribute> attributes,
                         size_t outputs) {
  Node* node = at.outputs[0]->graph->insert_node(at.position, op_type, std::move(inputs), outputs,
                                                 std::move(attributes));
  node->location = at.location;
  onnx::infer(*node, model.opset);
  return node;
}

Value* insert_before(const onnx::Model& model, const Node& at, std::string_view op_type,
                     std::vector<Value*> inputs, std::vector<onnx::Attribute> attributes) {
  return insert_node_before(model, at, op_type, std::move(inputs), std::move(attributes), 1)
      ->outputs[0];
}

void copy_outer_results(Graph& body) {
  for (Value*& output : body.outputs) {
    if (output->graph == &body && output->producer) continue;
    Value* copy = body.add_node("Identity", {output}, 1)->outputs[0];
    copy->producer->location = output->producer ? output->producer->location : nullptr;
    onnx::Typing::copy(*output, *copy);
    output = copy;
  }
}

int64_t sweep(onnx::Model& model, const std::function<void(Rewrite&, Graph&, Node&)>& rule) {
  Rewrite rewrite;
  onnx::for_each_graph(*model.graph, [&rewrite](const Graph& graph) {
    rewrite.results_.insert(graph.outputs.begin(), graph.outputs.end());
  });
  onnx::for_each_graph(*model.graph, [&](Graph& graph) {
    for (auto it = graph.nodes.begin(); it != graph.nodes.end(); ++it) {
      rewrite.update((*it)->inputs);
      rule(rewrite, graph, **it);
    }
    rewrite.update(graph.outputs);
  });
  if (!rewrite.inlined_.empty()) {
    // The sweep has not visited the nodes that were inlined from sub-graphs.
    onnx::replace_uses(*model.graph, rewrite.replacements_);
    // Erase inner nodes first: they may be in a branch that was not taken.
    for (auto it = rewrite.inlined_.rbegin(); it != rewrite.inlined_.rend(); ++it) {
      it->second->erase(it->first);
    }
  }
  return rewrite.changes_;
}

}  // namespace onnx_native::passes
