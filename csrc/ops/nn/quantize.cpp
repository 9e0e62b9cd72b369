// Quantization: the operators of PyTorch's quantization flows (quantized_decomposed, fake
// quantization), and quantized tensors as far as torch.export captures them.
#include <cmath>
#include <limits>

#include "base/weight.h"
#include "ops/families.h"
#include "ops/formulas/cumulative.h"
#include "ops/formulas/numeric.h"
#include "ops/nn/quantize_affine.h"

namespace onnx_native::ops {
namespace {

// Maps real numbers to integers in [low, high]: round(x / scale) + zero_point. The scale and the
// zero point are 0-d, or 1-d with one element per index of `axis`.
struct Affine {
  Value scale;
  Value zero_point;  // nullptr: 0
  Value low, high;   // 0-d int64
  std::optional<int64_t> axis = std::nullopt;
};

bool holds(DType dtype, const Number& low, const Number& high) {
  return lowest_value(dtype) <= low.to_double() && high.to_double() <= max_value(dtype);
}

// Returns true if QuantizeLinear and DequantizeLinear support the dtype.
bool is_linear(const Builder& b, DType dtype) {
  if (dtype == DType::i8 || dtype == DType::u8) return true;
  return (dtype == DType::i16 || dtype == DType::u16) && b.opset() >= 21;
}

std::optional<int64_t> known(Value v) {
  if (!has_elements(v->constant) || v->constant->numel() != 1) return std::nullopt;
  return v->constant->integer(0);
}

// Reshapes a 1-d parameter to broadcast along its axis of x.
Value along(Builder& b, Value parameter, Value x, const Affine& q) {
  if (!q.axis) return parameter;
  Shape shape(static_cast<size_t>(x->rank()), 1);
  shape[static_cast<size_t>(normalize_axis(*q.axis, x->rank()))] = parameter->dim(0);
  return b.reshape(parameter, shape);
}

std::vector<onnx::Attribute> axis_of(const Affine& q) {
  if (!q.axis) return {};
  return {{"axis", *q.axis}};
}

Value clamped_to(Builder& b, Value x, const Affine& q) {
  const DType dtype = x->dtype;
  return clamped(b, x, b.cast(q.low, dtype), b.cast(q.high, dtype));
}

// Returns the integers before clamping: round(x / scale) + zero_point. A floating-point zero point
// is added before rounding.
Value unclamped(Builder& b, Value x, const Affine& q) {
  const Value steps = b.Mul(x, along(b, b.Reciprocal(q.scale), x, q));
  if (!q.zero_point) return b.Round(steps);
  const Value zero_point = b.cast(along(b, q.zero_point, x, q), x->dtype);
  return is_floating(q.zero_point->dtype) ? b.Round(b.Add(steps, zero_point))
                                          : b.Add(b.Round(steps), zero_point);
}

// Clamps a bound to the range of the dtype, because a cast would wrap it.
Value saturated(Builder& b, Value bound, DType dtype) {
  const auto number = known(bound);
  if (bound->dtype == dtype || (number && holds(dtype, *number, *number))) return bound;
  return clamped(b, b.cast(bound, DType::f32), lowest_value(dtype), max_value(dtype));
}

Value quantized(Builder& b, Value x, Affine q, DType dtype) {
  if (item_size(x->dtype) == 2) x = b.cast(x, DType::f32);
  q.scale = b.cast(q.scale, x->dtype);
  const auto zero = q.zero_point ? known(q.zero_point) : std::optional<int64_t>(0);
  const bool fits = !zero || holds(dtype, *zero, *zero);
  if (!is_linear(b, dtype) || x->dtype != DType::f32 || !fits)
    return b.cast(clamped_to(b, unclamped(b, x, q), q), dtype);
  const Value zero_point = q.zero_point ? b.cast(q.zero_point, dtype) : b.scalar(dtype, 0);
  const Value y = b.op("QuantizeLinear", {x, q.scale, zero_point}, axis_of(q));
  const auto low = known(q.low), high = known(q.high);
  const bool whole = low && high && *low <= lowest_value(dtype) && max_value(dtype) <= *high;
  if (whole) return y;
  q.low = saturated(b, q.low, dtype);
  q.high = saturated(b, q.high, dtype);
  return clamped_to(b, y, q);
}

// (x - zero_point) * scale, rounded to `dtype` at each step.
Value dequantized(Builder& b, Value x, const Affine& q, DType dtype) {
  const auto zero = q.zero_point ? known(q.zero_point) : std::optional<int64_t>(0);
  const bool fits = !zero || holds(x->dtype, *zero, *zero);
  const bool plain = x->dtype == DType::i32 && zero == 0;
  if (dtype == DType::f32 && ((is_linear(b, x->dtype) && fits) || plain)) {
    Values inputs{x, b.cast(q.scale, dtype)};
    if (q.zero_point && !plain) inputs.push_back(b.cast(q.zero_point, x->dtype));
    return b.op("DequantizeLinear", std::move(inputs), axis_of(q));
  }
  const DType compute = accumulation_dtype(dtype);
  Value y = b.cast(x, compute);
  if (q.zero_point) y = b.cast(b.Sub(y, b.cast(along(b, q.zero_point, x, q), compute)), dtype);
  return b.cast(b.Mul(b.cast(y, compute), b.cast(along(b, q.scale, x, q), compute)), dtype);
}

// --- quantized_decomposed.

Value one(Builder& b, Value parameter) { return b.reshape(parameter, {}); }

struct Bounds {
  int64_t low, high;
};

Bounds bounds_of(Builder& b, int64_t low, int64_t high) {
  b.check(low <= high, "quant_min must be at most quant_max, got ", low, " and ", high);
  return {low, high};
}

Affine per_tensor(Builder& b, const Number& scale, int64_t zero_point, const Bounds& bounds) {
  return {b.scalar(DType::f32, scale), zero_point == 0 ? nullptr : b.i64(zero_point),
          b.i64(bounds.low), b.i64(bounds.high)};
}

Affine per_tensor(Builder& b, Value scale, Value zero_point, const Bounds& bounds) {
  return {one(b, scale), one(b, zero_point), b.i64(bounds.low), b.i64(bounds.high)};
}

Affine channel_affine(Builder& b, Value scales, std::optional<Value> zero_points, int64_t axis,
                      const Bounds& bounds) {
  return {scales, zero_points.value_or(nullptr), b.i64(bounds.low), b.i64(bounds.high), axis};
}

void register_per_tensor(OpTable& ops) {
  ops.def("quantized_decomposed::quantize_per_tensor", [](Builder& b, Value input, double scale,
                                                          int64_t zero_point, int64_t quant_min,
                                                          int64_t quant_max, DType dtype) {
    return quantized(b, input, per_tensor(b, scale, zero_point, {quant_min, quant_max}), dtype);
  });
  ops.def(
      "quantized_decomposed::quantize_per_tensor.tensor",
      [](Builder& b, Value input, Value scale, Value zero_point, int64_t quant_min,
         int64_t quant_max, DType dtype) {
        return quantized(b, input, per_tensor(b, scale, zero_point, {quant_min, quant_max}), dtype);
      });
  ops.def("quantized_decomposed::quantize_per_tensor.tensor2",
          [](Builder& b, Value input, Value scale, Value zero_point, Value quant_min,
             Value quant_max, DType dtype) {
            const Affine q{one(b, scale), one(b, zero_point), one(b, quant_min), one(b, quant_max)};
            return quantized(b, input, q, dtype);
          });
  ops.def("quantized_decomposed::dequantize_per_tensor",
          [](Builder& b, Value input, const Number& scale, int64_t zero_point, int64_t quant_min,
             int64_t quant_max, Ignored, std::optional<DType> out_dtype) {
            return dequantized(b, input, per_tensor(b, scale, zero_point, {quant_min, quant_max}),
                               out_dtype.value_or(DType::f32));
          });
  ops.def("quantized_decomposed::dequantize_per_tensor.tensor",
          [](Builder& b, Value input, Value scale, Value zero_point, int64_t quant_min,
             int64_t quant_max, Ignored, std::optional<DType> out_dtype) {
            return dequantized(b, input, per_tensor(b, scale, zero_point, {quant_min, quant_max}),
                               out_dtype.value_or(DType::f32));
          });
  ops.def("quantized_decomposed::dequantize_per_tensor.tensor2",
          [](Builder& b, Value input, Value scale, Value zero_point, Ignored, Ignored, Ignored,
             std::optional<DType> out_dtype) {
            return dequantized(b, input, per_tensor(b, scale, zero_point, {0, 0}),
                               out_dtype.value_or(DType::f32));
          });
}

void register_per_channel(OpTable& ops) {
  ops.def("quantized_decomposed::quantize_per_channel",
          [](Builder& b, Value input, Value scales, Value zero_points, int64_t axis,
             int64_t quant_min, int64_t quant_max, DType dtype) {
            return quantized(b, input,
                             channel_affine(b, scales, zero_points, axis, {quant_min, quant_max}),
                             dtype);
          });
  ops.def("quantized_decomposed::dequantize_per_channel",
          [](Builder& b, Value input, Value scales, std::optional<Value> zero_points, int64_t axis,
             int64_t quant_min, int64_t quant_max, Ignored, std::optional<DType> out_dtype) {
            return dequantized(b, input,
                               channel_affine(b, scales, zero_points, axis, {quant_min, quant_max}),
                               out_dtype.value_or(DType::f32));
          });
}

// round(x * (1 / scales) + zero_points); the parameters broadcast against x.
Value quantized_at_once(Builder& b, Value x, Value scales, Value zero_points, const Bounds& bounds,
                        DType dtype) {
  const DType compute = promote_types(x->dtype, scales->dtype);
  const Value steps = b.Mul(b.cast(x, compute), b.cast(b.Reciprocal(scales), compute));
  const Value y = b.Round(b.Add(steps, b.cast(zero_points, compute)));
  return b.cast(clamped(b, y, static_cast<double>(bounds.low), static_cast<double>(bounds.high)),
                dtype);
}

Value dequantized_at_once(Builder& b, Value x, std::optional<Value> zero_points, Value scales,
                          DType dtype) {
  if (zero_points) {
    const DType difference = promote_types(x->dtype, (*zero_points)->dtype);
    x = b.Sub(b.cast(x, difference), b.cast(*zero_points, difference));
  }
  const DType compute = promote_types(x->dtype, scales->dtype);
  return b.cast(b.Mul(b.cast(x, compute), b.cast(scales, compute)), dtype);
}

// Splits each row into groups and returns one row per group: (groups, group size).
Value group_rows(Builder& b, Value x, Value scales, int64_t group_size) {
  const Dim& columns = x->dim(-1);
  const bool one_group = scales->dim(-1).equals(1) && columns.constant_or(group_size) < group_size;
  const Dim size = one_group ? columns : Dim(group_size);
  return b.reshape(x, {Dim::floor_div(numel(x->known_shape()), size), size});
}

Value parameter_column(Builder& b, Value parameters) {
  return b.reshape(parameters, {numel(parameters->known_shape()), 1});
}

void register_groups_and_tokens(OpTable& ops) {
  ops.def("quantized_decomposed::quantize_per_channel_group",
          [](Builder& b, Value input, Value scales, Value zero_points, int64_t quant_min,
             int64_t quant_max, DType dtype, int64_t group_size) {
            const Value groups = group_rows(b, input, scales, group_size);
            const Value y =
                quantized_at_once(b, groups, parameter_column(b, scales),
                                  parameter_column(b, zero_points), {quant_min, quant_max}, dtype);
            return b.reshape(y, input->known_shape());
          });
  ops.def("quantized_decomposed::dequantize_per_channel_group",
          [](Builder& b, Value input, Value scales, std::optional<Value> zero_points, Ignored,
             Ignored, Ignored, int64_t group_size, DType output_dtype) {
            const Value groups = group_rows(b, input, scales, group_size);
            if (zero_points) zero_points = parameter_column(b, *zero_points);
            const Value y = dequantized_at_once(b, groups, zero_points, parameter_column(b, scales),
                                                output_dtype);
            return b.reshape(y, input->known_shape());
          });
  ops.def("quantized_decomposed::quantize_per_token",
          [](Builder& b, Value input, Value scales, Value zero_points, int64_t quant_min,
             int64_t quant_max, DType dtype) {
            return quantized_at_once(b, input, scales, zero_points, {quant_min, quant_max}, dtype);
          });
  ops.def("quantized_decomposed::dequantize_per_token",
          [](Builder& b, Value input, Value scales, Value zero_points, Ignored, Ignored, Ignored,
             DType output_dtype) {
            return dequantized_at_once(b, input, zero_points, scales, output_dtype);
          });
}

// --- Parameters chosen from the range of a tensor.

struct Extremes {
  Value low, high;  // low <= 0 <= high
};

Extremes extremes(Builder& b, Value x, const Ints& axes, bool keepdims) {
  return {b.Min(b.reduce("ReduceMin", x, axes, keepdims), b.like(x, 0.0)),
          b.Max(b.reduce("ReduceMax", x, axes, keepdims), b.like(x, 0.0))};
}

Value scale_of(Builder& b, Value range, double steps, const Number& eps) {
  const Value scale = b.cast(b.Div(range, b.like(range, steps)), DType::f32);
  return b.reshape(b.Max(scale, b.scalar(DType::f32, eps)), {1});
}

Results choose_qparams(Builder& b, Value input, int64_t quant_min, int64_t quant_max,
                       const Number& eps, Ignored) {
  const auto [low, high] = extremes(b, input, {}, false);
  const Value scale =
      scale_of(b, b.Sub(high, low), static_cast<double>(quant_max - quant_min), eps);
  const Value steps = b.cast(b.Round(b.Div(b.cast(low, DType::f32), scale)), DType::i32);
  const Value zero = b.Sub(b.scalar(DType::i32, quant_min), steps);
  return {b.cast(scale, DType::f64),
          b.cast(clamped(b, zero, static_cast<double>(quant_min), static_cast<double>(quant_max)),
                 DType::i64)};
}

Results choose_qparams_symmetric(Builder& b, Value input, int64_t quant_min, int64_t quant_max,
                                 const Number& eps, DType dtype) {
  const auto [low, high] = extremes(b, input, {}, false);
  const Value scale =
      scale_of(b, b.Max(b.Neg(low), high), static_cast<double>(quant_max - quant_min) / 2, eps);
  return {b.cast(scale, DType::f64), b.full(DType::i64, dtype == DType::u8 ? 128 : 0, {1})};
}

Results choose_qparams_per_token(Builder& b, Value input, DType dtype) {
  b.check(dtype == DType::i8, "expected dtype i8, got ", name(dtype));
  Value scales = b.reduce("ReduceMax", b.Abs(input), {-1}, true);
  if (scales->dtype == DType::f16) scales = b.cast(scales, DType::f32);
  scales = b.Div(b.Max(scales, b.like(scales, 1e-5)), b.like(scales, 127.0));
  return {b.cast(scales, DType::f64), b.full(DType::i64, 0, scales->known_shape())};
}

Results choose_qparams_per_token_asymmetric(Builder& b, Value input, Ignored) {
  const double low_bound = -128, high_bound = 127;
  const auto [low, high] = extremes(b, input, {-1}, true);
  const auto number = [&](double v) { return b.like(input, v); };
  const Value scale =
      b.Max(b.Div(b.Sub(high, low), number(high_bound - low_bound)), number(0x1p-23));
  const Value descaled_low = b.Div(low, scale), descaled_high = b.Div(high, scale);
  const Value error =
      b.Add(b.Add(number(low_bound), descaled_low), b.Add(number(high_bound), descaled_high));
  const Value zero = b.where(b.Greater(error, number(0.0)), b.Sub(number(low_bound), descaled_low),
                             b.Sub(number(high_bound), descaled_high));
  return {b.cast(scale, DType::f64),
          b.cast(b.Round(clamped(b, zero, low_bound, high_bound)), DType::i64)};
}

void register_choices(OpTable& ops) {
  ops.def("quantized_decomposed::choose_qparams.tensor", choose_qparams);
  ops.def("quantized_decomposed::choose_qparams_symmetric.tensor", choose_qparams_symmetric);
  ops.def("quantized_decomposed::choose_qparams_per_token", choose_qparams_per_token);
  ops.def("quantized_decomposed::choose_qparams_per_token_asymmetric",
          choose_qparams_per_token_asymmetric);
}

// --- Fake quantization: quantizes and dequantizes, so that the result is a real number again.

// Returns the narrowest dtype of QuantizeLinear that holds the bounds; nullopt if none does.
std::optional<DType> storage(Builder& b, const Bounds& bounds) {
  for (DType dtype : {DType::u8, DType::i8, DType::u16, DType::i16}) {
    if (is_linear(b, dtype) && holds(dtype, bounds.low, bounds.high)) return dtype;
  }
  return std::nullopt;
}

Value fake_quantized(Builder& b, Value x, Affine q, const Bounds& bounds) {
  const auto integer =
      q.zero_point && is_floating(q.zero_point->dtype) ? std::nullopt : storage(b, bounds);
  if (x->dtype == DType::f32 && integer) {
    q.scale = b.cast(q.scale, x->dtype);
    return dequantized(b, quantized(b, x, q, *integer), q, x->dtype);
  }
  const DType dtype = x->dtype;
  x = b.cast(x, accumulation_dtype(dtype));
  q.scale = b.cast(q.scale, x->dtype);
  Value y = clamped_to(b, unclamped(b, x, q), q);
  if (q.zero_point) y = b.Sub(y, b.cast(along(b, q.zero_point, x, q), x->dtype));
  return b.cast(b.Mul(y, along(b, q.scale, x, q)), dtype);
}

// Returns true for each element that quantization does not clamp.
Value kept(Builder& b, Value x, Affine q) {
  x = b.cast(x, accumulation_dtype(x->dtype));
  q.scale = b.cast(q.scale, x->dtype);
  const Value y = unclamped(b, x, q);
  return b.And(b.GreaterOrEqual(y, b.cast(q.low, x->dtype)),
               b.LessOrEqual(y, b.cast(q.high, x->dtype)));
}

// Returns the value of a flag, a tensor of one element; nullopt if only the running model knows it.
std::optional<bool> flag(Value v) {
  const auto number = known(v);
  return number ? std::optional(*number != 0) : std::nullopt;
}

// Returns `result` if the flag `enabled` is set, else x.
Value when(Builder& b, Value enabled, Value result, Value x) {
  if (const auto on = flag(enabled)) return *on ? result : x;
  return b.where(b.cast(one(b, enabled), DType::boolean), result, x);
}

// Rounds a learned zero point and clamps it to the bounds.
Value learned(Builder& b, Value zero_point, const Bounds& bounds) {
  const Value zero = b.Floor(b.Add(zero_point, b.like(zero_point, 0.5)));
  return b.cast(clamped(b, zero, static_cast<double>(bounds.low), static_cast<double>(bounds.high)),
                DType::i64);
}

// --- Fake quantization with the moving averages of an observer.

struct Observed {
  Value low, high;  // float32; one element, or one per row
};

// Moves the running extremes toward those of x; extremes that are still infinite become those of x.
Observed observed(Builder& b, Value x, const Observed& running, const Number& averaging,
                  bool per_row) {
  Ints axes;
  for (int64_t axis = per_row ? 1 : 0; axis < x->rank(); ++axis) axes.push_back(axis);
  const auto moved = [&](Value old, std::string_view reduction) {
    const Value now =
        b.reshape(b.cast(b.reduce(reduction, x, axes, false), old->dtype), old->known_shape());
    const Value step = b.Mul(b.Sub(now, old), b.like(old, averaging));
    return b.where(b.op("IsInf", {old}), now, b.Add(old, step));
  };
  return {moved(running.low, "ReduceMin"), moved(running.high, "ReduceMax")};
}

// Returns the scale and zero point for the extremes, like ATen's ChooseQuantizationParams.
Affine chosen(Builder& b, const Observed& seen, const Bounds& bounds, bool symmetric) {
  const auto number = [&](double v) { return b.scalar(DType::f64, v); };
  const auto bottom = static_cast<double>(bounds.low), top = static_cast<double>(bounds.high);
  Value low = b.cast(seen.low, DType::f64), high = b.cast(seen.high, DType::f64);
  const Value around_zero = b.And(b.Less(low, number(0.0)), b.Greater(high, number(0.0)));
  if (symmetric) {
    const int64_t steps = (bounds.high - bounds.low) / 2;
    const auto half = static_cast<double>(steps);
    const Value step = b.Max(b.Div(b.Abs(low), number(half + 1)), b.Div(b.Abs(high), number(half)));
    low = b.where(around_zero, b.Mul(step, number(-half - 1)), low);
    high = b.where(around_zero, b.Mul(step, number(half)), high);
  }
  low = b.Min(low, number(0.0));
  high = b.Max(high, number(0.0));
  Value scale = b.Div(b.Sub(high, low), number(top - bottom));
  // Below this scale, the reciprocal is infinite in float32.
  const double least = 1 / static_cast<double>(std::numeric_limits<float>::max());
  scale = b.where(b.Less(scale, number(least)), number(0.1), scale);
  const Value below = b.Div(low, scale), above = b.Div(high, scale);
  const Value low_error = b.Sub(number(std::abs(bottom)), b.Abs(below));
  const Value high_error = b.Sub(number(std::abs(top)), b.Abs(above));
  Value zero = b.where(b.Less(low_error, high_error), b.Sub(number(bottom), below),
                       b.Sub(number(top), above));
  if (symmetric) zero = b.where(around_zero, number((bottom + top) / 2), zero);
  zero = b.Round(b.Min(b.Max(zero, number(bottom)), number(top)));
  const double smallest = static_cast<double>(6.1e-5F);
  return {b.cast(b.Max(scale, number(smallest)), DType::f32), b.cast(zero, DType::i32),
          b.i64(bounds.low), b.i64(bounds.high)};
}

// Returns the result, its mask, and the observer's new state.
Results moving_average_fake_quantized(Builder& b, Value self, Value observer_on,
                                      Value fake_quant_on, Value running_min, Value running_max,
                                      Value scale, Value zero_point, const Number& averaging_const,
                                      int64_t quant_min, int64_t quant_max, int64_t ch_axis,
                                      bool per_row_fake_quant, bool symmetric_quant) {
  b.check(!per_row_fake_quant || ch_axis == 0, "ch_axis must be 0, got ", ch_axis);
  b.check(!numel(running_min->known_shape()).equals(0),
          "the observer has no range yet; run the model on data before the export");
  const Dim states = per_row_fake_quant ? self->dim(0) : Dim(1);
  for (const Value state : {running_min, running_max, scale, zero_point}) {
    const Dim count = numel(state->known_shape());
    b.check(count == states || !count.constant() || !states.constant(),
            "the observer's state must have ", states.str(), " elements, got ", count.str());
  }
  const Bounds bounds = bounds_of(b, quant_min, quant_max);
  Observed seen{running_min, running_max};
  if (flag(observer_on) != false) {
    const Observed now = observed(b, self, seen, averaging_const, per_row_fake_quant);
    seen = {when(b, observer_on, now.low, seen.low), when(b, observer_on, now.high, seen.high)};
  }
  Affine q = chosen(b, seen, bounds, symmetric_quant);
  const auto as = [&](Value v, Value like) {
    return b.cast(b.reshape(v, like->known_shape()), like->dtype);
  };
  const Results state{seen.low, seen.high, when(b, fake_quant_on, as(q.scale, scale), scale),
                      when(b, fake_quant_on, as(q.zero_point, zero_point), zero_point)};
  if (per_row_fake_quant) {
    q.axis = 0;
  } else {
    q.scale = one(b, q.scale);
    q.zero_point = one(b, q.zero_point);
  }
  const Value all = filled_like(b, self, DType::boolean, true);
  Results results{when(b, fake_quant_on, fake_quantized(b, self, q, bounds), self),
                  when(b, fake_quant_on, kept(b, self, q), all)};
  results.insert(results.end(), state.begin(), state.end());
  return results;
}

void register_fake(OpTable& ops) {
  ops.def("aten::fake_quantize_per_tensor_affine",
          [](Builder& b, Value self, const Number& scale, int64_t zero_point, int64_t quant_min,
             int64_t quant_max) {
            const Bounds bounds = bounds_of(b, quant_min, quant_max);
            return fake_quantized(b, self, per_tensor(b, scale, zero_point, bounds), bounds);
          });
  ops.def("aten::fake_quantize_per_tensor_affine.tensor_qparams",
          [](Builder& b, Value self, Value scale, Value zero_point, int64_t quant_min,
             int64_t quant_max) {
            const Bounds bounds = bounds_of(b, quant_min, quant_max);
            return fake_quantized(b, self, per_tensor(b, scale, zero_point, bounds), bounds);
          });
  ops.def(
      {"aten::fake_quantize_per_channel_affine", "quantized_decomposed::fake_quant_per_channel"},
      [](Builder& b, Value self, Value scale, Value zero_point, int64_t axis, int64_t quant_min,
         int64_t quant_max) {
        const Bounds bounds = bounds_of(b, quant_min, quant_max);
        return fake_quantized(b, self, channel_affine(b, scale, zero_point, axis, bounds), bounds);
      });
  ops.def("aten::fake_quantize_per_tensor_affine_cachemask",
          [](Builder& b, Value self, const Number& scale, int64_t zero_point, int64_t quant_min,
             int64_t quant_max) -> Values {
            const Bounds bounds = bounds_of(b, quant_min, quant_max);
            const Affine q = per_tensor(b, scale, zero_point, bounds);
            return {fake_quantized(b, self, q, bounds), kept(b, self, q)};
          });
  ops.def("aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
          [](Builder& b, Value self, Value scale, Value zero_point, Value fake_quant_enabled,
             int64_t quant_min, int64_t quant_max) -> Values {
            const Bounds bounds = bounds_of(b, quant_min, quant_max);
            const Affine q = per_tensor(b, scale, zero_point, bounds);
            const Value all = filled_like(b, self, DType::boolean, true);
            return {when(b, fake_quant_enabled, fake_quantized(b, self, q, bounds), self),
                    when(b, fake_quant_enabled, kept(b, self, q), all)};
          });
  ops.def("aten::fake_quantize_per_channel_affine_cachemask",
          [](Builder& b, Value self, Value scale, Value zero_point, int64_t axis, int64_t quant_min,
             int64_t quant_max) -> Values {
            const Bounds bounds = bounds_of(b, quant_min, quant_max);
            const Affine q = channel_affine(b, scale, zero_point, axis, bounds);
            return {fake_quantized(b, self, q, bounds), kept(b, self, q)};
          });
  ops.def("aten::_fake_quantize_learnable_per_tensor_affine",
          [](Builder& b, Value self, Value scale, Value zero_point, int64_t quant_min,
             int64_t quant_max, Ignored) {
            const Bounds bounds = bounds_of(b, quant_min, quant_max);
            const Value zero = learned(b, zero_point, bounds);
            return fake_quantized(b, self, per_tensor(b, scale, zero, bounds), bounds);
          });
  ops.def("aten::_fake_quantize_learnable_per_channel_affine",
          [](Builder& b, Value self, Value scale, Value zero_point, int64_t axis, int64_t quant_min,
             int64_t quant_max, Ignored) {
            const Bounds bounds = bounds_of(b, quant_min, quant_max);
            const Value zero = learned(b, zero_point, bounds);
            return fake_quantized(b, self, channel_affine(b, scale, zero, axis, bounds), bounds);
          });
  ops.def("aten::_fused_moving_avg_obs_fq_helper_functional", moving_average_fake_quantized);
}

// --- Quantized tensors: represented by the real numbers that they stand for, so that operators on
// them are those on real numbers.

Bounds bounds_of(Builder& b, const Call& call, size_t dtype_argument) {
  switch (call.dtype(dtype_argument)) {
    case DType::u8:
      return {0, 255};
    case DType::i8:
      return {-128, 127};
    case DType::i32:
      return {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
    default:
      b.unsupported("quantized dtypes of less than 8 bits are not supported");
  }
}

void register_tensors(OpTable& ops) {
  ops.def("aten::quantize_per_tensor", [](Builder& b, Value self, const Number& scale,
                                          int64_t zero_point, Ignored, const Call& call) {
    const Bounds bounds = bounds_of(b, call, 3);
    Affine q = per_tensor(b, scale, zero_point, bounds);
    // ATen's kernels add the zero point before they round, which matters if it is odd.
    if (q.zero_point && zero_point % 2 != 0) q.zero_point = b.cast(q.zero_point, DType::f32);
    return fake_quantized(b, self, q, bounds);
  });
  ops.def("aten::dequantize.self", [](Builder&, Value self) { return self; });
}

}  // namespace

void register_quantize(OpTable& ops) {
  register_per_tensor(ops);
  register_per_channel(ops);
  register_groups_and_tokens(ops);
  register_choices(ops);
  ops.def("quantized_decomposed::convert_element_type.no_fuse",
          [](Builder& b, Value input, DType dtype) { return b.cast(input, dtype); });
  register_fake(ops);
  register_tensors(ops);
  register_quantize_affine(ops);
}

}  // namespace onnx_native::ops
