#include "passes/compositions/importer_forms.h"

#include <algorithm>
#include <limits>
#include <numbers>
#include <numeric>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "onnx/importers.h"
#include "onnx/number.h"
#include "passes/compositions/interpolation_products.h"
#include "passes/compositions/older_operators.h"
#include "passes/match.h"

namespace onnx_native::passes {
namespace {

using onnx::Node;

// OpenCV and MNN pool sequences and images as a whole, but not volumes.
bool pools_volume(const Node& node) {
  return node.is_any({"GlobalAveragePool", "GlobalMaxPool"}) && node.inputs[0]->rank_or(-1) > 4;
}
Values reduced_volume(Builder& b, const Node& node) {
  Ints axes(static_cast<size_t>(node.inputs[0]->rank() - 2));
  std::iota(axes.begin(), axes.end(), 2);
  const auto* const op_type = node.is("GlobalMaxPool") ? "ReduceMax" : "ReduceMean";
  return {b.op(op_type, {node.inputs[0], b.i64s(axes)}, {{"keepdims", 1}})};
}

// OpenCV 4 adds only one axis at a time.
bool adds_several_axes(const Node& node) {
  return node.inputs[1]->is_constant() && node.inputs[1]->constant->integers().size() > 1 &&
         node.outputs[0]->rank_or(-1) >= 0;
}
Values unsqueeze(Builder& b, const Node& node) {
  Value x = node.inputs[0];
  Ints axes = node.inputs[1]->constant->integers();
  for (int64_t& axis : axes) axis = normalize_axis(axis, node.outputs[0]->rank());
  std::ranges::sort(axes);
  for (const int64_t axis : axes) x = b.op("Unsqueeze", {x, b.i64s({axis})});
  return {x};
}

// OpenCV takes HardSigmoid(x) * y for HardSwish(x).
Values hard_sigmoid(Builder& b, const Node& node) {
  const Value x = node.inputs[0];
  const Value slope = b.like(x, node.attribute_float("alpha", 0.2));
  const Value offset = b.like(x, node.attribute_float("beta", 0.5));
  return {b.op("Clip", {b.Add(b.Mul(x, slope), offset), b.like(x, 0), b.like(x, 1)})};
}

// OpenCV normalizes images only.
bool has_one_axis(const Node& node) { return node.inputs[0]->rank_or(-1) == 3; }
Values instance_normalization(Builder& b, const Node& node) {
  Values inputs(node.inputs.begin(), node.inputs.end());
  inputs[0] = b.unsqueeze(inputs[0], {3});
  return {b.squeeze(b.op("InstanceNormalization", inputs, node.attributes), {3})};
}

// OpenCV takes Abs and Sign of floats only.
bool is_of_integers(const Node& node) {
  return node.inputs[0]->dtype == DType::i32 || node.inputs[0]->dtype == DType::i64;
}
Values integer_abs(Builder& b, const Node& node) {
  const Value x = node.inputs[0];
  return {b.op("Max", {x, b.op("Neg", {x})})};
}
Values integer_sign(Builder& b, const Node& node) {
  const Value x = node.inputs[0];
  return {b.op("Clip", {x, b.like(x, -1), b.like(x, 1)})};
}

// OpenCV transforms axis 1, whatever the axis is, where the axis is an input.
int64_t transformed_axis(const Node& node) {
  const auto axis = node.input(2) ? node.inputs[2]->known_integers() : std::nullopt;
  const int64_t rank = node.inputs[0]->rank_or(-1);
  return axis && axis->size() == 1 && rank >= 3 ? normalize_axis((*axis)[0], rank) : 1;
}
Values dft_of_axis_1(Builder& b, const Node& node) {
  Ints order(static_cast<size_t>(node.inputs[0]->rank()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[1], order[static_cast<size_t>(transformed_axis(node))]);
  const auto swapped = [&](Value x) { return b.op("Transpose", {x}, {{"perm", order}}); };
  const Values inputs{swapped(node.inputs[0]), node.inputs[1], b.i64(1)};
  return {swapped(b.op("DFT", inputs, node.attributes))};
}

// OpenCV interpolates an image of height 1 with what lies behind it in memory.
bool interpolates_one_row(const Node& node) {
  const Value x = node.inputs[0];
  return x->rank_or(-1) == 4 && x->dim(2).equals(1) && node.input(3) && !node.attribute("axes") &&
         node.attribute_string("mode", "nearest") == "linear" &&
         node.attribute_string("keep_aspect_ratio_policy", "stretch") == "stretch" &&
         node.attribute_string("coordinate_transformation_mode", "") != "tf_crop_and_resize";
}
Values repeated_row(Builder& b, const Node& node) {
  const Value x = node.inputs[0];
  const Value sizes = node.inputs[3];
  if (x->dim(3).equals(1)) return {b.op("Expand", {x, sizes})};
  const Value height = b.op("Slice", {sizes, b.i64s({2}), b.i64s({3}), b.i64s({0})});
  const Value rows = b.op("Concat", {b.i64s({1, 1}), height, b.i64s({1})}, {{"axis", 0}});
  Values inputs(node.inputs.begin(), node.inputs.end());
  inputs[0] = b.op("Expand", {x, rows});
  return {b.op("Resize", inputs, node.attributes)};
}

// OpenCV scatters no more elements than the data has, and so does not count tokens.
bool scatters_many(const Node& node) {
  if (!node.is("ScatterElements") || node.attribute_string("reduction", "none") != "add")
    return false;
  const Value data = node.inputs[0], index = node.inputs[1];
  if (data->rank_or(-1) != 1 || index->rank_or(-1) != 1) return false;
  const auto sizes = constant_shape({data->dim(0), index->dim(0)});
  return !sizes || (*sizes)[1] > (*sizes)[0];
}

// OpenCV takes x * (erf(x / sqrt(2)) + 1) * y for GELU, and ends the process unless y is the
// constant 0.5. So that factor comes last.
struct Gelu {
  match::Var x, gate, half;

  explicit Gelu(const Node& node) {
    const auto erf = match::op("Erf", match::op("Div", x, match::number(std::numbers::sqrt2)));
    const auto halved = match::mul(x, match::both(half, match::number(0.5)));
    const auto gated = match::both(gate, match::add(erf, match::number(1)));
    if (node.is("Mul")) found = match::matches(node.outputs[0], match::mul(halved, gated));
  }
  bool found = false;
};
Values gelu(Builder& b, const Node& node) {
  const Gelu gelu(node);
  return {b.Mul(b.Mul(gelu.x, gelu.gate), gelu.half)};
}

// OpenCV computes what follows from constants when it loads a model, and fails there in layers that
// want images in blocks of channels.
bool wants_blocks(const Node& node) {
  return node.is_any({"Conv", "ConvTranspose", "MaxPool", "AveragePool"});
}
bool follows_from_constants(const Value value) {
  std::vector<Value> open{value};
  std::unordered_set<Value> seen;
  while (!open.empty()) {
    const Value next = open.back();
    open.pop_back();
    if (!next || next->is_constant() || !seen.insert(next).second) continue;
    if (!next->producer || next->producer->inputs.empty()) return false;
    open.insert(open.end(), next->producer->inputs.begin(), next->producer->inputs.end());
  }
  return true;
}
// Chooses between the constant and itself by an input of the model.
Values of_chosen_constant(Builder& b, const Node& node) {
  const auto& given = b.model().graph->inputs;
  const auto input = std::ranges::find_if(given, [](Value each) {
    return each->kind == onnx::ValueKind::tensor && each->dtype != DType::string;
  });
  if (input == given.end()) return {};
  const Value sum = b.op("ReduceSum", {b.cast(*input, DType::f32)}, {{"keepdims", 0}});
  const Value condition = b.cast(sum, DType::boolean);
  Values inputs(node.inputs.begin(), node.inputs.end());
  inputs[0] = b.op("Where", {condition, inputs[0], inputs[0]});
  return b.ops(node.op_type, node.outputs.size(), inputs, node.attributes);
}

Composer opencv(const Node& node) {
  constexpr int64_t kBeforeScatteredSums = 15;  // an opset
  if (scatters_many(node)) return composition(node, kBeforeScatteredSums);
  if (wants_blocks(node) && follows_from_constants(node.inputs[0])) return of_chosen_constant;
  if (Gelu(node).found) return gelu;
  if (node.is("Resize") && interpolates_one_row(node)) return repeated_row;
  if (onnx::has_other_scales(node))
    return interpolation_products;  // OpenCV takes the ratios of sizes
  if (pools_volume(node)) return reduced_volume;
  if (node.is("DFT") && transformed_axis(node) != 1) return dft_of_axis_1;
  if (node.is("Abs") && is_of_integers(node)) return integer_abs;
  if (node.is("Sign") && is_of_integers(node)) return integer_sign;
  if (node.is("Unsqueeze") && adds_several_axes(node)) return unsqueeze;
  if (node.is("HardSigmoid")) return hard_sigmoid;
  if (node.is("InstanceNormalization") && has_one_axis(node)) return instance_normalization;
  return nullptr;
}

// MNN ignores the axes of these reductions where they are an input.
enum class MnnReduction { l1, l2, log_sum, log_sum_exp, sum_square };
template <MnnReduction reduction>
Values reduce(Builder& b, const Node& node) {
  const Value x = node.inputs[0];
  const auto reduced = [&](std::string_view op_type, Value value, int64_t keepdims) {
    return b.op(op_type, {value, node.input(1)}, {{"keepdims", keepdims}});
  };
  const int64_t keepdims = node.attribute_int("keepdims", 1);
  const auto sum = [&](Value value) { return reduced("ReduceSum", value, keepdims); };
  switch (reduction) {
    case MnnReduction::l1:
      return {sum(b.Abs(x))};
    case MnnReduction::l2:
      return {b.Sqrt(sum(b.Mul(x, x)))};
    case MnnReduction::log_sum:
      return {b.Log(sum(x))};
    case MnnReduction::sum_square:
      return {sum(b.Mul(x, x))};
    case MnnReduction::log_sum_exp:
      break;
  }
  // The greatest element is subtracted, so that no exponential overflows; a finite one, so that
  // infinities are not subtracted from each other.
  const auto finite = [&](Value value) {
    const double greatest = max_value(x->dtype);
    return b.op("Clip", {value, b.like(x, -greatest), b.like(x, greatest)});
  };
  const Value shift = finite(reduced("ReduceMax", x, 1));
  const Value log = b.Log(sum(b.Exp(b.Sub(x, shift))));
  return {b.Add(log, keepdims != 0 ? shift : finite(reduced("ReduceMax", x, 0)))};
}

// MNN has no IsInf.
Values is_infinite(Builder& b, const Node& node) {
  const Value x = node.inputs[0];
  return {b.Equal(b.Abs(x), b.like(x, std::numeric_limits<double>::infinity()))};
}
bool detects_both_signs(const Node& node) {
  return node.attribute_int("detect_positive", 1) != 0 &&
         node.attribute_int("detect_negative", 1) != 0;
}

Composer mnn(const Node& node) {
  constexpr int64_t kBeforeMish = 17;  // an opset
  static constexpr std::pair<std::string_view, Composer> kReductions[] = {
      {"ReduceL1", reduce<MnnReduction::l1>},
      {"ReduceL2", reduce<MnnReduction::l2>},
      {"ReduceLogSum", reduce<MnnReduction::log_sum>},
      {"ReduceLogSumExp", reduce<MnnReduction::log_sum_exp>},
      {"ReduceSumSquare", reduce<MnnReduction::sum_square>}};
  for (const auto& [op_type, composer] : kReductions) {
    if (node.is(op_type) && node.input(1)) return composer;
  }
  if (pools_volume(node)) return reduced_volume;
  if (is_cubic_between_centers(node)) return interpolation_products;  // MNN gives wrong numbers
  if (node.is("IsInf") && detects_both_signs(node)) return is_infinite;
  if (node.is("Mish")) return composition(node, kBeforeMish);  // MNN has none
  return nullptr;
}

// tract splits what is combined with a comparison of positions, such as a causal mask, into the
// parts where it is true and false, and gives the parts wrong sizes if these are symbols. It does
// not split by Equal.
Value is_least(Builder& b, const Node& node, size_t operand) {
  return b.Equal(b.op("Min", {node.inputs[0], node.inputs[1]}), node.inputs[operand]);
}
Values less(Builder& b, const Node& node) { return {b.Not(is_least(b, node, 1))}; }
Values less_or_equal(Builder& b, const Node& node) { return {is_least(b, node, 0)}; }
Values greater(Builder& b, const Node& node) { return {b.Not(is_least(b, node, 0))}; }
Values greater_or_equal(Builder& b, const Node& node) { return {is_least(b, node, 1)}; }

constexpr int64_t kMinOfIntegers = 12;  // an opset; before it, Min is composed of comparisons
Composer tract(const Node& node) {
  static constexpr std::pair<std::string_view, Composer> kComparisons[] = {
      {"Less", less},
      {"LessOrEqual", less_or_equal},
      {"Greater", greater},
      {"GreaterOrEqual", greater_or_equal}};
  for (const auto& [op_type, composer] : kComparisons) {
    if (!node.is(op_type) || !is_of_integers(node)) continue;  // floats may be NaN
    const auto& shape = node.outputs[0]->shape;
    return shape && constant_shape(*shape) ? nullptr : composer;
  }
  return nullptr;
}

}  // namespace

bool has_importer_forms(Target target) {
  return target == Target::opencv || target == Target::mnn || target == Target::tract;
}

Composer importer_form(const Node& node, Target target, int64_t opset) {
  if (!node.domain.empty()) return nullptr;
  switch (target) {
    case Target::opencv:
      return opencv(node);
    case Target::mnn:
      return mnn(node);
    case Target::tract:
      return opset < kMinOfIntegers ? nullptr : tract(node);
    default:
      return nullptr;
  }
}

}  // namespace onnx_native::passes
