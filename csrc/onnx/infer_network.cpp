// Attention and recurrent networks.
#include "onnx/infer_rules.h"

namespace onnx_native::onnx {
namespace {

// The batch size, number of heads, length and head size of one input of an attention.
struct Heads {
  Dim batch;
  Dim heads;
  Dim length;
  Dim size;
};

Heads heads_of(const Inference& i, size_t input, std::string_view count) {
  const Shape& shape = *i.shape(input);
  if (shape.size() == 4) return {shape[0], shape[1], shape[2], shape[3]};
  if (shape.size() != 3) i.fail("input ", input, " has rank ", shape.size(), ", expected 3 or 4");
  const int64_t heads = i.attribute(count, 0);
  if (heads <= 0) i.fail("an input of rank 3 needs the attribute ", count);
  return {shape[0], heads, shape[1], Dim::floor_div(shape[2], heads)};
}

// Q, K, V, attn_mask, past_key, past_value -> Y, present_key, present_value, qk_matmul_output
void attention(Inference& i) {
  if (!i.shape(0) || !i.shape(1) || !i.shape(2)) {
    i.set(0, i.dtype(0), std::nullopt);
    i.set(1, i.dtype(1), std::nullopt);
    i.set(2, i.dtype(2), std::nullopt);
    i.set(3, i.dtype(0), std::nullopt);
    return;
  }
  const Heads q = heads_of(i, 0, "q_num_heads");
  const Heads k = heads_of(i, 1, "kv_num_heads");
  const Heads v = heads_of(i, 2, "kv_num_heads");
  Dim total = k.length;
  if (i.optional(4)) {
    const Shape* past = i.shape(4);
    total = past && past->size() == 4 ? (*past)[2] + k.length : i.unknown(1, 4, 2);
  }
  const bool is_4d = i.in(0).rank_or(-1) == 4;
  i.set(0, i.dtype(0),
        is_4d ? Shape{q.batch, q.heads, q.length, v.size}
              : Shape{q.batch, q.length, q.heads * v.size});
  i.set(1, i.dtype(1), Shape{k.batch, k.heads, total, k.size});
  i.set(2, i.dtype(2), Shape{v.batch, v.heads, total, v.size});
  i.set(3, i.dtype(0), Shape{q.batch, q.heads, q.length, total});
}

// X, W, R ... -> Y, Y_h, Y_c
void recurrent(Inference& i) {
  i.expect_rank(0, 3);
  const Shape* input = i.shape(0);
  const Shape* recurrence = i.shape(2);
  const bool batch_first = i.attribute("layout", 0) != 0;
  const Dim directions =
      i.node().attribute_string("direction", "forward") == "bidirectional" ? 2 : 1;
  const Dim length = input ? (*input)[batch_first ? 1 : 0] : i.unknown(0, 4, batch_first ? 1 : 0);
  const Dim batch = input ? (*input)[batch_first ? 0 : 1] : i.unknown(0, 4, batch_first ? 0 : 2);
  const Dim hidden = i.has("hidden_size") ? Dim(i.attribute("hidden_size", 0))
                     : recurrence         ? recurrence->back()
                                          : i.unknown(0, 4, 3);
  const Shape last =
      batch_first ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden};
  i.set(0, i.dtype(0),
        batch_first ? Shape{batch, length, directions, hidden}
                    : Shape{length, directions, batch, hidden});
  i.set(1, i.dtype(0), last);
  i.set(2, i.dtype(0), last);
}

}  // namespace

void add_network_rules(Rules& rules) {
  rules["Attention"] = attention;
  rules["GRU"] = recurrent;
  rules["LSTM"] = recurrent;
  rules["RNN"] = recurrent;
  rules["RotaryEmbedding"] = same_as_first;
}

}  // namespace onnx_native::onnx
