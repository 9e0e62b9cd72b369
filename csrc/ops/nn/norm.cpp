#include <algorithm>
#include <array>

#include "onnx/builder.h"
#include "ops/families.h"
#include "ops/formulas/axes.h"
#include "ops/formulas/cumulative.h"
#include "ops/formulas/view.h"

namespace onnx_native::ops {
namespace {

// Eager accumulates 16-bit floats in float32.
DType statistics_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

// Casts the moments that follow the result to the dtypes that the capture records.
Results as_recorded(const Call& call, Results results) {
  for (size_t i = 1; i < results.size(); ++i) {
    const DType dtype = call.result_type(i).dtype;
    if (dtype != DType::undefined) results[i] = call.builder().cast(results[i].value, dtype);
  }
  return results;
}

struct Moments {
  Value mean;
  Value centered;
  Value inverse_std;
};

// Returns the moments over `axes`, which keep size 1.
Moments moments(Builder& b, Value x, const Ints& axes, const Number& eps) {
  Moments m;
  m.mean = b.reduce("ReduceMean", x, axes, true);
  m.centered = b.Sub(x, m.mean);
  const Value variance = b.reduce("ReduceMean", b.Mul(m.centered, m.centered), axes, true);
  m.inverse_std = b.Reciprocal(b.Sqrt(b.Add(variance, b.like(x, eps))));
  return m;
}

// Reshapes a per-channel tensor to broadcast against an input of this rank with channels on axis 1.
Value per_channel(Builder& b, Value v, int64_t rank) {
  Ints axes;
  for (int64_t i = 1; i < rank - 1; ++i) axes.push_back(i);
  return b.unsqueeze(v, axes);
}

Value affine(Builder& b, Value y, Value weight, Value bias) {
  if (weight) y = b.Mul(y, b.cast(weight, y->dtype));
  return bias ? b.Add(y, b.cast(bias, y->dtype)) : y;
}

Ints last_axes(size_t count) {
  Ints axes;
  for (auto i = -static_cast<int64_t>(count); i < 0; ++i) axes.push_back(i);
  return axes;
}

// ATen's kernel returns the moments of 16-bit floats in float32 only if a parameter is float32.
DType dtype_of_moments(Value input, std::initializer_list<Value> parameters) {
  for (const Value v : parameters)
    if (v && v->dtype == DType::f32) return statistics_dtype(input->dtype);
  return input->dtype;
}

bool known_positive(const Shape& shape) {
  return std::ranges::all_of(shape, [](const Dim& size) { return size.known_positive(); });
}

// Returns the result, and with `with_moments` its mean and inverse standard deviation.
std::array<Value, 3> layer_norm(Builder& b, Value input, const Shape& normalized_shape,
                                std::optional<Value> weight, std::optional<Value> bias,
                                const Number& eps, bool with_moments) {
  const auto count = static_cast<int64_t>(normalized_shape.size());
  const DType dtype = input->dtype;
  // ONNX Runtime rejects empty axes.
  if (is_empty(normalized_shape) && !with_moments) return {input, nullptr, nullptr};
  // ONNX requires one dtype for the input and its parameters.
  const bool mixed = (weight && (*weight)->dtype != dtype) || (bias && (*bias)->dtype != dtype);
  const Value x = mixed ? b.cast(input, statistics_dtype(dtype)) : input;
  const Value scale = weight ? b.cast(*weight, x->dtype) : b.full(x->dtype, 1.0, normalized_shape);
  if (!eps.is_constant() || !known_positive(normalized_shape)) {
    const Moments m = moments(b, b.cast(x, statistics_dtype(dtype)), last_axes(count), eps);
    const Value y = affine(b, b.Mul(m.centered, m.inverse_std), scale, bias.value_or(nullptr));
    return {b.cast(y, dtype), m.mean, m.inverse_std};
  }
  Values inputs{x, scale};
  if (bias) inputs.push_back(b.cast(*bias, x->dtype));
  const bool narrow = statistics_dtype(x->dtype) != x->dtype;
  const Values outputs = b.ops("LayerNormalization", with_moments && !narrow ? 3 : 1,
                               std::move(inputs), {{"axis", -count}, {"epsilon", eps.to_double()}});
  if (!with_moments) return {b.cast(outputs[0], dtype), nullptr, nullptr};
  if (!narrow) return {b.cast(outputs[0], dtype), outputs[1], outputs[2]};
  // Computes the moments separately, because they are often unused.
  const Moments m = moments(b, b.cast(x, statistics_dtype(dtype)), last_axes(count), eps);
  return {outputs[0], b.cast(m.mean, dtype), b.cast(m.inverse_std, dtype)};
}

Value batch_norm_inference(Builder& b, Value x, Value weight, Value bias, Value mean,
                           Value variance, const Number& eps) {
  // ONNX Runtime rejects empty tensors here, and ATen ignores their parameters.
  if (is_empty(x->known_shape())) return x;
  const DType parameters = weight ? weight->dtype : bias ? bias->dtype : mean->dtype;
  if (!weight) weight = b.full(parameters, 1.0, {x->dim(1)});
  if (!bias) bias = b.full(parameters, 0.0, {x->dim(1)});
  if (!eps.is_constant()) {
    const DType dtype = statistics_dtype(x->dtype);
    const auto wide = [&](Value v) { return per_channel(b, b.cast(v, dtype), x->rank()); };
    const Value scale = b.Reciprocal(b.Sqrt(b.Add(wide(variance), b.scalar(dtype, eps))));
    const Value y = b.Mul(b.Sub(b.cast(x, dtype), wide(mean)), b.Mul(scale, wide(weight)));
    return b.cast(b.Add(y, wide(bias)), x->dtype);
  }
  return b.op("BatchNormalization", {x, weight, b.cast(bias, parameters), mean, variance},
              {{"epsilon", eps.to_double()}});
}

// The input normalized by the batch's own moments, and the mean, inverse standard deviation and
// unbiased variance of each channel.
struct BatchNormalized {
  Value result, mean, inverse_std, variance;
};

BatchNormalized batch_norm_by_batch(Builder& b, Value input, Value weight, Value bias,
                                    const Number& eps) {
  const Value x = b.cast(input, statistics_dtype(input->dtype));
  Ints axes{0};
  Dim count = x->dim(0);
  for (int64_t i = 2; i < x->rank(); ++i) {
    axes.push_back(i);
    count = count * x->dim(i);
  }
  const Moments m = moments(b, x, axes, eps);
  const auto spread = [&](Value v) { return v ? per_channel(b, v, x->rank()) : nullptr; };
  const Value y = affine(b, b.Mul(m.centered, m.inverse_std), spread(weight), spread(bias));
  const Value unbiased = b.Div(b.reduce("ReduceSum", b.Mul(m.centered, m.centered), axes, true),
                               b.cast(b.dim_value(count - 1), x->dtype));
  const Shape channels{x->dim(1)};
  return {b.cast(y, input->dtype), b.reshape(m.mean, channels), b.reshape(m.inverse_std, channels),
          b.reshape(unbiased, channels)};
}

Value moved(Builder& b, Value running, Value observed, const Number& momentum) {
  return b.Add(b.Mul(running, b.like(running, 1 - momentum)),
               b.Mul(b.cast(observed, running->dtype), b.like(running, momentum)));
}

Value batch_norm(Builder& b, Value input, std::optional<Value> weight, std::optional<Value> bias,
                 std::optional<Value> running_mean, std::optional<Value> running_var, bool training,
                 Ignored, const Number& eps, Ignored) {
  const Value w = weight.value_or(nullptr), c = bias.value_or(nullptr);
  if (training || !running_mean) return batch_norm_by_batch(b, input, w, c, eps).result;
  return batch_norm_inference(b, input, w, c, running_mean.value(), running_var.value(), eps);
}

// Returns the result and the batch's moments; the moments are empty if running moments are used.
Results native_batch_norm(Builder& b, Value input, std::optional<Value> weight,
                          std::optional<Value> bias, std::optional<Value> running_mean,
                          std::optional<Value> running_var, bool training, Ignored,
                          const Number& eps, const Call& call) {
  const Value w = weight.value_or(nullptr), c = bias.value_or(nullptr);
  if (training || !running_mean) {
    const BatchNormalized y = batch_norm_by_batch(b, input, w, c, eps);
    const DType dtype = dtype_of_moments(
        input, {w, c, running_mean.value_or(nullptr), running_var.value_or(nullptr)});
    return as_recorded(call, {y.result, b.cast(y.mean, dtype), b.cast(y.inverse_std, dtype)});
  }
  const Value none = b.full(running_mean.value()->dtype, 0.0, {0});
  const Value y =
      batch_norm_inference(b, input, w, c, running_mean.value(), running_var.value(), eps);
  return as_recorded(call, {y, none, none});
}

// Like native_batch_norm, followed by the updated running moments.
Results native_batch_norm_functional(Builder& b, Value input, std::optional<Value> weight,
                                     std::optional<Value> bias, Value running_mean,
                                     Value running_var, bool training, const Number& momentum,
                                     const Number& eps) {
  const Value w = weight.value_or(nullptr), c = bias.value_or(nullptr);
  if (!training) {
    const Value none = b.full(running_mean->dtype, 0.0, {0});
    return {batch_norm_inference(b, input, w, c, running_mean, running_var, eps), none, none,
            running_mean, running_var};
  }
  const BatchNormalized y = batch_norm_by_batch(b, input, w, c, eps);
  const DType dtype = dtype_of_moments(input, {w, c, running_mean, running_var});
  return {y.result, b.cast(y.mean, dtype), b.cast(y.inverse_std, dtype),
          moved(b, running_mean, y.mean, momentum), moved(b, running_var, y.variance, momentum)};
}

// ONNX Runtime crashes in InstanceNormalization of an empty tensor.
bool is_never_empty(Value x) {
  const Shape& shape = x->known_shape();
  return shape[0].known_positive() && !may_be_empty(shape);
}

Value instance_normalized(Builder& b, Value x, Value weight, Value bias, const Number& eps) {
  return b.op("InstanceNormalization",
              {x, weight ? b.cast(weight, x->dtype) : b.full(x->dtype, 1.0, {x->dim(1)}),
               bias ? b.cast(bias, x->dtype) : b.full(x->dtype, 0.0, {x->dim(1)})},
              {{"epsilon", eps.to_double()}});
}

Value instance_norm(Builder& b, Value input, std::optional<Value> weight, std::optional<Value> bias,
                    std::optional<Value> running_mean, std::optional<Value> running_var,
                    bool use_input_stats, Ignored, const Number& eps, Ignored) {
  if (is_empty(input->known_shape())) return input;
  const Value w = weight.value_or(nullptr), c = bias.value_or(nullptr);
  if (!use_input_stats)
    return batch_norm_inference(b, input, w, c, running_mean.value(), running_var.value(), eps);
  if (input->dtype == DType::f32 && eps.is_constant() && is_never_empty(input))
    return instance_normalized(b, input, w, c, eps);
  const Value x = b.cast(input, statistics_dtype(input->dtype));
  Ints axes;
  for (int64_t i = 2; i < x->rank(); ++i) axes.push_back(i);
  const Moments m = moments(b, x, axes, eps);
  const auto spread = [&](Value v) { return v ? per_channel(b, v, x->rank()) : nullptr; };
  return b.cast(affine(b, b.Mul(m.centered, m.inverse_std), spread(w), spread(c)), input->dtype);
}

// Returns the channels of a tensor that is not empty as (batch, groups, members).
Value in_groups(Builder& b, Value x, const Dim& groups, const Dim& members) {
  if (!groups.is_constant()) return b.reshape(x, {x->dim(0), groups, members});
  const Value result = b.op("Reshape", {x, b.i64s({0, *groups.constant(), -1})});
  b.refine(result, {x->dim(0), groups, members});
  return result;
}

// Gives a tensor the shape of another one, with one Shape node unless the sizes are known.
Value in_shape_of(Builder& b, Value x, Value other) {
  const auto is_constant = [](const Dim& size) { return size.is_constant(); };
  const Shape& shape = other->known_shape();
  if (std::all_of(shape.begin() + 1, shape.end(), is_constant)) return b.reshape(x, shape);
  const Value result = b.op("Reshape", {x, b.op("Shape", {other})});
  b.refine(result, shape);
  return result;
}

// Returns the result, and with `with_moments` each group's mean and inverse standard deviation.
std::array<Value, 3> group_norm(Builder& b, Value input, const Dim& groups, Value weight,
                                Value bias, const Number& eps, bool with_moments) {
  if (is_empty(input->known_shape()) && !with_moments) return {input, nullptr, nullptr};
  const Shape shape = input->known_shape();
  const Shape channels = part_of(shape, 1);
  const Dim members = Dim::floor_div(numel(channels), groups);
  const bool whole = input->dtype == DType::f32 && eps.is_constant() && is_never_empty(input);
  if (whole && !with_moments && groups == shape[1] && shape.size() > 2)
    return {instance_normalized(b, input, weight, bias, eps), nullptr, nullptr};
  const bool normalizes = whole && !with_moments;
  Value x = normalizes ? in_groups(b, input, groups, members)
                       : b.reshape(input, {shape[0], groups, members});
  Value mean = nullptr, inverse_std = nullptr;
  if (normalizes) {
    // ONNX's GroupNormalization has no kernel in ONNX Runtime. Its function subtracts the squared
    // mean from the mean of the squares, so that data with a mean of 1000 and a deviation of 1 is
    // wrong by 0.45, and it takes 1.9 times as long (benchmarks/fused_operators.py).
    x = b.op("InstanceNormalization",
             {x, b.full(x->dtype, 1.0, {groups}), b.full(x->dtype, 0.0, {groups})},
             {{"epsilon", eps.to_double()}});
  } else {
    x = b.cast(x, statistics_dtype(input->dtype));
    const Moments m = moments(b, x, {-1}, eps);
    x = b.Mul(m.centered, m.inverse_std);
    const DType dtype = dtype_of_moments(input, {weight, bias});
    mean = b.cast(b.squeeze(m.mean, {-1}), dtype);
    inverse_std = b.cast(b.squeeze(m.inverse_std, {-1}), dtype);
  }
  const auto rank = static_cast<int64_t>(shape.size());
  const auto spread = [&](Value v) { return v ? per_channel(b, v, rank) : nullptr; };
  x = normalizes ? in_shape_of(b, x, input) : b.reshape(x, shape);
  const Value y = affine(b, x, spread(weight), spread(bias));
  return {b.cast(y, input->dtype), mean, inverse_std};
}

// ONNX Runtime computes RMSNormalization of 16-bit floats in float32, matching eager, but stores
// the epsilon of float64 in float32, and rejects empty rows.
bool has_rms_normalization(Builder& b, Value input, const Shape& normalized_shape,
                           const Number& eps) {
  return b.opset() >= 23 && input->dtype != DType::f64 && eps.is_constant() &&
         known_positive(normalized_shape);
}

// Returns the result and the inverse root mean square.
std::array<Value, 2> rms_norm(Builder& b, Value input, const Shape& normalized_shape,
                              std::optional<Value> weight, std::optional<Number> eps) {
  const DType dtype = input->dtype;
  const Value x = b.cast(input, statistics_dtype(dtype));
  const Number epsilon = eps.value_or(x->dtype == DType::f64 ? 0x1p-52 : 0x1p-23);
  // By default, ONNX Runtime fuses the operators from Pow to Mul, in exactly this form.
  const bool fuses = weight && x->dtype == DType::f32;
  const Value squares = fuses ? b.Pow(x, b.like(x, 2)) : b.Mul(x, x);
  const Value mean = b.reduce("ReduceMean", squares, last_axes(normalized_shape.size()), true);
  const Value root = b.Sqrt(b.Add(mean, b.like(x, epsilon)));
  const Value inverse = b.Reciprocal(root);
  if (has_rms_normalization(b, input, normalized_shape, epsilon)) {
    const bool mixed = weight && (*weight)->dtype != dtype;
    const Value scaled = mixed ? x : input;
    const Value scale =
        weight ? b.cast(*weight, scaled->dtype) : b.full(scaled->dtype, 1.0, normalized_shape);
    const auto axis = -static_cast<int64_t>(normalized_shape.size());
    const Value y = b.op("RMSNormalization", {scaled, scale},
                         {{"axis", axis}, {"epsilon", epsilon.to_double()}});
    return {b.cast(y, dtype), inverse};
  }
  Value y = fuses ? b.Div(x, root) : b.Mul(x, inverse);
  if (weight) y = b.Mul(y, b.cast(*weight, x->dtype));
  return {b.cast(y, dtype), inverse};
}

}  // namespace

void register_norm(OpTable& ops) {
  ops.def("aten::layer_norm",
          [](Builder& b, Value input, Shape normalized_shape, std::optional<Value> weight,
             std::optional<Value> bias, const Number& eps, Ignored) {
            return layer_norm(b, input, normalized_shape, weight, bias, eps, false)[0];
          });
  ops.def("aten::native_layer_norm",
          [](Builder& b, Value input, Shape normalized_shape, std::optional<Value> weight,
             std::optional<Value> bias, const Number& eps, const Call& call) {
            const auto results = layer_norm(b, input, normalized_shape, weight, bias, eps, true);
            return as_recorded(call, binder::results(results));
          });
  ops.def("aten::batch_norm", batch_norm);
  ops.def("aten::native_batch_norm", native_batch_norm);
  ops.def("aten::_native_batch_norm_legit_functional",
          [](Builder& b, Value input, std::optional<Value> weight, std::optional<Value> bias,
             Value running_mean, Value running_var, bool training, const Number& momentum,
             const Number& eps, const Call& call) {
            return as_recorded(call,
                               native_batch_norm_functional(b, input, weight, bias, running_mean,
                                                            running_var, training, momentum, eps));
          });
  ops.def("aten::_native_batch_norm_legit.no_stats",
          [](Builder& b, Value input, std::optional<Value> weight, std::optional<Value> bias,
             bool training, Ignored ignored, const Number& eps, const Call& call) {
            return native_batch_norm(b, input, weight, bias, std::nullopt, std::nullopt, training,
                                     ignored, eps, call);
          });
  ops.def("aten::_native_batch_norm_legit_no_training",
          [](Builder& b, Value input, std::optional<Value> weight, std::optional<Value> bias,
             Value running_mean, Value running_var, Ignored ignored, const Number& eps,
             const Call& call) {
            return native_batch_norm(b, input, weight, bias, running_mean, running_var, false,
                                     ignored, eps, call);
          });
  ops.def("aten::_batch_norm_with_update_functional",
          [](Builder& b, Value input, std::optional<Value> weight, std::optional<Value> bias,
             Value running_mean, Value running_var, const Number& momentum, const Number& eps,
             const Call& call) {
            Results results = native_batch_norm_functional(b, input, weight, bias, running_mean,
                                                           running_var, true, momentum, eps);
            results.insert(results.begin() + 3, b.full(DType::u8, 0, {0}));
            return as_recorded(call, std::move(results));
          });
  ops.def("aten::instance_norm", instance_norm);
  ops.def("aten::group_norm",
          [](Builder& b, Value input, Dim num_groups, std::optional<Value> weight,
             std::optional<Value> bias, const Number& eps, Ignored) {
            return group_norm(b, input, num_groups, weight.value_or(nullptr),
                              bias.value_or(nullptr), eps, false)[0];
          });
  ops.def("aten::native_group_norm", [](Builder& b, Value input, std::optional<Value> weight,
                                        std::optional<Value> bias, Ignored, Ignored, Ignored,
                                        const Dim& group, const Number& eps, const Call& call) {
    const auto results =
        group_norm(b, input, group, weight.value_or(nullptr), bias.value_or(nullptr), eps, true);
    return as_recorded(call, binder::results(results));
  });
  ops.def("aten::rms_norm", [](Builder& b, Value input, Shape normalized_shape,
                               std::optional<Value> weight, std::optional<Number> eps) {
    return rms_norm(b, input, normalized_shape, weight, eps)[0];
  });
  ops.def("aten::_fused_rms_norm",
          [](Builder& b, Value input, Shape normalized_shape, std::optional<Value> weight,
             std::optional<Number> eps, const Call& call) {
            const auto results = rms_norm(b, input, normalized_shape, weight, eps);
            return as_recorded(call, binder::results(results));
          });
}

}  // namespace onnx_native::ops
