// Dropout. In training, the runtime draws random masks; otherwise, the input stays.
#include <array>
#include <optional>

#include "ops/families.h"
#include "ops/formulas/numeric.h"
#include "ops/formulas/random.h"

namespace onnx_native::ops {
namespace {

// Returns the shape of the mask: one number per element, or per channel if `by_feature`.
Shape noise_shape(Builder& b, Value input, bool by_feature) {
  Shape shape = input->known_shape();
  if (!by_feature) return shape;
  b.check(shape.size() >= 2, "feature dropout requires an input with at least 2 dimensions");
  for (size_t axis = 2; axis < shape.size(); ++axis) shape[axis] = 1;
  return shape;
}

// Returns ones where the input is kept, zeros where it is dropped.
Value kept(Builder& b, Value input, const Number& p, bool by_feature) {
  const Value ones = b.full(DType::f32, 1, noise_shape(b, input, by_feature));
  return b.cast(dropped(b, ones, p).kept, input->dtype);
}

Value feature_dropout(Builder& b, Value input, const Number& p) {
  if (is_one(p)) return b.Mul(input, b.like(input, 0));
  return b.Mul(input, b.Div(kept(b, input, p, true), b.like(input, 1 - p)));
}

// Preserves the mean and variance of SELU's outputs (Klambauer et al., 2017, section 2.3): dropped
// elements become SELU's lower limit -alpha, and the result is scaled and shifted.
Value alpha_dropout(Builder& b, Value input, const Number& p, bool by_feature) {
  if (is_one(p)) return b.Mul(input, b.like(input, 0));
  constexpr double kAlpha = 1.7580993408473766;
  const Value noise = kept(b, input, p, by_feature);
  const Value variance = b.like(noise, (kAlpha * kAlpha * p + 1) * (1 - p));
  const Value scale = b.Reciprocal(b.Sqrt(variance));
  const Value low = b.Mul(b.Sub(noise, b.like(noise, 1)), b.Mul(scale, b.like(noise, kAlpha)));
  const Value shift = b.Add(low, b.Mul(scale, b.like(noise, kAlpha * p)));
  return b.Add(b.Mul(input, b.Mul(noise, scale)), shift);
}

void define(OpTable& ops, std::string_view op,
            Value (*in_training)(Builder&, Value, const Number&)) {
  ops.def(op, [in_training](Builder& b, Value input, const Number& p, bool train) {
    return train && !is_zero(p) ? in_training(b, input, p) : input;
  });
}

}  // namespace

void register_dropout(OpTable& ops) {
  define(ops, "aten::dropout",
         [](Builder& b, Value input, const Number& p) { return dropped(b, input, p).result; });
  define(ops, "aten::feature_dropout", feature_dropout);
  define(ops, "aten::alpha_dropout", [](Builder& b, Value input, const Number& p) {
    return alpha_dropout(b, input, p, false);
  });
  define(ops, "aten::feature_alpha_dropout",
         [](Builder& b, Value input, const Number& p) { return alpha_dropout(b, input, p, true); });
  ops.def("aten::native_dropout",
          [](Builder& b, Value input, const Number& p, std::optional<bool> train) {
            if (train.value_or(true)) {
              const Dropped d = dropped(b, input, p);
              return std::array{d.result, d.kept};
            }
            return std::array{input, filled_like(b, input, DType::boolean, true)};
          });
}

}  // namespace onnx_native::ops
