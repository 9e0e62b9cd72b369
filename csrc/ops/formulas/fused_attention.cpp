#include "ops/formulas/fused_attention.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "onnx/providers.h"
#include "ops/formulas/mask.h"
#include "ops/formulas/numeric.h"

namespace onnx_native::ops {
namespace {

using Attributes = std::vector<onnx::Attribute>;

// ONNX Runtime 1.32 has kernels for opsets 23 and 24 only and runs a function body from 25 on,
// which is 1.5 times slower. In float16 the kernel is up to 1.4 times slower than float32 operators
// between casts. It rejects empty tensors.
bool is_fast(Builder& b, const AttentionCall& call) {
  if (b.opset() != 23 && b.opset() != 24) return false;
  if (!onnx::may_have_kernel(b.model().target, "Attention", b.opset(), DType::f32)) return false;
  return std::ranges::all_of(
      std::initializer_list<Value>{call.query, call.key, call.value}, [](Value v) {
        return v->dtype == DType::f32 && std::ranges::all_of(v->known_shape(), [](const Dim& size) {
                 return size.known_positive();
               });
      });
}

// The sizes of (batch, heads, length, size) inputs.
struct Sizes {
  Dim batch, heads, rows, columns;
};

// The operator broadcasts only the key heads.
bool can_fuse(const AttentionCall& call, const Sizes& sizes) {
  const Value k = call.key, v = call.value;
  if (k->dim(0) != sizes.batch || v->dim(0) != sizes.batch) return false;
  if (k->rank() == 3) return true;
  return k->dim(1) == v->dim(1) &&
         (call.enable_gqa || k->dim(1) == sizes.heads || k->dim(1).equals(1));
}

// Returns the mask for ONNX Runtime's kernel, whose last two axes do not broadcast; nullptr if an
// axis has another size.
Value fitted_mask(Builder& b, Value mask, const Sizes& sizes, bool has_heads) {
  if (!has_heads && mask->rank_or(0) == 3) mask = b.unsqueeze(mask, {1});
  const Shape whole{sizes.batch, sizes.heads, sizes.rows, sizes.columns};
  const int64_t rank = mask->rank_or(0);
  if (rank == 0 || rank > 4) return nullptr;
  Shape target = mask->known_shape();
  for (int64_t axis = 1; axis <= rank; ++axis) {
    const Dim& size = whole.end()[-axis];
    if (mask->dim(-axis) != size && !mask->dim(-axis).equals(1)) return nullptr;
    if (axis <= 2) target.end()[-axis] = size;
  }
  if (rank == 1) target.insert(target.begin(), sizes.rows);
  if (mask->dtype != DType::boolean) {
    mask = b.cast(mask, DType::f32);
    // ONNX Runtime takes the lowest finite number for -inf, which makes a row of it zeros. This
    // factor moves it by one unit in the last place, and keeps 0 and -inf.
    if (!never_lowest(mask)) mask = b.Mul(mask, b.like(mask, 1 - 0x1p-24));
  }
  return b.expand(mask, target);
}

// Returns the (batch, length, heads * size) tensor that a (batch, heads, length, size) tensor is a
// view of; nullptr if there is none.
Value merged_heads(Builder& b, Value v) {
  const onnx::Node* transpose = v->producer;
  if (!transpose || !transpose->is("Transpose")) return nullptr;
  if (transpose->attribute_ints("perm") != std::vector<int64_t>{0, 2, 1, 3}) return nullptr;
  const Value split = transpose->inputs[0];
  const Shape merged{split->dim(0), split->dim(1), split->dim(2) * split->dim(3)};
  const onnx::Node* reshape = split->producer;
  if (reshape && reshape->is("Reshape") && reshape->inputs[0]->shape &&
      *reshape->inputs[0]->shape == merged)
    return reshape->inputs[0];
  return b.reshape(split, merged);
}

// Returns true if the sizes of the heads are constant. Shape inference takes the size of merged
// heads for 0 otherwise, and ONNX Runtime then fails inside of If.
bool has_constant_heads(const Values& inputs) {
  return std::all_of(inputs.begin(), inputs.begin() + 3,
                     [](Value x) { return x->dim(-1).constant().has_value(); });
}

// Without the transpositions, the operator takes two thirds of the time.
Value merged_attention(Builder& b, const Values& inputs, Attributes attributes) {
  const Value q = inputs[0], k = inputs[1], v = inputs[2];
  const auto heads = q->dim(1).constant(), key_heads = k->dim(1).constant();
  if (!heads || !key_heads || !has_constant_heads(inputs)) return nullptr;
  const auto is_view = [](Value x) { return x->producer && x->producer->op_type == "Transpose"; };
  if (!is_view(q) || !is_view(k) || !is_view(v)) return nullptr;
  Values merged = inputs;
  for (size_t i = 0; i < 3; ++i) {
    merged[i] = merged_heads(b, inputs[i]);
    if (!merged[i]) return nullptr;
  }
  attributes.push_back({"q_num_heads", *heads});
  attributes.push_back({"kv_num_heads", *key_heads});
  const Value y = b.op("Attention", merged, std::move(attributes));
  return b.transpose(b.reshape(y, {q->dim(0), q->dim(2), *heads, v->dim(-1)}), {0, 2, 1, 3});
}

Attributes attributes_of(Builder& b, const AttentionCall& call, Value& query) {
  Attributes attributes;
  if (call.is_causal) attributes.push_back({"is_causal", int64_t{1}});
  if (!call.scale) return attributes;
  const bool fits = call.scale->is_constant() && call.scale->to_double() > 0;
  if (!fits) query = b.Mul(query, b.like(query, *call.scale));
  const double scale = fits ? call.scale->to_double() : 1.0;
  const auto width = query->dim(-1).constant();
  // Float attributes are float32.
  const auto single = [](double x) { return static_cast<float>(x); };
  if (!width || single(scale) != single(1 / std::sqrt(static_cast<double>(*width))))
    attributes.push_back({"scale", scale});
  return attributes;
}

}  // namespace

// Causal masks agree: both are aligned to the upper left without past keys.
Value fused_attention(Builder& b, const AttentionCall& given) {
  AttentionCall call = given;
  const int64_t rank = call.query->rank();
  if (rank < 3 || rank > 4 || call.key->rank() != rank || call.value->rank() != rank)
    return nullptr;
  if (!is_fast(b, call)) return nullptr;
  if (rank == 3 && !has_constant_heads({call.query, call.key, call.value})) return nullptr;
  const Dim heads = rank == 4 ? call.query->dim(1) : Dim(1);
  Sizes sizes{call.query->dim(0), heads, call.query->dim(-2), call.key->dim(-2)};
  // Keys and values are equal in number, but torch.export may name the number twice.
  const Dim& values = call.value->dim(-2);
  if (call.mask && call.mask->rank_or(0) > 0 && call.mask->dim(-1) == values)
    sizes.columns = values;
  if (!can_fuse(call, sizes)) return nullptr;
  Value mask = nullptr;
  if (call.mask) {
    mask = fitted_mask(b, call.mask, sizes, rank == 4);
    if (!mask) return nullptr;
  }
  Attributes attributes = attributes_of(b, call, call.query);
  const Values inputs{call.query, call.key, call.value, mask};
  if (rank == 4) {
    if (const Value y = merged_attention(b, inputs, attributes)) return y;
  } else {
    attributes.push_back({"q_num_heads", int64_t{1}});
    attributes.push_back({"kv_num_heads", int64_t{1}});
  }
  return b.op("Attention", inputs, std::move(attributes));
}

}  // namespace onnx_native::ops
