#include <cmath>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using onnx::Node;
using onnx::Value;
using Uses = std::unordered_map<const Value*, int64_t>;

bool is_plain_vector(const Value* value) {
  return value && value->is_constant() && value->rank_or(-1) == 1 && !value->constant->scale;
}

// The Conv whose only use is this BatchNormalization in inference mode, all weights constant.
Node* folded_conv(const Node& node, const Uses& uses) {
  if (node.op_type != "BatchNormalization" || node.attribute_int("training_mode", 0) != 0) {
    return nullptr;
  }
  Value* x = node.inputs[0];
  Node* conv = x->producer;
  if (!conv || conv->op_type != "Conv" || !conv->domain.empty()) return nullptr;
  if (uses.at(x) != 1 || x->graph != node.outputs[0]->graph) return nullptr;
  for (size_t i = 1; i <= 4; ++i) {
    if (!is_plain_vector(node.input(i)) || node.inputs[i]->dtype != x->dtype) return nullptr;
  }
  const Value* weight = conv->inputs[1];
  const Value* bias = conv->input(2);
  if (x->dtype != DType::f32 && x->dtype != DType::f64) return nullptr;
  if (!weight->is_constant() || weight->constant->scale || uses.at(weight) != 1) return nullptr;
  return !bias || is_plain_vector(bias) ? conv : nullptr;
}

}  // namespace

// BatchNormalization(Conv(x, w, b)) in inference mode becomes a Conv whose weight is w times one
// factor per output channel. The factors are applied while the weight is written, so that it is
// not held twice.
bool fold_batch_norm(onnx::Model& model) {
  const Uses uses = onnx::count_uses(*model.graph);
  return sweep(model, [&](Rewrite& rewrite, onnx::Graph&, Node& node) {
    if (!node.domain.empty()) return;
    const Node* conv = folded_conv(node, uses);
    if (!conv) return;
    const auto at = [&node](size_t input, int64_t i) {
      return node.inputs[input]->constant->number(i);
    };
    const double epsilon = node.attribute_float("epsilon", 1e-5);
    const int64_t channels = node.inputs[1]->constant->numel();
    auto factors = std::make_shared<std::vector<double>>();
    std::vector<double> shifts;
    for (int64_t i = 0; i < channels; ++i) {
      const double factor = at(1, i) / std::sqrt(at(4, i) + epsilon);
      const double bias = conv->input(2) ? conv->inputs[2]->constant->number(i) : 0;
      factors->push_back(factor);
      shifts.push_back((bias - at(3, i)) * factor + at(2, i));
    }
    Value* weight = conv->inputs[1];
    TensorData scaled = *weight->constant;
    scaled.scale = std::move(factors);
    Value* folded = model.graph->add_initializer(weight->name, std::move(scaled));
    folded->named = weight->named;
    weight->named = false;
    weight->name.clear();
    Value* shift = model.graph->add_initializer(
        "", make_tensor(folded->dtype, {channels}, std::span<const double>(shifts)));
    node.op_type = "Conv";
    node.inputs = {conv->inputs[0], folded, shift};
    node.attributes = conv->attributes;
    rewrite.set_changed();
  });
}

}  // namespace onnx_native::passes
