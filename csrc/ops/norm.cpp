#include "onnx/builder.h"
#include "ops/families.h"

namespace onnx_native::ops {
namespace {

// Eager accumulates 16-bit floats in float32.
DType accumulation_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

struct Moments {
  Value mean;
  Value centred;
  Value inverse_std;
};

// Over the given axes, which keep size 1.
Moments moments(Builder& b, Value x, const Ints& axes, double eps) {
  Moments m;
  m.mean = b.reduce("ReduceMean", x, axes, true);
  m.centred = b.Sub(x, m.mean);
  const Value variance = b.reduce("ReduceMean", b.Mul(m.centred, m.centred), axes, true);
  m.inverse_std = b.Reciprocal(b.Sqrt(b.Add(variance, b.like(x, eps))));
  return m;
}

// A per-channel tensor against an input of `rank` dimensions whose channels are on axis 1.
Value per_channel(Builder& b, Value v, int64_t rank) {
  Ints axes;
  for (int64_t i = 1; i < rank - 1; ++i) axes.push_back(i);
  return b.unsqueeze(v, axes);
}

Value affine(Builder& b, Value y, Value weight, Value bias) {
  if (weight) y = b.Mul(y, b.cast(weight, y->dtype));
  return bias ? b.Add(y, b.cast(bias, y->dtype)) : y;
}

// The result, its mean and its inverse standard deviation.
std::array<Value, 3> layer_norm(Builder& b, Value input, const Shape& normalized_shape,
                                std::optional<Value> weight, std::optional<Value> bias, double eps,
                                bool with_moments) {
  const auto count = static_cast<int64_t>(normalized_shape.size());
  const DType dtype = input->dtype;
  // ONNX has one dtype for the input and its parameters.
  const bool mixed = (weight && (*weight)->dtype != dtype) || (bias && (*bias)->dtype != dtype);
  const Value x = mixed ? b.cast(input, accumulation_dtype(dtype)) : input;
  const Value scale = weight ? b.cast(*weight, x->dtype) : b.full(x->dtype, 1.0, normalized_shape);
  Values inputs{x, scale};
  if (bias) inputs.push_back(b.cast(*bias, x->dtype));
  const Values outputs = b.ops("LayerNormalization", with_moments ? 3 : 1, std::move(inputs),
                               {{"axis", -count}, {"epsilon", eps}});
  if (!with_moments) return {b.cast(outputs[0], dtype), nullptr, nullptr};
  return {b.cast(outputs[0], dtype), outputs[1], outputs[2]};
}

Value batch_norm_inference(Builder& b, Value x, Value weight, Value bias, Value mean,
                           Value variance, double eps) {
  const DType parameters = weight ? weight->dtype : bias ? bias->dtype : mean->dtype;
  if (!weight) weight = b.full(parameters, 1.0, {x->dim(1)});
  if (!bias) bias = b.full(parameters, 0.0, {x->dim(1)});
  return b.op("BatchNormalization", {x, weight, b.cast(bias, parameters), mean, variance},
              {{"epsilon", eps}});
}

// Normalized by the batch's own moments over all axes but the channels'.
std::array<Value, 3> batch_norm_by_batch(Builder& b, Value input, Value weight, Value bias,
                                         double eps) {
  const Value x = b.cast(input, accumulation_dtype(input->dtype));
  Ints axes{0};
  for (int64_t i = 2; i < x->rank(); ++i) axes.push_back(i);
  const Moments m = moments(b, x, axes, eps);
  const auto spread = [&](Value v) { return v ? per_channel(b, v, x->rank()) : nullptr; };
  const Value y = affine(b, b.Mul(m.centred, m.inverse_std), spread(weight), spread(bias));
  return {b.cast(y, input->dtype), b.reshape(m.mean, {x->dim(1)}),
          b.reshape(m.inverse_std, {x->dim(1)})};
}

Value batch_norm(Builder& b, Value input, std::optional<Value> weight, std::optional<Value> bias,
                 std::optional<Value> running_mean, std::optional<Value> running_var, bool training,
                 Ignored, double eps, Ignored) {
  const Value w = weight.value_or(nullptr), c = bias.value_or(nullptr);
  if (training || !running_mean) return batch_norm_by_batch(b, input, w, c, eps)[0];
  return batch_norm_inference(b, input, w, c, *running_mean, *running_var, eps);
}

}  // namespace

void register_norm(OpTable& ops) {
  ops.def("aten::layer_norm",
          [](Builder& b, Value input, Shape normalized_shape, std::optional<Value> weight,
             std::optional<Value> bias, double eps, Ignored) {
            return layer_norm(b, input, normalized_shape, weight, bias, eps, false)[0];
          });
  ops.def("aten::native_layer_norm",
          [](Builder& b, Value input, Shape normalized_shape, std::optional<Value> weight,
             std::optional<Value> bias, double eps) {
            return layer_norm(b, input, normalized_shape, weight, bias, eps, true);
          });
  ops.def("aten::batch_norm", batch_norm);
}

}  // namespace onnx_native::ops
