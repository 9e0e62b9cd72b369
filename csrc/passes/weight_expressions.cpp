#include <algorithm>
#include <unordered_set>
#include <vector>

#include "base/weight.h"
#include "passes/evaluate.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using onnx::Graph;
using onnx::Node;
using onnx::UseCounts;
using onnx::Value;

constexpr int64_t kSmallWeight = 1024;  // elements of weights that constant folding evaluates
constexpr int64_t kMost = 1 << 23;      // elements of any result
constexpr size_t kMostNodes = 64;       // nodes of an expression

// Returns true for operators that move or convert elements. Runtimes do this when they load the
// model, and weight_layout chooses layouts.
bool only_moves(const Node& node) {
  return node.is_any({"Cast", "Concat", "Expand", "Flatten", "Gather", "Identity", "Reshape",
                      "Slice", "Squeeze", "Transpose", "Unsqueeze"});
}

bool is_reduction(const Node& node) {
  return node.is_any({"ReduceL2", "ReduceMean", "ReduceSum", "ReduceSumSquare"});
}

// Returns true if evaluate() computes the node whatever the elements are, so that writing the model
// cannot fail. The first input and the result are floats.
bool always_evaluates(const Node& node) {
  if (!can_evaluate(node) || !node.inputs[0] || !is_floating(node.inputs[0]->dtype)) return false;
  if (!is_floating(node.outputs[0]->dtype)) return false;
  if (is_reduction(node)) return node.inputs[0]->dtype != DType::f64;
  return node.is_any({"Abs",     "Add",     "Cast",       "Concat",    "Div",      "Exp",
                      "Expand",  "Flatten", "Identity",   "Log",       "Mul",      "Neg",
                      "Pow",     "Relu",    "Reciprocal", "Reshape",   "Sigmoid",  "Sqrt",
                      "Squeeze", "Sub",     "Tanh",       "Transpose", "Unsqueeze"});
}

std::optional<int64_t> element_count(const Value& value) {
  const auto sizes = value.shape ? constant_shape(*value.shape) : std::nullopt;
  if (!sizes) return std::nullopt;
  int64_t count = 1;
  for (const int64_t size : *sizes) {
    if (__builtin_mul_overflow(count, size, &count)) return std::nullopt;
  }
  return count;
}

// The nodes that compute a value from constants.
struct Cone {
  std::vector<Node*> nodes;    // in topological order
  std::vector<Value*> leaves;  // constants
  UseCounts uses;              // of the leaves, by these nodes
};

class WeightExpressions {
 public:
  explicit WeightExpressions(onnx::Model& model) : uses_(onnx::count_uses(*model.graph)) {
    onnx::for_each_graph(*model.graph, [this](const Graph& graph) {
      for (Node* node : graph.nodes) {
        if (is_expression(*node)) results_.insert(node->outputs[0]);
      }
    });
  }

  // Replaces the operands that are expressions of a weight by constants.
  void fold_operands(Rewrite& rewrite, onnx::Model& model, Node& node) {
    if (!node.outputs.empty() && node.outputs[0] && results_.contains(node.outputs[0])) return;
    for (Value*& operand : node.inputs) {
      if (!operand || !results_.contains(operand) || rewrite.is_result(operand)) continue;
      const auto cone = cone_of(operand);
      Value* weight = cone ? consumed_weight(*cone, *operand) : nullptr;
      if (!weight) continue;
      Value* constant = add_constant(model, *cone, *operand, *weight);
      if (rewrite.replace(operand, constant)) operand = constant;
    }
  }

 private:
  bool is_expression(const Node& node) const {
    if (!always_evaluates(node)) return false;
    const auto count = element_count(*node.outputs[0]);
    return count && *count > 0 && *count <= kMost &&
           std::ranges::all_of(node.inputs, [this](const Value* input) {
             return !input || input->is_constant() || results_.contains(input);
           });
  }

  std::optional<Cone> cone_of(Value* root) const {
    Cone cone;
    std::unordered_set<const Value*> seen;
    const auto visit = [&](const auto& self, Value* value) -> bool {
      if (value->is_constant()) {
        if (cone.uses[value]++ == 0) cone.leaves.push_back(value);
        return true;
      }
      if (!seen.insert(value).second) return true;
      for (Value* input : value->producer->inputs) {
        if (input && !self(self, input)) return false;
      }
      cone.nodes.push_back(value->producer);
      return cone.nodes.size() <= kMostNodes;
    };
    if (!visit(visit, root)) return std::nullopt;
    return cone;
  }

  // Returns the large weight that the expression computes with and nothing else uses, if the result
  // takes no more memory; otherwise nullptr.
  Value* consumed_weight(const Cone& cone, const Value& root) const {
    if (std::ranges::all_of(cone.nodes, [](const Node* node) { return only_moves(*node); })) {
      return nullptr;
    }
    const int64_t bytes = *element_count(root) * item_size(root.dtype);
    for (Value* leaf : cone.leaves) {
      const TensorData& data = *leaf->constant;
      const bool is_large = is_floating(leaf->dtype) && data.numel() > kSmallWeight;
      if (is_large && data.nbytes() >= bytes && uses_.at(leaf) == cone.uses.at(leaf)) return leaf;
    }
    return nullptr;
  }

  static Value* add_constant(onnx::Model& model, const Cone& cone, const Value& root,
                             Value& weight) {
    std::vector<TensorData> sources;
    for (const Value* leaf : cone.leaves) sources.push_back(*leaf->constant);
    const auto compute = [expression = std::make_shared<const Expression>(cone.nodes, cone.leaves)](
                             std::span<const TensorData> now) {
      return expression->run(now, kMost);
    };
    const auto shape = *constant_shape(*root.shape);
    const bool takes_name = shape == weight.constant->shape;
    Value* constant = model.graph->add_initializer(
        takes_name ? weight.name : "", on_demand(root.dtype, shape, {sources, compute}));
    constant->named = takes_name && weight.named;
    if (takes_name) {
      weight.named = false;
      weight.name.clear();
    }
    return constant;
  }

  UseCounts uses_;
  std::unordered_set<const Value*> results_;  // of nodes that compute with constants only
};

}  // namespace

// An expression of a large weight that nothing else uses, like a standardized or normalized weight,
// becomes one initializer that takes no more memory. It is computed whenever it is written, so that
// one weight at a time is in memory twice, and live weights have their values at that time. It has
// the weight's name if it has its shape. Expressions that only move elements stay.
int64_t fold_weight_expressions(onnx::Model& model) {
  WeightExpressions expressions(model);
  return sweep(model, [&](Rewrite& rewrite, Graph&, Node& node) {
    expressions.fold_operands(rewrite, model, node);
  });
}

}  // namespace onnx_native::passes
