#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using onnx::Node;
using onnx::Value;
using Ints = std::vector<int64_t>;

// Returns the order of axes of a Transpose of three or more; nullopt for other values.
std::optional<Ints> order_of(const Value* value) {
  const Node* node = value->producer;
  if (!node || !node->is("Transpose")) return std::nullopt;
  auto order = node->attribute_ints("perm");
  return order && order->size() >= 3 ? order : std::nullopt;
}

// Returns true for an order that moves the first axis behind all batch axes.
bool is_late(const Ints& order) {
  const size_t rank = order.size();
  Ints moved(rank);
  std::iota(moved.begin(), moved.end(), 1);
  moved[rank - 1] = 0;  // the order that moves it to the end
  if (order == moved) return true;
  std::swap(moved[rank - 1], moved[rank - 2]);
  return order == moved;
}

// Returns the order of the nearest Transpose above, which ONNX Runtime may merge with one of the
// value, because it moves it down through operators that keep the rank.
std::optional<Ints> order_above(const Value* value) {
  constexpr int kFarthest = 64;
  for (int i = 0; i < kFarthest && value && value->producer; ++i) {
    if (auto order = order_of(value)) return order;
    const int64_t rank = value->rank_or(-1);
    const auto& inputs = value->producer->inputs;
    const auto next = std::ranges::find_if(inputs, [rank](const Value* input) {
      return input && !input->is_constant() && input->rank_or(-2) == rank;
    });
    value = next == inputs.end() ? nullptr : *next;
  }
  return std::nullopt;
}

// The Transpose of an operand, and whether one above it may be merged into it.
struct Turned {
  Ints order;
  bool alone = true;
};

// Returns nullopt unless the operand's axes are, or may come to be, in an order that is_late.
std::optional<Turned> late(const Value* operand) {
  const auto order = order_of(operand);
  if (!order) return std::nullopt;
  const auto above = order_above(operand->producer->inputs[0]);
  if (!above) return is_late(*order) ? std::optional(Turned{*order}) : std::nullopt;
  Ints merged;
  for (const int64_t axis : *order) merged.push_back((*above)[static_cast<size_t>(axis)]);
  if (!is_late(*order) && !is_late(merged)) return std::nullopt;
  return Turned{.order = *order, .alone = false};
}

// Returns true for a constant, also if the product transposes it.
bool is_constant_weight(const Value* value) {
  const Node* node = value->producer;
  return value->is_constant() || (node && node->is("Transpose") && node->inputs[0]->is_constant());
}

class LateTransposes {
 public:
  explicit LateTransposes(onnx::Model& model) : model_(model) {
    onnx::for_each_graph(*model.graph, [this](const onnx::Graph& graph) {
      for (const Node* node : graph.nodes) {
        if (node->is("MatMul") && std::ranges::any_of(node->inputs, is_constant_weight))
          multiplied_.insert(node->inputs.begin(), node->inputs.end());
      }
    });
  }

  void apply(Rewrite& rewrite, Node& node) {
    if (node.is("Cast")) cast_first(rewrite, node);
    if (node.is("MatMul") && node.outputs[0]->dtype == DType::f16) turn(rewrite, node);
  }

 private:
  Value* transposed(const Node& at, Value* value, Ints order) {
    if (std::ranges::is_sorted(order)) return value;
    return insert_before(model_, at, "Transpose", {value}, {{"perm", std::move(order)}});
  }

  void cast_first(Rewrite& rewrite, Node& node) {
    if (!multiplied_.contains(node.outputs[0])) return;
    const auto operand = late(node.inputs[0]);
    if (!operand) return;
    Value* value =
        insert_before(model_, node, "Cast", {node.inputs[0]->producer->inputs[0]}, node.attributes);
    rewrite.replace_all(node, node.outputs[0], transposed(node, value, operand->order));
  }

  void turn(Rewrite& rewrite, Node& node) {
    for (const size_t side : {0, 1}) {
      Value* weight = node.inputs[1 - side];
      const auto operand = late(node.inputs[side]);
      if (!operand || !is_constant_weight(weight) || !weight->shape) continue;
      const size_t rank = operand->order.size(), of_weight = weight->shape->size();
      if (side == 0 && of_weight == 2 && operand->alone) {
        swap_batch_axes(rewrite, node, operand->order);
      } else if (rank != of_weight) {
        Ints added(std::max(rank, of_weight) - std::min(rank, of_weight));
        std::iota(added.begin(), added.end(), 0);
        Value*& smaller = node.inputs[rank < of_weight ? side : 1 - side];
        smaller =
            insert_before(model_, node, "Unsqueeze", {smaller, model_.graph->add_integers(added)});
        rewrite.set_changed();
      }
      return;
    }
  }

  void swap_batch_axes(Rewrite& rewrite, Node& node, Ints order) {
    Value* source = node.inputs[0]->producer->inputs[0];
    Ints back(order.size());
    std::iota(back.begin(), back.end(), 0);
    std::swap(back[0], back[1]);
    std::swap(order[0], order[1]);
    Value* operand = transposed(node, source, std::move(order));
    Value* product = insert_before(model_, node, "MatMul", {operand, node.inputs[1]});
    rewrite.replace_all(node, node.outputs[0], transposed(node, product, std::move(back)));
  }

  onnx::Model& model_;
  std::unordered_set<const Value*> multiplied_;  // operands of products with weights
};

}  // namespace

// For ONNX Runtime, whose default optimizations (1.31) crash on a Transpose that moves the first
// axis behind all batch axes, a Cast, and a product with a constant of another rank. The Cast goes
// before the Transpose. ONNX Runtime itself casts around a float16 product: a product with a matrix
// is computed with its first two axes swapped, and transposed afterwards; another, and one whose
// Transpose may be merged with one above it, gets operands of equal rank.
int64_t move_transposes_late(onnx::Model& model) {
  LateTransposes rule(model);
  return sweep(model,
               [&](Rewrite& rewrite, onnx::Graph&, Node& node) { rule.apply(rewrite, node); });
}

}  // namespace onnx_native::passes
