#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "base/scalar.h"
#include "onnx/infer.h"
#include "onnx/providers.h"
#include "passes/magnitude.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using namespace match;  // NOLINT(google-build-using-namespace)
using Ints = std::vector<int64_t>;

constexpr int64_t kRank = 4;  // batch, heads, length, size

// The Vars of one attention: softmax(q * keys * factor / divisor + bias + mask) * v, or
// softmax(where(open, q * keys * factor / divisor, fill)) * v.
struct Parts {
  Var q, keys, v, factor, divisor;
  Var bias, mask, open, closed, fill;
};

// Matches the scores of queries and transposed keys, scaled before or after their product.
auto scores(Uses& uses, Parts& p) {
  const auto plain = once(uses, op("MatMul", p.q, p.keys));
  return any_of(
      mul(plain, constant(p.factor)), op("Div", plain, constant(p.divisor)),
      op("MatMul", any_of(mul(p.q, constant(p.factor)), op("Div", p.q, constant(p.divisor)), p.q),
         p.keys));
}

// Matches the scores with what is added to them, or with a number in the place of masked ones.
auto masked(Uses& uses, Parts& p) {
  const auto plain = once(uses, scores(uses, p));
  const auto biased = once(uses, add(plain, p.bias));
  return any_of(plain, biased, once(uses, add(biased, p.mask)),
                once(uses, op("Where", p.open, plain, constant(p.fill))),
                once(uses, op("Where", p.closed, constant(p.fill), plain)));
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

// Adds this to the scores of masked keys. ONNX Runtime takes the lowest number for -inf.
constexpr double kMasked = -0x1p126;
// A number below this hides every score that it is added to.
constexpr double kHidden = -1e30;

// The masks of Attention, which the attentions of all layers share. Of a row that is masked
// entirely, separate operators make NaN and Attention zeros, so all elements must be finite.
class Masks {
 public:
  Masks(onnx::Model& model, Uses& uses) : model_(model), magnitudes_(uses) {}

  // Returns the mask, or nullptr for none; nullopt if Attention's result would differ. Inserts
  // nodes before `at`.
  std::optional<Value*> of(Node& at, const Parts& p) {
    Value* condition = p.open ? p.open : p.closed;
    const Key key{p.bias, p.mask, condition, p.fill, at.outputs[0]->graph};
    const auto found = made_.find(key);
    const std::optional<Value*> mask = found != made_.end() ? found->second : make(at, p);
    made_[key] = mask;
    return mask && (!*mask || is_fitting(**mask, p)) ? mask : std::nullopt;
  }

 private:
  using Key = std::tuple<Value*, Value*, Value*, Value*, const onnx::Graph*>;

  // ONNX Runtime's kernel broadcasts the first two axes only.
  static bool is_fitting(const Value& mask, const Parts& p) {
    const Shape scores{p.q->dim(0), p.q->dim(1), p.q->dim(2), p.keys->dim(3)};
    const int64_t rank = mask.rank_or(0);
    if (mask.dtype != DType::f32 || rank < 2 || rank > kRank) return false;
    for (int64_t axis = 1; axis <= rank; ++axis) {
      const bool broadcasts = axis > 2 && mask.dim(-axis).equals(1);
      if (!broadcasts && mask.dim(-axis) != scores.end()[-axis]) return false;
    }
    return true;
  }

  std::optional<Value*> make(Node& at, const Parts& p) {
    if (p.fill) return of_fill(at, p);
    Value* sum = nullptr;
    for (Value* term : {static_cast<Value*>(p.bias), static_cast<Value*>(p.mask)}) {
      if (!term) continue;
      term = without_lowest(at, *term);
      const auto& magnitude = magnitudes_.of(*term);
      if (!magnitude) return std::nullopt;
      if (magnitude->most == 0 && is_fitting(*term, p)) continue;
      sum = sum ? insert(at, "Add", {sum, term}) : term;
    }
    if (!sum) return nullptr;
    const auto& magnitude = magnitudes_.of(*sum);
    if (!magnitude || magnitude->most >= max_value(DType::f32)) return std::nullopt;
    check_weights(*magnitude);
    return with_rows(at, *sum, *p.q);
  }
  std::optional<Value*> of_fill(Node& at, const Parts& p) {
    const double fill = to_number(*p.fill);
    if (!std::isfinite(fill) || fill > kHidden) return std::nullopt;
    Value* mask = p.open ? insert(at, "Where", {p.open, scalar(0), scalar(kMasked)})
                         : insert(at, "Where", {p.closed, scalar(kMasked), scalar(0)});
    return with_rows(at, *mask, *p.q);
  }
  // Repeats a mask that is the same for all queries.
  Value* with_rows(Node& at, Value& mask, Value& q) {
    if (mask.rank_or(0) < 2 || !mask.dim(-2).equals(1) || q.dim(2).equals(1)) return &mask;
    onnx::Graph& main = *model_.graph;
    Value* rows = q.dim(2).constant()
                      ? main.add_integers(Ints{*q.dim(2).constant()})
                      : insert(at, "Shape", {&q}, {{"start", int64_t{2}}, {"end", int64_t{3}}});
    Value* sizes = insert(at, "Concat", {rows, main.add_integers(Ints{1})}, {{"axis", int64_t{0}}});
    return insert(at, "Expand", {&mask, sizes});
  }
  // Returns Where(open, 0, lowest) with another number that hides scores.
  Value* without_lowest(Node& at, Value& term) {
    Var open, zero, hidden;
    if (!matches(&term, op("Where", open, constant(zero), constant(hidden)))) return &term;
    const double number = to_number(*hidden);
    if (to_number(*zero) != 0 || number > kHidden || !std::isfinite(number)) return &term;
    Value*& made = without_lowest_[{&term, at.outputs[0]->graph}];
    if (!made) made = insert(at, "Where", {open, scalar(0), scalar(kMasked)});
    return made;
  }

  Value* scalar(double number) {
    return model_.graph->add_initializer(
        "", make_tensor(DType::f32, {}, std::span<const double>(&number, 1)));
  }
  Value* insert(Node& at, std::string_view op_type, std::vector<Value*> inputs,
                std::vector<onnx::Attribute> attributes = {}) {
    return insert_before(model_, at, op_type, std::move(inputs), std::move(attributes));
  }

  onnx::Model& model_;
  Magnitudes magnitudes_;
  std::map<Key, std::optional<Value*>> made_;
  std::map<std::pair<const Value*, const onnx::Graph*>, Value*> without_lowest_;
};

void fuse_node(Rewrite& rewrite, Uses& uses, Masks& masks, onnx::Model& model, Node& node) {
  Parts p;
  const auto weights = op("Softmax", once(uses, masked(uses, p)));
  const auto last = where(once(uses, weights), [](const Value& value) {
    const int64_t axis = value.producer ? value.producer->attribute_int("axis", -1) : 0;
    return axis == -1 || axis == kRank - 1;
  });
  if (!matches(node.outputs[0], op("MatMul", last, p.v)) || !fits(p)) return;
  const auto scale = scale_of(p);
  const auto order = order_of_keys(*p.keys);
  if (!scale || !order) return;
  const auto mask = masks.of(node, p);
  if (!mask) return;
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
  if (*mask) node.inputs.push_back(*mask);
  node.attributes = {{"scale", *scale}};
  rewrite.set_changed();
}

}  // namespace

// softmax(scale * q * transpose(k) + bias + mask) * v of (batch, heads, length, size) tensors in
// float32 becomes Attention at opsets 23 and 24, for which ONNX Runtime has a kernel. There may be
// one addend, none, or Where(mask, scores, number). All addends must be finite: of a row that is
// -inf, this makes NaN, and Attention zeros. The sum of a bias and a mask is computed once for all
// layers.
int64_t fuse_attention(onnx::Model& model) {
  if (model.opset != 23 && model.opset != 24) return 0;
  if (!onnx::may_have_kernel(model.target, "Attention", model.opset, DType::f32)) return 0;
  Uses uses(model);
  Masks masks(model, uses);
  return sweep(model, [&](Rewrite& rewrite, onnx::Graph&, Node& node) {
    if (node.is("MatMul")) fuse_node(rewrite, uses, masks, model, node);
  });
}

}  // namespace onnx_native::passes
