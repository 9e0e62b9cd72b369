#include <cmath>

#include "base/weight.h"
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

// Returns the Conv whose only use is this BatchNormalization in inference mode, if all weights are
// constant; otherwise nullptr.
Node* folded_conv(const Node& node, const Uses& uses) {
  if (node.op_type != "BatchNormalization" || node.attribute_int("training_mode", 0) != 0) {
    return nullptr;
  }
  Value* x = node.inputs[0];
  Node* conv = x->producer;
  if (!conv || !conv->is("Conv")) return nullptr;
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

// The weight and bias of the folded Conv.
struct Folded {
  TensorData weight;
  TensorData bias;
};

// `sources`: the Conv's weight and bias (dtype undefined: no bias), then the normalization's scale,
// bias, mean and variance.
Folded fold(std::span<const TensorData> sources, double epsilon) {
  const ReadScope unrecorded(nullptr);
  const TensorData& weight = sources[0];
  const int64_t channels = sources[2].numel();
  auto factors = std::make_shared<std::vector<double>>();
  std::vector<double> shifts;
  for (int64_t i = 0; i < channels; ++i) {
    const double factor = sources[2].number(i) / std::sqrt(sources[5].number(i) + epsilon);
    const double bias = sources[1].dtype == DType::undefined ? 0 : sources[1].number(i);
    factors->push_back(factor);
    shifts.push_back((bias - sources[4].number(i)) * factor + sources[3].number(i));
  }
  Folded folded{weight, make_tensor(weight.dtype, {channels}, std::span<const double>(shifts))};
  folded.weight.scale = std::move(factors);
  return folded;
}

Derivation part_of_fold(const std::vector<TensorData>& sources, double epsilon,
                        TensorData Folded::*part) {
  return {sources, [epsilon, part](std::span<const TensorData> now) -> std::optional<TensorData> {
            return fold(now, epsilon).*part;
          }};
}

}  // namespace

// BatchNormalization(Conv(x, w, b)) in inference mode becomes a Conv whose weight is w times one
// factor per output channel. The factors are applied while the weight is written, so no second copy
// is held. Factors derived from live weights use the weights' values at that time.
int64_t fold_batch_norm(onnx::Model& model) {
  const Uses uses = onnx::count_uses(*model.graph);
  return sweep(model, [&](Rewrite& rewrite, onnx::Graph&, Node& node) {
    if (!node.domain.empty()) return;
    const Node* conv = folded_conv(node, uses);
    if (!conv) return;
    const double epsilon = node.attribute_float("epsilon", 1e-5);
    Value* weight = conv->inputs[1];
    std::vector<TensorData> sources{*weight->constant,
                                    conv->input(2) ? *conv->inputs[2]->constant : TensorData()};
    for (size_t i = 1; i <= 4; ++i) sources.push_back(*node.inputs[i]->constant);
    Folded both = fold(sources, epsilon);
    derive(both.weight, part_of_fold(sources, epsilon, &Folded::weight));
    derive(both.bias, part_of_fold(sources, epsilon, &Folded::bias));
    Value* folded = model.graph->add_initializer(weight->name, std::move(both.weight));
    folded->named = weight->named;
    weight->named = false;
    weight->name.clear();
    Value* shift = model.graph->add_initializer("", std::move(both.bias));
    node.op_type = "Conv";
    node.inputs = {conv->inputs[0], folded, shift};
    node.attributes = conv->attributes;
    rewrite.set_changed();
  });
}

}  // namespace onnx_native::passes
