#include "ops/formulas/compositions.h"

#include <algorithm>
#include <numbers>
#include <numeric>

#include "ops/formulas/arithmetic.h"
#include "ops/formulas/error_function.h"
#include "ops/formulas/exact_integers.h"
#include "ops/formulas/numeric.h"
#include "ops/formulas/series.h"
#include "ops/formulas/unfolded_conv.h"

namespace onnx_native::ops {
namespace {

using onnx::Node;

// Extends a function's value at |x| to an odd function of x; keeps signed zeros.
Value odd(Builder& b, Value x, Value at_magnitude) {
  const Value zero = b.like(x, 0);
  const Value signed_ = b.where(b.Less(x, zero), b.Neg(at_magnitude), at_magnitude);
  return b.where(b.Equal(x, zero), x, signed_);
}

// Returns x where it is positive, else `otherwise`, also for NaN.
Value positive_or(Builder& b, Value x, Value otherwise) {
  return b.where(b.Greater(x, b.like(x, 0)), x, otherwise);
}

// --- Trigonometric and hyperbolic functions and their inverses.

Value tan(Builder& b, Value x) { return b.Div(b.Sin(x), b.Cos(x)); }

// tan(a - b) = (tan a - tan b) / (1 + tan a tan b). The float32 result is so close that the tangent
// of the remaining angle is the angle itself.
Value atan(Builder& b, Value x) {
  const Value near = b.cast(b.op("Atan", {b.cast(x, DType::f32)}), DType::f64);
  const Value sine = b.Sin(near);
  const Value cosine = b.Cos(near);
  const Value bounded = clamped(b, x, -0x1p60, 0x1p60);
  const Value rest = b.Sub(b.Mul(bounded, cosine), sine);
  const Value sum = b.Add(near, b.Div(rest, b.Add(cosine, b.Mul(bounded, sine))));
  return b.where(not_equal(b, rest, b.like(x, 0)), sum, near);  // keeps -0.0
}

// sqrt((1 - x) (1 + x)) is 0 at the ends, where the argument of the arctangent is infinite.
Value asin(Builder& b, Value x) {
  const Value one = b.like(x, 1);
  const Value cosine = b.Sqrt(b.Mul(b.Sub(one, x), b.Add(one, x)));
  return b.where(b.Equal(x, b.like(x, 0)), x, atan(b, b.Div(x, cosine)));
}

Value acos(Builder& b, Value x) {
  const Value one = b.like(x, 1);
  return times(b, atan(b, b.Sqrt(b.Div(b.Sub(one, x), b.Add(one, x)))), 2);
}

// Squares exp(x / 2) where exp(x) would overflow.
Value sinh(Builder& b, Value x) {
  const Value a = b.Abs(x);
  const Value grown = expm1(b, a);
  const Value near = times(b, b.Add(grown, b.Div(grown, plus(b, grown, 1))), 0.5);
  const Value root = b.Exp(times(b, a, 0.5));
  const Value far = b.Mul(times(b, root, 0.5), root);
  return odd(b, x, b.where(b.Less(a, b.like(a, 22)), near, far));
}

Value cosh(Builder& b, Value x) {
  const Value root = b.Exp(times(b, b.Abs(x), 0.5));
  const Value half = times(b, root, 0.5);
  return b.Add(b.Mul(half, root), b.Div(b.Div(b.like(x, 0.5), root), root));
}

// Returns log(2 x) for a large x without overflow.
Value log_of_double(Builder& b, Value x) { return plus(b, b.Log(x), std::numbers::ln2); }

Value asinh(Builder& b, Value x) {
  const Value a = b.Abs(x);
  const Value square = b.Mul(a, a);
  const Value rest = b.Div(square, plus(b, b.Sqrt(plus(b, square, 1)), 1));
  const Value near = log1p(b, b.Add(a, rest));
  return odd(b, x, b.where(b.Greater(a, b.like(a, 0x1p28)), log_of_double(b, a), near));
}

Value acosh(Builder& b, Value x) {
  const Value t = plus(b, x, -1);
  const Value near = log1p(b, b.Add(t, b.Mul(b.Sqrt(t), b.Sqrt(plus(b, t, 2)))));
  return b.where(b.Greater(x, b.like(x, 0x1p28)), log_of_double(b, x), near);
}

Value atanh(Builder& b, Value x) {
  const Value a = b.Abs(x);
  const Value ratio = b.Div(times(b, a, 2), b.Sub(b.like(a, 1), a));
  return odd(b, x, times(b, log1p(b, ratio), 0.5));
}

// --- Activations.

// Returns log(1 + exp(x)) without overflow.
Value softplus(Builder& b, Value x) {
  return b.Add(b.Max(x, b.like(x, 0)), log1p(b, b.Exp(b.Neg(b.Abs(x)))));
}

Value sigmoid(Builder& b, Value x) { return b.Reciprocal(plus(b, b.Exp(b.Neg(x)), 1)); }
Value softsign(Builder& b, Value x) { return b.Div(x, plus(b, b.Abs(x), 1)); }
Value mish(Builder& b, Value x) { return b.Mul(x, b.Tanh(softplus(b, x))); }

Value elu(Builder& b, Value x, double alpha) {
  return positive_or(b, x, scaled(b, expm1(b, x), alpha));
}

Value hard_sigmoid(Builder& b, Value x, double alpha, double beta) {
  return clamped(b, plus(b, times(b, x, alpha), beta), 0, 1);
}

Values elu_node(Builder& b, const Node& node) {
  return {elu(b, node.inputs[0], node.attribute_float("alpha", 1))};
}

Values selu(Builder& b, const Node& node) {
  const Value y = elu(b, node.inputs[0], node.attribute_float("alpha", 1.67326319217681884765625));
  return {times(b, y, node.attribute_float("gamma", 1.05070102214813232421875))};
}

Values celu(Builder& b, const Node& node) {
  const Value x = node.inputs[0];
  const double alpha = node.attribute_float("alpha", 1);
  return {positive_or(b, x, times(b, expm1(b, b.Div(x, b.like(x, alpha))), alpha))};
}

Values leaky_relu(Builder& b, const Node& node) {
  const Value x = node.inputs[0];
  return {positive_or(b, x, times(b, x, node.attribute_float("alpha", 0.01)))};
}

Values prelu(Builder& b, const Node& node) {
  const Value x = node.inputs[0];
  return {positive_or(b, x, b.Mul(x, node.inputs[1]))};
}

Values thresholded_relu(Builder& b, const Node& node) {
  const Value x = node.inputs[0];
  const Value alpha = b.like(x, node.attribute_float("alpha", 1));
  return {b.where(b.Greater(x, alpha), x, b.like(x, 0))};
}

Values hard_sigmoid_node(Builder& b, const Node& node) {
  return {hard_sigmoid(b, node.inputs[0], node.attribute_float("alpha", 0.2),
                       node.attribute_float("beta", 0.5))};
}

Value hard_swish(Builder& b, Value x) { return b.Mul(x, hard_sigmoid(b, x, 1.0 / 6, 0.5)); }

Values gelu(Builder& b, const Node& node) {
  const Value x = node.inputs[0];
  Value inner = nullptr;
  if (node.attribute_string("approximate", "none") == "tanh") {
    const Value cubic = b.Add(x, times(b, b.Pow(x, b.like(x, 3)), 0.044715));
    inner = b.Tanh(times(b, cubic, std::numbers::sqrt2 * std::numbers::inv_sqrtpi));
  } else {
    inner = erf(b, b.Div(x, b.like(x, std::numbers::sqrt2)));
  }
  return {b.Mul(times(b, x, 0.5), plus(b, inner, 1))};
}

// --- Sums, pools and norms.

Values mean(Builder& b, const Node& node) {
  Value sum = node.inputs[0];
  for (size_t i = 1; i < node.inputs.size(); ++i) sum = b.Add(sum, node.inputs[i]);
  return {b.Div(sum, b.like(sum, static_cast<double>(node.inputs.size())))};
}

Ints axes_from(Value x, int64_t first) {
  Ints axes(std::max<int64_t>(x->rank() - first, 0));
  std::iota(axes.begin(), axes.end(), first);
  return axes;
}

Value global_average(Builder& b, Value x) {
  return b.reduce("ReduceMean", x, axes_from(x, 2), true);
}
Value global_max(Builder& b, Value x) { return b.reduce("ReduceMax", x, axes_from(x, 2), true); }

// Reshapes one number per channel to broadcast against x.
Value of_channels(Builder& b, Value v, Value x) {
  Shape shape(x->rank() - 1, 1);
  shape[0] = v->dim(0);
  return b.reshape(b.cast(v, x->dtype), shape);
}

struct Normalized {
  Value result, mean, inverse_deviation;
};

Normalized normalized(Builder& b, Value x, const Ints& axes, const Node& node) {
  const Value mean = b.reduce("ReduceMean", x, axes, true);
  const Value centered = b.Sub(x, mean);
  const Value variance = b.reduce("ReduceMean", b.Mul(centered, centered), axes, true);
  const Value deviation = b.Sqrt(plus(b, variance, node.attribute_float("epsilon", 1e-5)));
  return {b.Div(centered, deviation), mean, b.Reciprocal(deviation)};
}

Values layer_normalization(Builder& b, const Node& node) {
  const Value x = node.inputs[0];
  const int64_t first = normalize_axis(node.attribute_int("axis", -1), x->rank());
  const Normalized n = normalized(b, x, axes_from(x, first), node);
  Value y = b.Mul(n.result, node.inputs[1]);
  if (const Value bias = node.input(2)) y = b.Add(y, bias);
  Values results{y, n.mean, n.inverse_deviation};
  results.resize(node.outputs.size());
  return results;
}

Values instance_normalization(Builder& b, const Node& node) {
  const Value x = node.inputs[0];
  const Value y = normalized(b, x, axes_from(x, 2), node).result;
  return {b.Add(b.Mul(y, of_channels(b, node.inputs[1], x)), of_channels(b, node.inputs[2], x))};
}

// Inference mode only: normalizes by the running moments.
Values batch_normalization(Builder& b, const Node& node) {
  if (node.outputs.size() > 1 || node.attribute_int("training_mode", 0) != 0) return {};
  const Value x = node.inputs[0];
  if (x->rank() < 2) return {};
  const Value epsilon = b.scalar(x->dtype, node.attribute_float("epsilon", 1e-5));
  const Value deviation = b.Sqrt(b.Add(b.cast(node.inputs[4], x->dtype), epsilon));
  const Value factor = b.Div(b.cast(node.inputs[1], x->dtype), deviation);
  const Value centered = b.Sub(x, of_channels(b, node.inputs[3], x));
  return {b.Add(b.Mul(centered, of_channels(b, factor, x)), of_channels(b, node.inputs[2], x))};
}

// Keeps alpha and beta in float64; an ONNX attribute holds only a float32.
Values gemm(Builder& b, const Node& node) {
  const auto operand = [&](size_t i, std::string_view transposed) {
    const Value x = node.inputs[i];
    return node.attribute_int(transposed, 0) != 0 ? b.transpose(x, {1, 0}) : x;
  };
  Value y = b.matmul(operand(0, "transA"), operand(1, "transB"));
  y = scaled(b, y, node.attribute_float("alpha", 1));
  if (const Value c = node.input(2)) y = b.Add(y, scaled(b, c, node.attribute_float("beta", 1)));
  return {y};
}

// Adds each column element at the position of its tap in the padded image.
Values col2im(Builder& b, const Node& node) {
  const Value x = node.inputs[0];
  const auto& image = node.inputs[1]->contents;
  const auto& block = node.inputs[2]->contents;
  if (!image || !block || image->size() != block->size()) return {};
  const auto axes = static_cast<int64_t>(image->size());
  const auto ints = [&](std::string_view name, int64_t count, int64_t otherwise) {
    return node.attribute_ints(name).value_or(std::vector<int64_t>(count, otherwise));
  };
  const auto strides = ints("strides", axes, 1), dilations = ints("dilations", axes, 1);
  const auto pads = ints("pads", 2 * axes, 0);
  const Dim channels = Dim::floor_div(x->dim(1), numel(*block));
  Shape padded, places{x->dim(0), channels};
  Value index = nullptr;  // in the padded image: (taps of all axes, windows of all axes)
  for (int64_t i = 0; i < axes; ++i) {
    const Dim& size = (*image)[i];
    padded.push_back(size + pads[i] + pads[axes + i]);
    const Dim span = Dim(dilations[i]) * ((*block)[i] - 1) + 1;
    const Dim windows = Dim::floor_div(padded[i] - span, strides[i]) + 1;
    Shape taps_shape(2 * axes, 1), windows_shape(2 * axes, 1);
    taps_shape[i] = (*block)[i];
    windows_shape[axes + i] = windows;
    const Value taps = b.reshape(b.Mul(b.range((*block)[i]), b.i64(dilations[i])), taps_shape);
    const Value starts = b.reshape(b.Mul(b.range(windows), b.i64(strides[i])), windows_shape);
    const Value here = b.Add(taps, starts);
    index = index ? b.Add(b.Mul(index, b.dim_value(padded[i])), here) : here;
  }
  const Dim count = x->dim(1) * x->dim(2);
  const Dim elements = Dim::floor_div(count, channels);
  const Value rows = b.transpose(b.reshape(x, {x->dim(0) * channels, elements}), {1, 0});
  const Shape flat{numel(padded), x->dim(0) * channels};
  const Value sum =
      b.op("ScatterND", {b.full(x->dtype, 0.0, flat), b.reshape(index, {elements, 1}), rows},
           {{"reduction", "add"}});
  Shape shape{x->dim(0), channels};
  shape.insert(shape.end(), padded.begin(), padded.end());
  Value y = b.reshape(b.transpose(sum, {1, 0}), shape);
  for (int64_t i = 0; i < axes; ++i) y = b.slice(y, i + 2, pads[i], (*image)[i] + pads[i]);
  return {y};
}

template <Value (*function)(Builder&, Value)>
Values of_one(Builder& b, const Node& node) {
  return {function(b, node.inputs[0])};
}

}  // namespace

Compositions compositions() {
  Compositions all{
      {"Acos", of_one<acos>},
      {"Acosh", of_one<acosh>},
      {"Asin", of_one<asin>},
      {"Asinh", of_one<asinh>},
      {"Atan", of_one<atan>},
      {"Atanh", of_one<atanh>},
      {"BatchNormalization", batch_normalization},
      {"Celu", celu},
      {"Col2Im", col2im},
      {"Conv", unfolded_conv},
      {"ConvTranspose", unfolded_conv_transpose},
      {"Cosh", of_one<cosh>},
      {"Elu", elu_node},
      {"Erf", of_one<erf>},
      {"Gelu", gelu},
      {"Gemm", gemm},
      {"GlobalAveragePool", of_one<global_average>},
      {"GlobalMaxPool", of_one<global_max>},
      {"HardSigmoid", hard_sigmoid_node},
      {"HardSwish", of_one<hard_swish>},
      {"InstanceNormalization", instance_normalization},
      {"LayerNormalization", layer_normalization},
      {"LeakyRelu", leaky_relu},
      {"Mean", mean},
      {"Mish", of_one<mish>},
      {"PRelu", prelu},
      {"Selu", selu},
      {"Sigmoid", of_one<sigmoid>},
      {"Sinh", of_one<sinh>},
      {"Softplus", of_one<softplus>},
      {"Softsign", of_one<softsign>},
      {"Tan", of_one<tan>},
      {"ThresholdedRelu", thresholded_relu},
  };
  add_exact_integers(all);
  return all;
}

}  // namespace onnx_native::ops
