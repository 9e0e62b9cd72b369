#include <map>
#include <unordered_map>
#include <utility>

#include "onnx/infer.h"
#include "onnx/kernels.h"
#include "onnx/typing.h"
#include "passes/last_axis.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using namespace match;  // NOLINT(google-build-using-namespace)
using onnx::Graph;

constexpr int64_t kOpset = 23;
constexpr const char* kContribDomain = "com.microsoft";
constexpr int64_t kRank = 4;  // batch, heads, sequence, size of a head

// Which elements rotate together: an element of the first half and one of the second, or neighbors.
enum class Layout { halves, neighbors };

// Returns true if `twice` has the shape of `once` with a last axis of twice the size.
bool is_twice(const Value& once, const Value& twice) {
  if (once.rank_or(0) == 0 || !twice.shape) return false;
  Shape shape = *once.shape;
  shape.back() = shape.back() * 2;
  return *twice.shape == shape;
}

// Matches a table that holds each angle twice: concat(angles, angles), or each one repeated.
auto doubled_halves(Var& angles) { return join(angles, angles); }
auto doubled_neighbors(Var& angles) {
  return op("Reshape", op("Expand", new_last_axis(angles), any), any);
}

// Makes the caches of RotaryEmbedding, of shape (batch, sequence, half the size of a head), from
// the cosines and sines that the model computes for each element of a head. All layers share them.
class Caches {
 public:
  // For ONNX Runtime's contrib operator (`contrib`) or the standard one.
  Caches(onnx::Model& model, bool contrib) : model_(model), contrib_(contrib) {}

  // Returns true if the operator takes x. The kernels of both have the same dtypes. The contrib
  // operator takes the number of heads as an attribute and rejects empty caches.
  bool take(const Value& x) const {
    if (x.rank_or(0) != kRank || !onnx::has_kernel("RotaryEmbedding", x.dtype, kOpset))
      return false;
    if (!contrib_) return true;
    return x.dim(1).constant() && x.dim(3).constant() && x.dim(0).known_positive() &&
           x.dim(2).known_positive();
  }

  // Returns the cache for x and table (batch or 1, 1, sequence, size of a head); nullptr if it is
  // not known that the table holds each angle twice, or that the sizes are those of x. Inserts
  // nodes before `at`.
  Value* of_whole(Node& at, Value* table, Value& x, Layout layout) {
    Var flat;
    if (!matches(table, op("Unsqueeze", flat, integers({1}))) || flat->rank_or(0) != kRank - 1) {
      return nullptr;
    }
    if (flat->dim(-1) != x.dim(-1)) return nullptr;
    return of_half(at, half_of(flat, layout), x);
  }
  // The same for a table (batch or 1, sequence, half the size of a head).
  Value* of_half(Node& at, Value* table, Value& x) {
    if (!table || table->dim(1) != x.dim(2)) return nullptr;
    if (table->dim(0) == x.dim(0)) return table;
    if (!table->dim(0).equals(1)) return nullptr;
    return contrib_ ? table : expanded(at, table, x);
  }

 private:
  // Returns the tensor with each angle once; nullptr if the last axis does not hold each one twice.
  Value* half_of(Value* whole, Layout layout) {
    const std::pair key(whole, layout);
    const bool is_new = halves_.try_emplace(key, nullptr).second;
    if (is_new) halves_[key] = compute_half_of(*whole, layout);
    return halves_[key];
  }

  Value* compute_half_of(Value& whole, Layout layout) {
    Var angles;
    const bool doubles = layout == Layout::halves ? matches(&whole, doubled_halves(angles))
                                                  : matches(&whole, doubled_neighbors(angles));
    if (doubles && is_twice(*angles, whole)) return angles;
    const Node* node = whole.producer;
    if (!node || !node->domain.empty() || node->outputs.size() != 1) return nullptr;
    std::vector<Value*> inputs = node->inputs;
    size_t varying = 0;
    if (node->op_type == "Mul") {
      if (is_scalar(*inputs[0])) varying = 1;
      if (!is_scalar(*inputs[1 - varying])) return nullptr;
    } else if (node->op_type != "Cos" && node->op_type != "Sin" && node->op_type != "Cast") {
      return nullptr;
    }
    inputs[varying] = half_of(inputs[varying], layout);
    if (!inputs[varying]) return nullptr;
    Node* half = whole.graph->insert_node(std::next(node->position), node->op_type,
                                          std::move(inputs), 1, node->attributes);
    half->location = node->location;
    onnx::infer(*half, model_.opset);
    return half->outputs[0];
  }

  // Repeats a table for all sequences of the batch. The standard operator does not broadcast.
  Value* expanded(Node& at, Value* table, Value& x) {
    Graph& graph = *at.outputs[0]->graph;
    Value*& result = expanded_[{table, &graph}][x.dim(0)];
    if (result) return result;
    Value* sized = &x;  // not the first elements of x, which absorb_partial makes unnecessary
    while (const auto part = part_of(*sized)) sized = part->source;
    Value* batch = insert(at, "Shape", {sized}, {{"start", int64_t{0}}, {"end", int64_t{1}}});
    Value* rest = model_.graph->add_integers(std::vector<int64_t>{1, 1});
    Value* sizes = insert(at, "Concat", {batch, rest}, {{"axis", int64_t{0}}});
    result = insert(at, "Expand", {table, sizes}, {});
    return result;
  }

  Value* insert(Node& at, std::string_view op_type, std::vector<Value*> inputs,
                std::vector<onnx::Attribute> attributes) {
    return insert_before(model_, at, op_type, std::move(inputs), std::move(attributes));
  }

  onnx::Model& model_;
  bool contrib_;
  std::map<std::pair<const Value*, Layout>, Value*> halves_;
  // By table and graph; then by batch.
  std::map<std::pair<const Value*, const Graph*>, std::unordered_map<Dim, Value*>> expanded_;
};

// Replaces the node by a RotaryEmbedding of x. Returns false if a cache is missing.
bool rotate(Rewrite& rewrite, Node& node, Value* x, Value* cos, Value* sin, bool interleaved) {
  if (!cos || !sin || cos->dtype != x->dtype || sin->dtype != x->dtype) return false;
  if (cos->dim(0) != sin->dim(0)) return false;
  node.op_type = "RotaryEmbedding";
  node.inputs = {x, cos, sin};
  node.attributes.clear();
  if (interleaved) node.attributes.push_back({"interleaved", int64_t{1}});
  rewrite.set_changed();
  return true;
}

// x * cos + turned * sin, where turned is concat(-x2, x1) of the halves of x, or (-x2, x1) of each
// two neighbors.
void fuse_turned(Rewrite& rewrite, Uses& uses, Caches& caches, Node& node, Layout layout) {
  Var x, cos, sin, turned;
  const auto halves = join(op("Neg", half(x, 1)), half(x, 0));
  const auto neighbors = op(
      "Reshape",
      join(new_last_axis(op("Neg", every_second(x, 1))), new_last_axis(every_second(x, 0))), any);
  const auto rotated = [&](const auto& turn) {
    return add(once(uses, mul(x, cos)), once(uses, mul(both(turned, turn), sin)));
  };
  Value* y = node.outputs[0];
  const bool found =
      layout == Layout::halves ? matches(y, rotated(halves)) : matches(y, rotated(neighbors));
  if (!found || !caches.take(*x) || turned->shape != x->shape) return;
  Value* cosines = caches.of_whole(node, cos, *x, layout);
  Value* sines = cosines ? caches.of_whole(node, sin, *x, layout) : nullptr;
  rotate(rewrite, node, x, cosines, sines, layout == Layout::neighbors);
}

// concat(x1 * cos - x2 * sin, x2 * cos + x1 * sin), with caches of half the size.
void fuse_parts(Rewrite& rewrite, Uses& uses, Caches& caches, Node& node) {
  Var x, wide_cos, wide_sin, cos, sin;
  const auto real = op("Sub", mul(half(x, 0), wide_cos), mul(half(x, 1), wide_sin));
  const auto imaginary = add(mul(half(x, 1), wide_cos), mul(half(x, 0), wide_sin));
  const auto rotated = join(once(uses, real), once(uses, imaginary));
  if (!matches(node.outputs[0], rotated) || !caches.take(*x)) return;
  if (!matches(wide_cos, op("Unsqueeze", cos, integers({1}))) ||
      !matches(wide_sin, op("Unsqueeze", sin, integers({1})))) {
    return;
  }
  Value* cosines = caches.of_half(node, cos, *x);
  Value* sines = cosines ? caches.of_half(node, sin, *x) : nullptr;
  rotate(rewrite, node, x, cosines, sines, false);
}

// concat(RotaryEmbedding(the first elements of x), the others), of which there may be none.
void absorb_partial(Rewrite& rewrite, Uses& uses, Node& node) {
  Var whole;
  const auto none = part(any, [](const Part& p) { return p.start >= p.end; });
  if (matches(node.outputs[0], join(both(whole, op("RotaryEmbedding", any, any, any)), none))) {
    rewrite.replace(node.outputs[0], whole);
    return;
  }
  Var x, cos, sin;
  int64_t rotated = 0;
  const auto first = part(x, [&rotated](const Part& p) {
    rotated = p.end;
    return p.start == 0 && p.step == 1;
  });
  const auto rest = part(x, [&rotated](const Part& p) {
    return p.start == rotated && p.end == p.size && p.step == 1;
  });
  const auto rotation = op("RotaryEmbedding", first, cos, sin);
  if (!matches(node.outputs[0], join(once(uses, rotation), rest))) return;
  std::vector<onnx::Attribute> attributes = node.inputs[0]->producer->attributes;
  for (const onnx::Attribute& each : attributes) {
    if (each.name == "rotary_embedding_dim") return;
  }
  attributes.push_back({"rotary_embedding_dim", rotated});
  node.op_type = "RotaryEmbedding";
  node.inputs = {x, cos, sin};
  node.attributes = std::move(attributes);
  rewrite.set_changed();
}

// Replaces RotaryEmbedding by ONNX Runtime's contrib operator, whose caches have the shape (rows,
// half the size of a head). Its input `position_ids` names the row for each element of a sequence.
// All layers share the new inputs.
class ContribRotation {
 public:
  explicit ContribRotation(onnx::Model& model) : model_(model) {}

  // The number of heads must be constant.
  void replace(Rewrite& rewrite, Node& node) {
    Value &x = *node.inputs[0], &cos = *node.inputs[1], &sin = *node.inputs[2];
    node.inputs = {&x, positions_of(node, cos), rows_of(node, cos), rows_of(node, sin)};
    node.attributes.push_back({"num_heads", *x.dim(1).constant()});
    node.domain = kContribDomain;
    model_.domains.emplace(kContribDomain, 1);
    rewrite.set_changed();
  }

 private:
  Value* rows_of(Node& at, Value& cache) {
    Value*& rows = rows_[{&cache, at.outputs[0]->graph}];
    if (!rows) {
      const std::vector<int64_t> sizes{-1, *cache.dim(2).constant()};
      rows = insert(at, "Reshape", {&cache, constant({2}, sizes)}, {});
    }
    return rows;
  }

  // Element s of sequence b takes row b * length + s. If all sequences share a cache, the position
  // of the first element suffices.
  Value* positions_of(Node& at, Value& cache) {
    if (cache.dim(0).equals(1)) return constant({1}, {0});
    Value*& positions = positions_[{&cache, at.outputs[0]->graph}];
    if (positions) return positions;
    Value* sizes = insert(at, "Shape", {&cache}, {{"start", int64_t{0}}, {"end", int64_t{2}}});
    Value* count = insert(at, "ReduceProd", {sizes}, {{"keepdims", int64_t{0}}});
    Value* rows = insert(at, "Range", {constant({}, {0}), count, constant({}, {1})}, {});
    positions = insert(at, "Reshape", {rows, sizes}, {});
    return positions;
  }

  Value* constant(const std::vector<int64_t>& shape, const std::vector<int64_t>& elements) {
    return model_.graph->add_initializer("", make_tensor(DType::i64, shape, elements));
  }
  Value* insert(Node& at, std::string_view op_type, std::vector<Value*> inputs,
                std::vector<onnx::Attribute> attributes) {
    return insert_before(model_, at, op_type, std::move(inputs), std::move(attributes));
  }

  using Key = std::pair<const Value*, const Graph*>;
  onnx::Model& model_;
  std::map<Key, Value*> rows_;
  std::map<Key, Value*> positions_;
};

}  // namespace

// Rotary position embedding becomes RotaryEmbedding, from opset 23 on: x * cos + rotate_half(x) *
// sin, where x has the shape (batch, heads, sequence, size) and cos and sin hold each angle twice;
// the same for neighbors instead of halves; the same with halves of cos and sin; and the rotation
// of only the first elements of each head.
// The caches are expanded to the batch of x.
// Before opset 23 it becomes the contrib operator for ONNX Runtime's CPU provider, which takes 0.13
// to 0.6 of the time (benchmarks/fused_operators.py).
int64_t fuse_rotary_embedding(onnx::Model& model) {
  const bool contrib = model.opset < kOpset;
  if (contrib && model.target != Target::onnxruntime_cpu) return 0;
  Uses uses(model);
  Caches caches(model, contrib);
  const int64_t fused = sweep(model, [&](Rewrite& rewrite, onnx::Graph&, Node& node) {
    if (!node.domain.empty()) return;
    for (const Layout layout : {Layout::halves, Layout::neighbors}) {
      if (node.op_type == "Add") fuse_turned(rewrite, uses, caches, node, layout);
    }
    if (node.op_type != "Concat") return;
    absorb_partial(rewrite, uses, node);
    if (node.op_type == "Concat") fuse_parts(rewrite, uses, caches, node);
  });
  if (!contrib) return fused;
  ContribRotation rotation(model);
  sweep(model, [&rotation](Rewrite& rewrite, onnx::Graph&, Node& node) {
    const bool standard = node.is("RotaryEmbedding");
    if (standard) rotation.replace(rewrite, node);
  });
  return fused;
}

}  // namespace onnx_native::passes
