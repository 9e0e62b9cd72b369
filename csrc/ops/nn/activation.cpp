// Activation functions and softmax.
#include <algorithm>
#include <array>
#include <limits>
#include <numbers>

#include "base/dim_order.h"
#include "ops/families.h"
#include "ops/formulas/error_function.h"
#include "ops/formulas/numeric.h"
#include "ops/formulas/random.h"
#include "ops/formulas/rounding.h"

namespace onnx_native::ops {
namespace {

// Returns x where x > 0, else `otherwise`. A NaN in x selects `otherwise`.
Value positive_or(Builder& b, Value x, Value otherwise) {
  return b.where(b.Greater(x, b.like(x, 0)), x, otherwise);
}

Value relu(Builder& b, Value self) {
  if (is_floating(self->dtype)) return b.op("Relu", {self});
  return is_signed(self->dtype) ? b.Max(self, b.like(self, 0)) : self;
}

// Below opset 20 in the spelling that ONNX Runtime fuses: with a quotient, and with a power.
Value gelu(Builder& b, Value self, std::string approximate) {
  if (b.opset() >= 20) return b.op("Gelu", {self}, {{"approximate", approximate}});
  const auto number = [&](double value) { return b.like(self, value); };
  const Value half = b.Mul(self, number(0.5));
  if (approximate == "none") {
    const Value erf = b.Erf(b.Div(self, number(std::numbers::sqrt2)));
    return b.Mul(half, b.Add(erf, number(1)));
  }
  b.check(approximate == "tanh", "approximate=", approximate,
          " is not supported; expected none or tanh");
  const Value cube = b.Pow(self, number(3));
  const Value inner = b.Add(self, b.Mul(cube, number(0.044715)));
  const double factor = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  return b.Mul(half, b.Add(b.Tanh(b.Mul(inner, number(factor))), number(1)));
}

Value elu(Builder& b, Value self, Number alpha, Number scale, Number input_scale) {
  if (is_one(scale) && is_one(input_scale) && alpha.is_constant()) {
    return b.op("Elu", {self}, {{"alpha", alpha.to_double()}});
  }
  const Value negative = expm1(b, scaled(b, self, input_scale));
  const Value below = scaled(b, negative, alpha * scale);
  return b.where(b.Greater(self, b.like(self, 0)), scaled(b, self, scale), below);
}

Value celu(Builder& b, Value self, Number alpha) {
  if (is_one(alpha)) return b.op("Elu", {self}, {{"alpha", 1.0}});
  const Value below = b.Mul(b.like(self, alpha), expm1(b, b.Div(self, b.like(self, alpha))));
  return positive_or(b, self, below);
}

Value leaky_relu(Builder& b, Value self, Number negative_slope) {
  if (negative_slope.is_constant()) {
    return b.op("LeakyRelu", {self}, {{"alpha", negative_slope.to_double()}});
  }
  return positive_or(b, self, b.Mul(self, b.like(self, negative_slope)));
}

// `weight` has one slope per channel (axis 1), or one slope for all.
Value prelu(Builder& b, Value self, Value weight) {
  if (weight->rank() == 1) {
    const Dim channels = weight->dim(0);
    Shape shape = {channels};
    for (int64_t axis = 2; axis < self->rank(); ++axis) shape.emplace_back(1);
    weight = b.reshape(weight, self->rank() == 0 ? Shape{} : shape);
  }
  return b.op("PRelu", {self, weight});
}

Value rrelu(Builder& b, Value self, Number lower, Number upper, bool training) {
  if (training) {
    const Value unit = uniform(b, self->dtype, self->known_shape());
    const Value slopes = b.Add(scaled(b, unit, upper - lower), b.like(self, lower));
    return b.where(b.LessOrEqual(self, b.like(self, 0)), b.Mul(self, slopes), self);
  }
  return leaky_relu(b, self, (lower + upper) / 2);
}

Value hardtanh(Builder& b, Value self, Number min_val, Number max_val) {
  return clamped(b, self, b.like(self, min_val), b.like(self, max_val));
}

Value hardsigmoid(Builder& b, Value self) {
  return b.op("HardSigmoid", {self}, {{"alpha", 1.0 / 6}, {"beta", 0.5}});
}

Value hardswish(Builder& b, Value self) {
  const int64_t opset = b.model().final_opset.value_or(b.opset());
  // ONNX Runtime has a kernel for float32.
  if (self->dtype == DType::f32 && opset >= 14) return b.op("HardSwish", {self});
  return b.Mul(self, hardsigmoid(b, self));
}

// x * sigmoid(gate). Eager rounds once; in float16 runtimes fuse the two operators and round once
// themselves, for bfloat16 the Builder would cast around each.
Value gated(Builder& b, Value x, Value gate) {
  const DType dtype = x->dtype, wide = dtype == DType::bf16 ? DType::f32 : dtype;
  return b.cast(b.Mul(b.cast(x, wide), b.Sigmoid(b.cast(gate, wide))), dtype);
}

Value softplus(Builder& b, Value self, Number beta, Number threshold) {
  const Value x = scaled(b, self, beta);
  const Value soft = b.op("Softplus", {x});
  const Value result = is_one(beta) ? soft : b.Div(soft, b.like(x, beta));
  // Above 20, log(1 + exp(x)) rounds to x in float32, so the threshold changes nothing.
  if (threshold.is_constant() && threshold.to_double() >= 20 &&
      accumulation_dtype(self->dtype) == DType::f32)
    return result;
  return b.where(b.Greater(x, b.like(x, threshold)), self, result);
}

Value glu(Builder& b, Value self, int64_t dim) {
  const int64_t axis = normalize_axis(dim, self->rank());
  const Dim half = Dim::floor_div(self->dim(axis), 2);
  const Values parts = b.split(self, axis, {half, half});
  return gated(b, parts[0], parts[1]);
}

// Emits Softmax or LogSoftmax, which ONNX defines for floats of rank 1 or more. Eager accepts
// integers only without elements, and then keeps their dtype. Selected ones may be none.
Value softmax(Builder& b, Value self, int64_t dim, const char* onnx_op) {
  const auto is_positive = [](const Dim& size) { return known_at_least(size, 1, true); };
  if (!is_floating(self->dtype) && !std::ranges::all_of(self->known_shape(), is_positive))
    return self;
  self = b.cast(self, float_dtype(self->dtype));
  if (self->rank() == 0) {
    return b.squeeze(b.op(onnx_op, {b.unsqueeze(self, {0})}, {{"axis", 0}}), {0});
  }
  return b.op(onnx_op, {self}, {{"axis", normalize_axis(dim, self->rank())}});
}

// Like softmax, but a row that is -inf everywhere gives zeros.
Value safe_softmax(Builder& b, Value self, int64_t dim, std::optional<DType> dtype) {
  const Value x = b.cast(self, dtype);
  const Value result = softmax(b, x, dim, "Softmax");
  const Value lowest = b.like(x, -std::numeric_limits<double>::infinity());
  const Value masked = b.cast(b.Equal(x, lowest), DType::i32);
  const Value all = x->rank() == 0 ? masked : b.reduce("ReduceMin", masked, {dim}, true);
  return b.where(b.cast(all, DType::boolean), b.like(result, 0), result);
}

void register_softmax(OpTable& ops) {
  const auto with_dtype = [](const char* onnx_op) {
    return [onnx_op](Builder& b, Value self, int64_t dim, std::optional<DType> dtype) {
      return softmax(b, b.cast(self, dtype), dim, onnx_op);
    };
  };
  const auto half_to_float = [](const char* onnx_op) {
    return [onnx_op](Builder& b, Value self, int64_t dim, bool half_to_float) {
      return softmax(b, half_to_float ? b.cast(self, DType::f32) : self, dim, onnx_op);
    };
  };
  ops.def({"aten::softmax.int", "aten::special_softmax"}, with_dtype("Softmax"));
  ops.def({"aten::log_softmax.int", "aten::special_log_softmax"}, with_dtype("LogSoftmax"));
  ops.def("aten::_softmax", half_to_float("Softmax"));
  ops.def("aten::_log_softmax", half_to_float("LogSoftmax"));
  ops.def("aten::_safe_softmax", safe_softmax);
}

void register_shrinking(OpTable& ops) {
  ops.def("aten::hardshrink", [](Builder& b, Value self, Number lambd) {
    return b.where(b.LessOrEqual(b.Abs(self), b.like(self, lambd)), b.like(self, 0), self);
  });
  ops.def("aten::softshrink", [](Builder& b, Value self, Number lambd) {
    return b.Sub(self, clamped(b, self, b.like(self, -lambd), b.like(self, lambd)));
  });
  ops.def("aten::threshold", [](Builder& b, Value self, Number threshold, Number value) {
    const Value wide = b.cast(self, accumulation_dtype(self->dtype));  // eager compares in f32
    return b.where(b.LessOrEqual(wide, b.like(wide, threshold)), b.like(self, value), self);
  });
}

}  // namespace

void register_activation(OpTable& ops) {
  ops.def("aten::relu", relu);
  ops.def("aten::relu6", [](Builder& b, Value self) { return clamped(b, self, 0, 6); });
  ops.def("aten::gelu", gelu);
  ops.def("aten::silu", [](Builder& b, Value self) { return gated(b, self, self); });
  ops.unary("aten::mish", "Mish");
  ops.def("aten::elu", elu);
  ops.def("aten::selu", [](Builder& b, Value self) {
    return b.op("Selu", {self}, {{"alpha", 1.6732632423543772}, {"gamma", 1.0507009873554805}});
  });
  ops.def("aten::celu", celu);
  ops.def("aten::leaky_relu", leaky_relu);
  ops.def({"aten::prelu", "aten::_prelu_kernel"}, prelu);
  ops.def("aten::rrelu", rrelu);
  ops.def("aten::rrelu_with_noise_functional",
          [](Builder& b, Value self, Value noise, Number lower, Number upper, bool training) {
            return std::array{rrelu(b, self, lower, upper, training), noise};
          });
  ops.def("aten::hardtanh", hardtanh);
  ops.def("aten::hardsigmoid", hardsigmoid);
  ops.def("aten::hardswish", hardswish);
  ops.def("aten::softplus", rounded_once(softplus));
  ops.def("aten::log_sigmoid", log_sigmoid);
  ops.def("aten::glu", glu);
  register_shrinking(ops);
  register_softmax(ops);
}

}  // namespace onnx_native::ops
