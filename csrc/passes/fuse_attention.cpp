#include <cmath>
#include <numeric>

#include "onnx/infer.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using namespace match;  // NOLINT(google-build-using-namespace)
using Ints = std::vector<int64_t>;

constexpr int64_t kRank = 4;  // batch, heads, length, size

// The Vars of one attention: softmax(q * keys * factor / divisor) * v.
struct Parts {
  Var q, keys, v, factor, divisor;
};

// Matches the scores of queries and transposed keys, scaled before or after their product.
auto scores(Uses& uses, Parts& p) {
  const auto plain = once(uses, op("MatMul", p.q, p.keys));
  return any_of(
      mul(plain, constant(p.factor)), op("Div", plain, constant(p.divisor)),
      op("MatMul", any_of(mul(p.q, constant(p.factor)), op("Div", p.q, constant(p.divisor)), p.q),
         p.keys));
}

// Returns the scale; nullopt if ONNX's Attention does not take it.
std::optional<double> scale_of(const Parts& p) {
  double scale = 1;
  if (p.factor) scale = to_number(*p.factor);
  if (p.divisor) scale = 1 / to_number(*p.divisor);
  return std::isfinite(scale) && scale > 0 ? std::optional(scale) : std::nullopt;
}

// Returns the order of axes in which a Transpose of its input gives the keys as (batch, heads,
// length, size); nullopt if the keys are not a transposition.
std::optional<Ints> order_of_keys(const Value& keys) {
  const Node* node = keys.producer;
  if (!node || !node->is("Transpose")) return std::nullopt;
  auto order = node->attribute_ints("perm");
  if (!order || order->size() != kRank) return std::nullopt;
  std::swap((*order)[2], (*order)[3]);
  return order;
}

bool has_sizes(const Value& value, const Dim& batch, const Dim& heads) {
  return value.rank_or(0) == kRank && value.dim(0) == batch && value.dim(1) == heads;
}

// ONNX Runtime rejects empty tensors.
bool is_never_empty(const Value& value) {
  for (const Dim& size : value.known_shape()) {
    if (!size.known_positive()) return false;
  }
  return true;
}

bool fits(const Parts& p) {
  if (p.q->dtype != DType::f32 || p.q->rank_or(0) != kRank) return false;
  const Dim &batch = p.q->dim(0), &heads = p.q->dim(1);
  if (!has_sizes(*p.keys, batch, heads) || !has_sizes(*p.v, batch, heads)) return false;
  if (p.keys->dim(3) != p.v->dim(2)) return false;
  return is_never_empty(*p.q) && is_never_empty(*p.keys) && is_never_empty(*p.v);
}

void fuse_node(Rewrite& rewrite, Uses& uses, onnx::Model& model, Node& node) {
  Parts p;
  const auto weights = op("Softmax", once(uses, scores(uses, p)));
  const auto last = where(once(uses, weights), [](const Value& value) {
    const int64_t axis = value.producer ? value.producer->attribute_int("axis", -1) : 0;
    return axis == -1 || axis == kRank - 1;
  });
  if (!matches(node.outputs[0], op("MatMul", last, p.v)) || !fits(p)) return;
  const auto scale = scale_of(p);
  const auto order = order_of_keys(*p.keys);
  if (!scale || !order) return;
  Value* key = p.keys->producer->inputs[0];
  Ints straight(kRank);
  std::iota(straight.begin(), straight.end(), 0);
  if (*order != straight) {
    Node* transpose = p.keys->graph->insert_node(std::next(p.keys->producer->position), "Transpose",
                                                 {key}, 1, {{"perm", *order}});
    transpose->location = p.keys->producer->location;
    onnx::infer(*transpose, model.opset);
    key = transpose->outputs[0];
  }
  node.op_type = "Attention";
  node.inputs = {p.q, key, p.v};
  node.attributes = {{"scale", *scale}};
  rewrite.set_changed();
}

}  // namespace

// softmax(scale * q * transpose(k)) * v of (batch, heads, length, size) tensors in float32 becomes
// Attention at opsets 23 and 24, for which ONNX Runtime has a kernel. A mask stays as it is: a row
// of it that is -inf gives NaN here, and zeros in Attention.
int64_t fuse_attention(onnx::Model& model) {
  if (model.opset != 23 && model.opset != 24) return 0;
  Uses uses(model);
  return sweep(model, [&](Rewrite& rewrite, onnx::Graph&, Node& node) {
    if (node.is("MatMul")) fuse_node(rewrite, uses, model, node);
  });
}

}  // namespace onnx_native::passes
