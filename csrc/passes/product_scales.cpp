#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/weight.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using onnx::Node;
using onnx::Value;
using Ints = std::vector<int64_t>;

constexpr int64_t kLongestConstant =
    1024;  // elements of a constant that takes the place of a number

// Returns the index of the number by which a node multiplies or divides a tensor; nullopt for other
// nodes.
std::optional<size_t> number_of(const Node& node) {
  if (!node.is_any({"Mul", "Div"}) || node.inputs.size() != 2) return std::nullopt;
  if (!is_floating(node.outputs[0]->dtype)) return std::nullopt;
  for (size_t i = node.is("Div") ? 1 : 0; i < 2; ++i) {
    const Value* number = node.inputs[i];
    if (number->is_constant() && number->constant->numel() == 1 &&
        number->rank_or(0) <= node.inputs[1 - i]->rank_or(0)) {
      return i;
    }
  }
  return std::nullopt;
}

// Returns true if float32 holds the number and its reciprocal.
bool is_power_of_two(const Value& number) {
  if (can_change(*number.constant)) return false;
  int exponent = 0;
  const double fraction = std::frexp(number.constant->number(0), &exponent);
  return std::abs(fraction) == 0.5 && std::abs(exponent) < 126;
}

// Finds the scaled values around products, which ONNX Runtime multiplies into them.
class ProductScales {
 public:
  explicit ProductScales(onnx::Model& model)
      : model_(model), uses_(onnx::count_uses(*model.graph)) {
    std::vector<const Node*> nodes;
    onnx::for_each_graph(*model.graph, [&nodes](const onnx::Graph& graph) {
      nodes.insert(nodes.end(), graph.nodes.begin(), graph.nodes.end());
    });
    for (const Node* node : nodes) {
      const Value* source = source_of(*node);
      if (node->is("MatMul") || (source && near_.contains(source))) {
        near_.insert(node->outputs[0]);
      }
    }
    std::unordered_set<const Value*> multiplied;
    for (auto at = nodes.rbegin(); at != nodes.rend(); ++at) {
      const Node& node = **at;
      if (node.is("MatMul")) multiplied.insert(node.inputs.begin(), node.inputs.end());
      const Value* source = source_of(node);
      if (source && multiplied.contains(node.outputs[0])) multiplied.insert(source);
    }
    near_.insert(multiplied.begin(), multiplied.end());
  }

  void apply(Rewrite& rewrite, onnx::Graph& graph, Node& node) {
    const auto index = number_of(node);
    if (!index || !must_stay(node, *index)) return;
    if (Value* numbers = repeated(graph, *node.inputs[*index], *node.inputs[1 - *index])) {
      node.inputs[*index] = numbers;
    } else {
      std::vector<Value*> inputs = node.inputs;
      Value*& tensor = inputs[1 - *index];
      tensor = insert_before(model_, node, "Neg", {tensor});
      node.inputs = {insert_before(model_, node, node.op_type, std::move(inputs))};
      node.op_type = "Neg";
    }
    rewrite.set_changed();
  }

 private:
  // Returns the value that a node scales or transposes.
  static const Value* source_of(const Node& node) {
    if (node.is("Transpose")) return node.inputs[0];
    const auto index = number_of(node);
    return index ? node.inputs[1 - *index] : nullptr;
  }

  bool must_stay(const Node& node, size_t index) const {
    const Value* tensor = node.inputs[1 - index];
    if (!near_.contains(node.outputs[0])) return false;
    if (tensor->dtype == DType::f64 && !is_power_of_two(*node.inputs[index])) return true;
    const auto uses = uses_.find(tensor);
    return tensor->producer && number_of(*tensor->producer) && uses != uses_.end() &&
           uses->second > 1;
  }

  // Returns the number once for each position of an axis; nullptr for a parameter, and where no
  // axis has a suitable size.
  Value* repeated(onnx::Graph& graph, const Value& number, const Value& tensor) {
    if (can_change(*number.constant) || !tensor.shape) return nullptr;
    Ints shape;
    for (auto dim = tensor.shape->rbegin(); dim != tensor.shape->rend(); ++dim) {
      const int64_t size = dim->constant_or(0);
      shape.insert(shape.begin(), size > 1 && size <= kLongestConstant ? size : 1);
      if (shape.front() == 1) continue;
      Value*& known = repeated_[{&number, shape}];
      if (!known) {
        const std::vector<double> elements(static_cast<size_t>(size), number.constant->number(0));
        known = graph.add_initializer("", make_tensor(number.dtype, shape, elements));
      }
      return known;
    }
    return nullptr;
  }

  onnx::Model& model_;
  std::unordered_map<const Value*, int64_t> uses_;
  std::unordered_set<const Value*> near_;  // operands and results of products, scaled or turned
  std::map<std::pair<const Value*, Ints>, Value*> repeated_;
};

}  // namespace

// For ONNX Runtime, whose default optimizations (1.31) multiply numbers beside a product into it.
// They keep the number of a float64 product in float32, and write a graph that does not load where
// a scaled value is scaled again and used elsewhere. Such a number is repeated along an axis, so
// that they do not find it; without an axis of a suitable size, the value is negated before and
// after.
int64_t keep_product_scales(onnx::Model& model) {
  ProductScales rule(model);
  return sweep(model, [&rule](Rewrite& rewrite, onnx::Graph& graph, Node& node) {
    rule.apply(rewrite, graph, node);
  });
}

}  // namespace onnx_native::passes
