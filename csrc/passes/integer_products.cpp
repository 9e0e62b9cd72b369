#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/weight.h"
#include "passes/quantized_weights.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using onnx::Graph;
using onnx::Node;
using onnx::UseCounts;
using onnx::Value;

constexpr int64_t kOffset = 128;

bool is_signed_product(const Node& node) {
  if (!node.is("MatMulInteger") || node.input(2) || node.input(3)) return false;
  return node.inputs[0]->dtype == DType::i8 && node.inputs[1]->dtype == DType::i8;
}

// A MatMul of activations that the running model quantizes, with a weight.
struct DynamicProduct {
  Value *activations, *scale, *zero_point;  // uint8, with parameters of one element
  Value *weight, *weight_scales;  // int8 without zero points; one scale, or one per column
};

bool has_only_zeros(const Value* value) {
  if (!value->is_constant() || can_change(*value->constant)) return false;
  const std::vector<int64_t> elements = value->constant->integers();
  return std::ranges::all_of(elements, [](int64_t each) { return each == 0; });
}

std::optional<DynamicProduct> dynamic_product(const Node& node) {
  if (!node.is("MatMul")) return std::nullopt;
  const Node *left = node.inputs[0]->producer, *right = node.inputs[1]->producer;
  for (const Node* each : {left, right}) {
    if (!each || !each->is("DequantizeLinear") || each->attribute_int("block_size", 0) != 0)
      return std::nullopt;
    if (each->outputs[0]->dtype != DType::f32) return std::nullopt;
  }
  // Of constant scales, runtimes make products of integers themselves.
  const bool is_dynamic = left->input(2) && left->inputs[0]->dtype == DType::u8 &&
                          left->inputs[1]->rank_or(-1) == 0 && !left->inputs[1]->is_constant();
  const Value* weight = right->inputs[0];
  const bool is_weight = weight->is_constant() && weight->dtype == DType::i8 && weight->rank() == 2;
  if (!is_dynamic || !is_weight || (right->input(2) && !has_only_zeros(right->inputs[2])))
    return std::nullopt;
  const int64_t scales = right->inputs[1]->rank_or(-1);
  const int64_t axis = right->attribute_int("axis", 1);
  if (scales != 0 && (scales != 1 || (axis != 1 && axis != -1))) return std::nullopt;
  return DynamicProduct{left->inputs[0], left->inputs[1], left->inputs[2], right->inputs[0],
                        right->inputs[1]};
}

// Returns true if no element exceeds 127: then no sum of two products with int8 saturates.
bool has_seven_bits(const Value* bytes) {
  const Node* node = bytes->producer;
  const bool is_limited = node && (node->is("Min") || node->is("Clip"));
  return is_limited && std::ranges::any_of(node->inputs, [&](const Value* limit) {
           return limit && limit->is_constant() && limit->constant->numel() == 1 &&
                  !can_change(*limit->constant) && limit != node->inputs[0] &&
                  (node->is("Min") || limit == node->input(2)) &&
                  limit->constant->integer(0) < kOffset;
         });
}

// Returns the elements plus 128, which are computed whenever they are written.
TensorData with_offset(const TensorData& data) {
  const auto compute = [](std::span<const TensorData> now) -> std::optional<TensorData> {
    std::vector<std::byte> bytes;
    bytes.reserve(static_cast<size_t>(now[0].nbytes()));
    now[0].stream([&bytes](std::span<const std::byte> piece) {
      std::ranges::transform(piece, std::back_inserter(bytes),
                             [](std::byte each) { return each ^ std::byte{kOffset}; });
    });
    return make_tensor(DType::u8, now[0].shape, std::move(bytes));
  };
  return on_demand(DType::u8, data.shape, {{data}, compute});
}

class IntegerProducts {
 public:
  explicit IntegerProducts(onnx::Model& model)
      : model_(model), uses_(onnx::count_uses(*model.graph)) {
    onnx::for_each_graph(*model.graph, [this](const Graph& graph) {
      for (const Node* node : graph.nodes) {
        if (!is_signed_product(*node)) continue;
        for (const Value* operand : node->inputs) ++products_[operand];
      }
    });
  }

  void apply(Rewrite& rewrite, Node& node) {
    if (const auto product = dynamic_product(node)) return compute(rewrite, node, *product);
    if (!is_signed_product(node)) return;
    Value* weight = node.inputs[1];
    // Another use of the weight would need a second copy of it.
    if (!weight->is_constant() || uses_.at(weight) != products_[weight]) return;
    Value* activations = shifted(node, node.inputs[0]);
    Value* zero = model_.graph->add_initializer("", offset(DType::u8));
    node.inputs = {activations, shifted(weight), zero, zero};
    rewrite.set_changed();
  }

 private:
  void compute(Rewrite& rewrite, Node& node, const DynamicProduct& product) {
    std::vector<Value*> inputs{product.activations, product.weight, product.zero_point};
    if (!has_seven_bits(product.activations)) {
      if (uses_.at(product.weight) != 1 || uses_.at(node.inputs[1]) != 1) return;
      inputs[1] = shifted(product.weight);
      inputs.push_back(model_.graph->add_initializer("", offset(DType::u8)));
    }
    Value* sums = insert_before(model_, node, "MatMulInteger", std::move(inputs));
    Value* scale = insert_before(model_, node, "Mul", {product.scale, product.weight_scales});
    node.op_type = "Mul";
    node.inputs = {to(node, sums, DType::f32), scale};
    rewrite.set_changed();
  }

  Value* shifted(Value* weight) {
    Value*& made = shifted_[weight];
    if (!made) {
      made = model_.graph->add_initializer(weight->name, with_offset(*weight->constant));
      made->named = std::exchange(weight->named, false);
      weight->name.clear();
    }
    return made;
  }

  // Casts to uint8 after the addition, where no element is negative: runtimes differ there.
  Value* shifted(const Node& at, Value* activations) {
    const Node* cast = activations->producer;
    const bool is_cast = cast && cast->is("Cast") && item_size(cast->inputs[0]->dtype) >= 4;
    Value* wide = is_cast ? cast->inputs[0] : to(at, activations, DType::i32);
    Value* number = model_.graph->add_initializer("", offset(wide->dtype));
    return to(at, insert_before(model_, at, "Add", {wide, number}), DType::u8);
  }

  Value* to(const Node& at, Value* value, DType dtype) {
    return insert_before(model_, at, "Cast", {value}, {{"to", static_cast<int64_t>(dtype)}});
  }

  static TensorData offset(DType dtype) {
    return make_tensor(dtype, {}, std::vector<int64_t>{kOffset});
  }

  onnx::Model& model_;
  UseCounts uses_;
  UseCounts products_;  // that use a value
  std::unordered_map<const Value*, Value*> shifted_;
};

}  // namespace

// A MatMul of activations that the running model quantizes, with a quantized weight, becomes a
// product of integers, as in eager PyTorch. A product of int8 by an int8 weight becomes one of
// uint8 by uint8, both 128 larger, with zero points of 128: the same sums. On x86 processors
// without AVX-VNNI-INT8, ONNX Runtime computes products of int8 one element at a time, a hundred
// times slower, and those of uint8 by int8 saturate without VNNI.
int64_t use_integer_products(onnx::Model& model) {
  IntegerProducts products(model);
  return sweep(model, [&](Rewrite& rewrite, Graph&, Node& node) { products.apply(rewrite, node); });
}

}  // namespace onnx_native::passes
