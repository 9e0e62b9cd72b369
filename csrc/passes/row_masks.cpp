#include <cmath>

#include "passes/last_axis.h"
#include "passes/magnitude.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using namespace match;  // NOLINT(google-build-using-namespace)

// The factor by which a mask of Attention is moved away from the lowest number.
constexpr double kMoved = 1 - 0x1p-24;
constexpr size_t kMaskInput = 3;  // of Attention

auto infinity(double sign) {
  return where(any, [sign](const Value& value) {
    return is_scalar(value) && std::isinf(to_number(value)) && to_number(value) * sign > 0;
  });
}

auto to_boolean(const auto& inner) {
  return where(op("Cast", inner), [](const Value& value) { return value.dtype == DType::boolean; });
}

// Matches, per row, whether an element of the mask is above -inf.
auto has_open_element(Var& mask) {
  const auto open = any_of(op("Greater", mask, infinity(-1)), op("Less", infinity(-1), mask));
  const auto ones = op("Where", open, number(1), number(0));
  return to_boolean(where(op("ReduceSum", ones, any), has_last_axis));
}

class RowMasks {
 public:
  explicit RowMasks(onnx::Model& model) : uses_(model), magnitudes_(uses_) {}

  void apply(Rewrite& rewrite, Node& node) {
    if (node.is("Where")) drop_zeros(rewrite, node);
    if (node.is("Attention") && node.input(kMaskInput)) take_mask(rewrite, node);
  }

 private:
  void drop_zeros(Rewrite& rewrite, Node& node) {
    Var rows, mask;
    if (!matches(node.outputs[0], op("Where", has_open_element(mask), rows, number(0)))) return;
    if (!rows->shape || rows->shape != node.outputs[0]->shape) return;
    const auto& magnitude = magnitudes_.of(*mask);
    if (magnitude && rewrite.replace(node.outputs[0], rows)) check_weights(*magnitude);
  }

  void take_mask(Rewrite& rewrite, Node& node) {
    Var mask;
    const auto factor = where(
        any, [](const Value& value) { return is_scalar(value) && to_number(value) == kMoved; });
    if (!matches(node.inputs[kMaskInput], mul(mask, factor)) || mask->dtype != DType::f32) return;
    const auto& magnitude = magnitudes_.of(*mask);
    if (!magnitude || magnitude->most >= max_value(DType::f32)) return;
    check_weights(*magnitude);
    node.inputs[kMaskInput] = mask;
    rewrite.set_changed();
  }

  Uses uses_;
  Magnitudes magnitudes_;
};

}  // namespace

// The zeros of rows that a mask closes entirely go if all its elements are finite, so that there is
// no such row: Where(any(mask > -inf), y, 0) becomes y. A mask of Attention that cannot hold the
// lowest number is not moved away from it, as ONNX Runtime would need.
int64_t drop_row_masks(onnx::Model& model) {
  RowMasks rules(model);
  return sweep(
      model, [&rules](Rewrite& rewrite, onnx::Graph&, Node& node) { rules.apply(rewrite, node); });
}

}  // namespace onnx_native::passes
