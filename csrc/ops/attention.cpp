#include <cmath>
#include <limits>

#include "onnx/builder.h"
#include "ops/families.h"

namespace onnx_native::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What the scores get added, and the rows in which nothing is masked out entirely (nullptr: all);
// eager gives zeros for the others.
struct Mask {
  Value addend = nullptr;
  Value open_rows = nullptr;
};

// -inf above the diagonal, 0 elsewhere.
Value causal_addend(Builder& b, const Dim& rows, const Dim& columns, DType dtype) {
  const Value masked = b.full(DType::f32, -kInfinity, {rows, columns});
  return b.cast(b.op("Trilu", {masked, b.i64(1)}, {{"upper", 1}}), dtype);
}

Mask given_mask(Builder& b, Value mask, DType dtype) {
  Mask result;
  if (mask->dtype == DType::boolean) {
    result.addend = b.where(mask, b.scalar(dtype, 0.0), b.scalar(dtype, -kInfinity));
    const Value seen = b.reduce("ReduceMax", b.cast(mask, DType::i32), {-1}, true);
    result.open_rows = b.cast(seen, DType::boolean);
  } else {
    result.addend = b.cast(mask, dtype);
    result.open_rows =
        b.Greater(b.reduce("ReduceMax", result.addend, {-1}, true), b.scalar(dtype, -kInfinity));
  }
  return result;
}

Value scaled(Builder& b, Value query, std::optional<double> scale) {
  if (!scale) {
    const Dim& width = query->dim(-1);
    if (auto size = width.constant()) {
      scale = 1.0 / std::sqrt(static_cast<double>(*size));
    } else {
      return b.Div(query, b.Sqrt(b.cast(b.dim_value(width), query->dtype)));
    }
  }
  return *scale == 1.0 ? query : b.Mul(query, b.like(query, *scale));
}

struct Attended {
  Value output;
  Value weights;
};

Attended attend(Builder& b, Value query, Value key, Value value, const Mask& mask,
                std::optional<double> scale) {
  Value scores = b.matmul(scaled(b, query, scale), b.swap_axes(key, -2, -1));
  if (mask.addend) scores = b.Add(scores, mask.addend);
  Value weights = b.softmax(scores, -1);
  if (mask.open_rows) weights = b.where(mask.open_rows, weights, b.like(weights, 0.0));
  return {b.matmul(weights, value), weights};
}

// Query heads in groups, one per key head: (..., heads, L, E) -> (..., key heads, group, L, E).
Value grouped(Builder& b, Value query, const Dim& key_heads, const Dim& group) {
  Shape shape = *b.known_shape(query);
  const auto heads = shape.end() - 3;
  *heads = key_heads;
  shape.insert(heads + 1, group);
  return b.reshape(query, shape);
}

// A mask for (..., heads, L, S) scores, made to fit (..., key heads, group, L, S).
Value grouped_mask(Builder& b, Value mask, const Dim& key_heads, const Dim& group) {
  if (mask->rank() < 3) return mask;
  return mask->dim(-3).equals(1) ? b.unsqueeze(mask, {-4}) : grouped(b, mask, key_heads, group);
}

Value scaled_dot_product_attention(Builder& b, Value query, Value key, Value value,
                                   std::optional<Value> attn_mask, double dropout_p, bool is_causal,
                                   std::optional<double> scale, bool enable_gqa) {
  b.check(dropout_p == 0, "dropout_p other than 0");
  b.check(!(attn_mask && is_causal), "attn_mask together with is_causal");
  Mask mask;
  if (attn_mask) mask = given_mask(b, *attn_mask, query->dtype);
  if (is_causal) mask.addend = causal_addend(b, query->dim(-2), key->dim(-2), query->dtype);
  if (!enable_gqa || query->dim(-3) == key->dim(-3))
    return attend(b, query, key, value, mask, scale).output;

  const Dim key_heads = key->dim(-3), group = Dim::floor_div(query->dim(-3), key_heads);
  b.check(key_heads == value->dim(-3), "key and value with different numbers of heads");
  Shape result = *b.known_shape(query);
  result.back() = value->dim(-1);
  if (mask.addend) mask.addend = grouped_mask(b, mask.addend, key_heads, group);
  if (mask.open_rows) mask.open_rows = grouped_mask(b, mask.open_rows, key_heads, group);
  const Value output = attend(b, grouped(b, query, key_heads, group), b.unsqueeze(key, {-3}),
                              b.unsqueeze(value, {-3}), mask, scale)
                           .output;
  return b.reshape(output, result);
}

}  // namespace

void register_attention(OpTable& ops) {
  ops.def("aten::scaled_dot_product_attention", scaled_dot_product_attention);
}

}  // namespace onnx_native::ops
