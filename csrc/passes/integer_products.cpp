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
using onnx::Value;
using Uses = std::unordered_map<const Value*, int64_t>;

constexpr int64_t kOffset = 128;

bool is_signed_product(const Node& node) {
  if (!node.is("MatMulInteger") || node.input(2) || node.input(3)) return false;
  return node.inputs[0]->dtype == DType::i8 && node.inputs[1]->dtype == DType::i8;
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

class UnsignedProducts {
 public:
  explicit UnsignedProducts(onnx::Model& model)
      : model_(model), uses_(onnx::count_uses(*model.graph)) {
    onnx::for_each_graph(*model.graph, [this](const Graph& graph) {
      for (const Node* node : graph.nodes) {
        if (!is_signed_product(*node)) continue;
        for (const Value* operand : node->inputs) ++products_[operand];
      }
    });
  }

  void apply(Rewrite& rewrite, Node& node) {
    if (!is_signed_product(node)) return;
    Value* weight = node.inputs[1];
    // What else uses the weight would need it a second time.
    if (!weight->is_constant() || uses_.at(weight) != products_[weight]) return;
    Value* activations = shifted(node, node.inputs[0]);
    Value* zero = model_.graph->add_initializer("", offset(DType::u8));
    node.inputs = {activations, shifted(weight), zero, zero};
    rewrite.set_changed();
  }

 private:
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
    const bool is_cast = cast && cast->is("Cast") && item_size(cast->inputs[0]->dtype) > 1;
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
  Uses uses_;
  Uses products_;  // that use a value
  std::unordered_map<const Value*, Value*> shifted_;
};

}  // namespace

// A product of int8 by an int8 weight becomes one of uint8 by uint8, both 128 larger, with zero
// points of 128: the same sums. On x86 processors without AVX-VNNI-INT8, ONNX Runtime computes
// products of int8 one element at a time, a hundred times slower, and those of uint8 by int8
// saturate without VNNI.
int64_t shift_integer_products(onnx::Model& model) {
  UnsignedProducts products(model);
  return sweep(model, [&](Rewrite& rewrite, Graph&, Node& node) { products.apply(rewrite, node); });
}

}  // namespace onnx_native::passes
