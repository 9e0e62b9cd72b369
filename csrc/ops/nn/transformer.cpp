// The fused operators that torch.nn.TransformerEncoderLayer and MultiheadAttention call in
// inference mode.
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "onnx/builder.h"
#include "ops/families.h"
#include "ops/formulas/error_function.h"

namespace onnx_native::ops {
namespace {

// The axes of the (batch, heads, rows, columns) scores that `mask` covers.
enum MaskType : int64_t { kOfRowsAndColumns, kOfColumns, kOfAll };

struct Attention {
  Dim width;
  int64_t heads;
  Value qkv_weight, qkv_bias, out_weight, out_bias;
  std::optional<Value> mask;
  std::optional<int64_t> mask_type;
};

Value fully_connected(Builder& b, Value x, Value weight, Value bias) {
  return b.Add(b.matmul(x, b.transpose(weight, {1, 0})), bias);
}

// Returns a mask, true where a score is left out, that broadcasts to (batch, heads, rows, columns).
Value spread_mask(Builder& b, const Attention& a) {
  const Value mask = b.cast(*a.mask, DType::boolean);  // a number other than 0 masks
  const int64_t type = a.mask_type.value_or((*a.mask)->rank() == 2 ? kOfRowsAndColumns : kOfAll);
  return type == kOfColumns ? b.unsqueeze(mask, {1, 2}) : mask;
}

struct AttendedHeads {
  Value output;
  Value weights;  // (batch, heads, rows, columns)
};

AttendedHeads attend_in_heads(Builder& b, Value query, Value key, Value value, const Attention& a) {
  b.check(a.heads > 0, "the number of heads must be positive, got ", a.heads);
  const Dim head = Dim::floor_div(a.width, a.heads);
  const auto size = head.constant();
  b.check(size.has_value(), "the head size (embed_dim / num_heads) must be constant");
  // Returns (batch, heads, length, head width).
  const auto projected = [&](Value x, int64_t part) {
    const Dim from = Dim(part) * a.width, to = Dim(part + 1) * a.width;
    const Value y =
        fully_connected(b, x, b.slice(a.qkv_weight, 0, from, to), b.slice(a.qkv_bias, 0, from, to));
    return b.transpose(b.reshape(y, {x->dim(0), x->dim(1), a.heads, head}), {0, 2, 1, 3});
  };
  const Value q = projected(query, 0);
  const double scale = 1.0 / std::sqrt(static_cast<double>(*size));
  Value scores = b.matmul(b.Mul(q, b.like(q, scale)), b.swap_axes(projected(key, 1), 2, 3));
  Value mask = nullptr;
  if (a.mask) {
    mask = spread_mask(b, a);
    scores = b.where(mask, b.like(scores, -std::numeric_limits<double>::infinity()), scores);
  }
  const Value weights = b.softmax(scores, -1);
  const Value joined = b.transpose(b.matmul(weights, projected(value, 2)), {0, 2, 1, 3});
  const Value flat = b.reshape(joined, {query->dim(0), query->dim(1), a.width});
  return {fully_connected(b, flat, a.out_weight, a.out_bias), weights};
}

std::array<Value, 2> multi_head_attention(Builder& b, Value query, Value key, Value value,
                                          Dim embed_dim, int64_t num_head, Value qkv_weight,
                                          Value qkv_bias, Value proj_weight, Value proj_bias,
                                          std::optional<Value> mask, bool need_weights,
                                          bool average_attn_weights,
                                          std::optional<int64_t> mask_type) {
  const AttendedHeads attended = attend_in_heads(
      b, query, key, value,
      {embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, mask_type});
  if (!need_weights) return {attended.output, nullptr};
  return {attended.output, average_attn_weights
                               ? b.reduce("ReduceMean", attended.weights, {1}, false)
                               : attended.weights};
}

Value exact_gelu(Builder& b, Value x) {
  const Value erf = b.Erf(b.Div(x, b.like(x, std::numbers::sqrt2)));
  return b.Mul(b.Mul(x, b.like(x, 0.5)), b.Add(erf, b.like(x, 1.0)));
}

Value encoder_layer(Builder& b, Value src, Dim embed_dim, int64_t num_heads, Value qkv_weight,
                    Value qkv_bias, Value proj_weight, Value proj_bias, bool use_gelu,
                    bool norm_first, const Number& eps, Value norm_weight_1, Value norm_bias_1,
                    Value norm_weight_2, Value norm_bias_2, Value ffn_weight_1, Value ffn_bias_1,
                    Value ffn_weight_2, Value ffn_bias_2, std::optional<Value> mask,
                    std::optional<int64_t> mask_type) {
  const Attention attention{embed_dim,   num_heads, qkv_weight, qkv_bias,
                            proj_weight, proj_bias, mask,       mask_type};
  const auto norm = [&](Value x, Value weight, Value bias) {
    return b.op("LayerNormalization", {x, weight, bias},
                {{"axis", -1}, {"epsilon", eps.to_double()}});
  };
  const auto feed_forward = [&](Value x) {
    const Value hidden = fully_connected(b, x, ffn_weight_1, ffn_bias_1);
    return fully_connected(b, use_gelu ? exact_gelu(b, hidden) : b.op("Relu", {hidden}),
                           ffn_weight_2, ffn_bias_2);
  };
  Value x = norm_first ? norm(src, norm_weight_1, norm_bias_1) : src;
  x = b.Add(src, attend_in_heads(b, x, x, x, attention).output);
  if (!norm_first) x = norm(x, norm_weight_1, norm_bias_1);
  const Value y = norm_first ? norm(x, norm_weight_2, norm_bias_2) : x;
  x = b.Add(x, feed_forward(y));
  return norm_first ? x : norm(x, norm_weight_2, norm_bias_2);
}

}  // namespace

void register_transformer(OpTable& ops) {
  ops.def("aten::_native_multi_head_attention", multi_head_attention);
  ops.def("aten::_transformer_encoder_layer_fwd", encoder_layer);
}

}  // namespace onnx_native::ops
