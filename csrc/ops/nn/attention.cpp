#include <array>
#include <cmath>
#include <cstdint>

#include "onnx/builder.h"
#include "ops/families.h"
#include "ops/formulas/fused_attention.h"
#include "ops/formulas/mask.h"
#include "ops/formulas/numeric.h"
#include "ops/formulas/random.h"

namespace onnx_native::ops {
namespace {

// The number to add to each score, and the rows with at least one unmasked score (nullptr: all
// rows). Eager returns zeros for the other rows.
struct Mask {
  Value addend = nullptr;
  Value open_rows = nullptr;
};

// Returns -inf above the diagonal, 0 elsewhere.
Value causal_addend(Builder& b, const Dim& rows, const Dim& columns, DType dtype) {
  const Value masked = b.full(DType::f32, -kInfinity, {rows, columns});
  return b.cast(b.op("Trilu", {masked, b.i64(1)}, {{"upper", 1}}), dtype);
}

Mask given_mask(Builder& b, Value mask, DType dtype) {
  const Value rows = every_row_open(mask) ? nullptr : open_rows(b, mask);
  if (mask->dtype != DType::boolean) return {b.cast(mask, dtype), rows};
  return {b.where(mask, b.scalar(dtype, 0.0), b.scalar(dtype, -kInfinity)), rows};
}

Value scaled_query(Builder& b, Value query, std::optional<Number> scale) {
  if (!scale) {
    const Dim& width = query->dim(-1);
    if (auto size = width.constant()) {
      scale = 1.0 / std::sqrt(static_cast<double>(*size));
    } else {
      return b.Div(query, b.Sqrt(b.cast(b.dim_value(width), query->dtype)));
    }
  }
  return is_one(*scale) ? query : b.Mul(query, b.like(query, *scale));
}

struct Attended {
  Value output;
  Value weights;
  Value scores;  // masked
};

// Replaces rows that are masked entirely by zeros.
Value zero_masked_rows(Builder& b, Value rows, Value open_rows) {
  return open_rows ? b.where(open_rows, rows, b.like(rows, 0.0)) : rows;
}

Attended attend(Builder& b, Value query, Value key, Value value, const Mask& mask,
                std::optional<Number> scale, const Number& dropout_p) {
  Value scores = b.matmul(scaled_query(b, query, scale), b.swap_axes(key, -2, -1));
  if (mask.addend) scores = b.Add(scores, mask.addend);
  Value weights = b.softmax(scores, -1);
  if (!is_zero(dropout_p)) weights = dropped(b, weights, dropout_p).result;
  // Masks the rows of each result apart: the weights are often unused, and most outputs have fewer
  // elements.
  return {zero_masked_rows(b, b.matmul(weights, value), mask.open_rows),
          zero_masked_rows(b, weights, mask.open_rows), scores};
}

// The heads of queries and keys whose keys serve `group` query heads each.
struct Groups {
  Dim key_heads;
  Dim group;
  // One query per head: the heads of a group take the place of the queries, so that the products
  // need no further axis.
  bool is_single_query;
};

// Groups query heads by key head: (..., heads, L, E) -> (..., key heads, group, L, E), or without
// the axis L of a single query.
Value grouped(Builder& b, Value query, const Groups& groups) {
  Shape shape = query->known_shape();
  b.check(shape.size() >= 3, "enable_gqa requires at least 3 dimensions, got ", shape.size());
  const auto heads = shape.end() - 3;
  *heads = groups.key_heads;
  if (groups.is_single_query) {
    *(heads + 1) = groups.group;
  } else {
    shape.insert(heads + 1, groups.group);
  }
  return b.reshape(query, shape);
}

// Reshapes a mask for (..., heads, L, S) scores to broadcast to grouped ones.
Value grouped_mask(Builder& b, Value mask, const Groups& groups) {
  if (!mask || mask->rank() < 3) return mask;
  if (!mask->dim(-3).equals(1)) return grouped(b, mask, groups);
  return groups.is_single_query ? mask : b.unsqueeze(mask, {-4});
}

Attended grouped_attention(Builder& b, Value query, Value key, Value value,
                           std::optional<Value> attn_mask, const Number& dropout_p, bool is_causal,
                           std::optional<Number> scale, bool enable_gqa) {
  b.check(!(attn_mask && is_causal), "attn_mask and is_causal cannot be combined");
  Mask mask;
  if (attn_mask) mask = given_mask(b, *attn_mask, query->dtype);
  if (is_causal) mask.addend = causal_addend(b, query->dim(-2), key->dim(-2), query->dtype);
  if (!enable_gqa || query->dim(-3) == key->dim(-3))
    return attend(b, query, key, value, mask, scale, dropout_p);

  const Dim& key_heads = key->dim(-3);
  b.check(key_heads == value->dim(-3), "key and value must have the same number of heads");
  const Groups groups{key_heads, Dim::floor_div(query->dim(-3), key_heads),
                      query->dim(-2).equals(1)};
  const auto for_groups = [&](Value v) {
    return groups.is_single_query ? v : b.unsqueeze(v, {-3});
  };
  mask = {grouped_mask(b, mask.addend, groups), grouped_mask(b, mask.open_rows, groups)};
  const Attended result = attend(b, grouped(b, query, groups), for_groups(key), for_groups(value),
                                 mask, scale, dropout_p);
  const auto ungrouped = [&](Value v) {
    Shape shape = query->known_shape();
    shape.back() = v->dim(-1);
    return b.reshape(v, shape);
  };
  return {ungrouped(result.output), ungrouped(result.weights), ungrouped(result.scores)};
}

// Matches eager, which keeps the scores of 16-bit floats in float32. In 16 bits, the rounding error
// of a large score can exceed 1, which softmax exponentiates.
Attended attention(Builder& b, Value query, Value key, Value value, std::optional<Value> attn_mask,
                   const Number& dropout_p, bool is_causal, std::optional<Number> scale,
                   bool enable_gqa) {
  const auto wide = [&b](Value v) { return b.cast(v, accumulation_dtype(v->dtype)); };
  const Attended y = grouped_attention(b, wide(query), wide(key), wide(value), attn_mask, dropout_p,
                                       is_causal, scale, enable_gqa);
  return {b.cast(y.output, query->dtype), b.cast(y.weights, query->dtype), y.scores};
}

// Multiplies the rows that a bool mask masks entirely by 0, which ONNX Runtime does in half the
// time of Where. The weights of these rows must be numbers, so the lowest one masks instead of
// -inf.
Value attention_with_bool_mask(Builder& b, Value query, Value key, Value value, Value mask,
                               const Number& dropout_p, std::optional<Number> scale,
                               bool enable_gqa) {
  const Value addend = b.where(mask, b.like(query, 0), b.like(query, lowest_value(query->dtype)));
  const Value y =
      attention(b, query, key, value, addend, dropout_p, false, scale, enable_gqa).output;
  return every_row_open(mask) ? y : b.Mul(y, open_rows_as(b, mask, y->dtype));
}

// Returns the input of Unsqueeze, Expand and Reshape that repeat each key head for several query
// heads; `repeated` itself otherwise.
Value without_repeats(Value repeated) {
  const auto producer = [](Value v, std::string_view op_type) {
    const onnx::Node* node = v ? v->producer : nullptr;
    return node && node->is(op_type) ? node->inputs[0] : nullptr;
  };
  const Value grouped = producer(repeated, "Reshape");
  const Value single = producer(grouped, "Expand");
  const Value heads = producer(single, "Unsqueeze");
  if (!heads || heads->rank_or(-1) != 4 || grouped->rank_or(-1) != 5) return repeated;
  const Shape& from = heads->known_shape();
  const Dim group = grouped->dim(2);
  const bool repeats = grouped->known_shape() == Shape{from[0], from[1], group, from[2], from[3]} &&
                       single->known_shape() == Shape{from[0], from[1], 1, from[2], from[3]} &&
                       repeated->known_shape() == Shape{from[0], from[1] * group, from[2], from[3]};
  return repeats ? heads : repeated;
}

// Returns true for a mask that changes neither the numbers nor the shape of the result.
bool has_no_effect(Value mask, Value query, Value key) {
  if (!never_masks(mask) || mask->rank_or(INT64_MAX) > query->rank()) return false;
  Shape scores = query->known_shape();
  scores.back() = key->dim(-2);
  for (int64_t axis = 1; axis <= mask->rank(); ++axis)
    if (!mask->dim(-axis).equals(1) && mask->dim(-axis) != scores.end()[-axis]) return false;
  return true;
}

Value scaled_dot_product_attention(Builder& b, Value query, Value key, Value value,
                                   std::optional<Value> attn_mask, const Number& dropout_p,
                                   bool is_causal, std::optional<Number> scale, bool enable_gqa) {
  b.check(!(attn_mask && is_causal), "attn_mask together with is_causal");
  const Value own_key = without_repeats(key), own_value = without_repeats(value);
  // In a decoder's step, most of the time goes into the copies.
  if (own_key != key && own_key->dim(1) == own_value->dim(1) && query->rank() == 4) {
    key = own_key;
    value = own_value;
    enable_gqa = true;
  }
  if (attn_mask && has_no_effect(*attn_mask, query, key)) attn_mask = std::nullopt;
  if (is_zero(dropout_p)) {
    const AttentionCall call{query,     key,   value,     attn_mask.value_or(nullptr),
                             is_causal, scale, enable_gqa};
    if (const Value y = fused_attention(b, call)) return y;
  }
  if (attn_mask && (*attn_mask)->dtype == DType::boolean &&
      (query->dtype == DType::f32 || query->dtype == DType::f64))
    return attention_with_bool_mask(b, query, key, value, *attn_mask, dropout_p, scale, enable_gqa);
  return attention(b, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa).output;
}

// Specific kernels, which a captured program may call by name.

std::array<Value, 2> attention_math(Builder& b, Value query, Value key, Value value,
                                    std::optional<Value> attn_mask, const Number& dropout_p,
                                    bool is_causal, std::optional<Value> dropout_mask,
                                    std::optional<Number> scale, bool enable_gqa) {
  b.check(!dropout_mask, "`dropout_mask` is not supported");
  // This kernel adds a bool mask to the scores as 0 and 1.
  if (attn_mask) attn_mask = b.cast(*attn_mask, accumulation_dtype(query->dtype));
  const Attended y =
      attention(b, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa);
  return {y.output, y.weights};
}

std::array<Value, 2> flash_attention_for_cpu(Builder& b, Value query, Value key, Value value,
                                             const Number& dropout_p, bool is_causal,
                                             std::optional<Value> attn_mask,
                                             std::optional<Number> scale) {
  const Attended y = attention(b, query, key, value, attn_mask, dropout_p, is_causal, scale, false);
  const DType dtype = query->dtype == DType::f64 ? DType::f64 : DType::f32;
  return {y.output, b.reduce("ReduceLogSumExp", b.cast(y.scores, dtype), {-1}, false)};
}

}  // namespace

void register_attention(OpTable& ops) {
  ops.def("aten::scaled_dot_product_attention", scaled_dot_product_attention);
  ops.def("aten::_scaled_dot_product_attention_math", attention_math);
  ops.def("aten::_scaled_dot_product_flash_attention_for_cpu", flash_attention_for_cpu);
}

}  // namespace onnx_native::ops
