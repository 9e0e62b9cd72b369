#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "onnx/infer.h"
#include "onnx/kernels.h"
#include "onnx/providers.h"
#include "onnx/typing.h"
#include "passes/elements.h"
#include "passes/last_axis.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using namespace match;  // NOLINT(google-build-using-namespace)
using onnx::Graph;

constexpr int64_t kOpset = 23;
constexpr int64_t kRotatedRank = 4;  // batch, heads, sequence, size of a head

// Which elements rotate together: an element of the first half and one of the second, or neighbors.
enum class Layout { halves, neighbors };

// Returns true if `twice` has the shape of `once` with a last axis of twice the size.
bool is_twice(const Value& once, const Value& twice) {
  if (once.rank_or(0) == 0 || !twice.shape) return false;
  Shape shape = *once.shape;
  shape.back() = shape.back() * 2;
  return *twice.shape == shape;
}

// Matches a table that holds each angle twice: concat(angles, angles), or each one repeated, where
// `angles` is the Unsqueeze of them.
auto doubled_halves(Var& angles) { return join(angles, angles); }
auto doubled_neighbors(Var& angles) {
  const auto adds_last_axis = [](const Value& value) {
    const auto axes = value.producer ? value.producer->inputs[1]->known_integers() : std::nullopt;
    return axes && std::ranges::any_of(*axes, [&](int64_t axis) {
             return axis == -1 || axis == value.rank_or(0) - 1;
           });
  };
  const auto spread = where(op("Unsqueeze", any, any), adds_last_axis);
  return op("Reshape", op("Expand", both(angles, spread), any), any);
}

// Returns true if a size that broadcasts with `length` equals it: `length` itself, or the size
// min(length, k) of the first rows of a longer table.
bool is_length(const Dim& size, const Dim& length) {
  if (size == length) return true;
  if (size.terms().size() != 1 || size.terms()[0].factors.size() != 1) return false;
  const Dim::Factor& factor = size.terms()[0].factors[0];
  if (size.terms()[0].coefficient != 1 || factor.kind != Dim::Atom::min) return false;
  const auto& [a, b] = std::pair(factor.operands[0], factor.operands[1]);
  return (a == length && b.constant_or(0) > 1) || (b == length && a.constant_or(0) > 1);
}

// A cache of RotaryEmbedding, of shape (batch or 1, sequence, half the size of a head).
struct Cache {
  Value* table = nullptr;  // nullptr: there is none
  int64_t heads = 1;  // the axis of the heads in the rotated tensor: 1, or 2 after the sequence
};

// Makes the caches of RotaryEmbedding from the cosines and sines that the model computes for each
// element of a head. All layers share them.
class Caches {
 public:
  // For ONNX Runtime's contrib operator (`contrib`) or the standard one.
  Caches(onnx::Model& model, bool contrib) : model_(model), contrib_(contrib) {}

  // Returns true if the operator takes x, whose heads are on this axis. The kernels of both have
  // the same dtypes. The contrib operator takes the number of heads as an attribute and rejects
  // empty caches.
  bool take(const Value& x, int64_t heads = 1) const {
    if (x.rank_or(0) != kRotatedRank || !onnx::has_kernel("RotaryEmbedding", x.dtype, kOpset))
      return false;
    if (!contrib_) return true;
    return x.dim(heads).constant() && x.dim(3).constant() && x.dim(0).known_positive() &&
           x.dim(3 - heads).known_positive();
  }

  // Returns the cache for x and a table that holds each angle twice and broadcasts along the heads
  // of x; none if that is not known. Inserts nodes before `at`.
  Cache of_whole(Node& at, Value* table, Value& x, Layout layout) {
    if (table->rank_or(0) < 2 || table->dim(-1) != x.dim(-1)) return {};
    Value* half = half_of(table, layout);
    return half ? of_half(at, half, x) : Cache();
  }
  // The same for a table that holds each angle once.
  Cache of_half(Node& at, Value* table, Value& x) {
    for (const int64_t heads : {1, 2}) {
      if (!broadcasts(*table, x, heads) || !take(x, heads)) continue;
      Value* rows = rows_of(*table, heads);
      const bool is_whole = contrib_ || rows->dim(0) == x.dim(0);
      return {is_whole ? rows : expanded(at, rows, x), heads};
    }
    return {};
  }

  onnx::Model& model() { return model_; }

  // Joins the last two axes of a tensor of pairs to one of this size.
  Value* joined(Node& at, Value& pairs, int64_t size) {
    Value* target = model_.graph->add_integers(std::vector<int64_t>{0, 0, 0, size});
    return insert(at, "Reshape", {&pairs, target}, {});
  }

 private:
  // Returns true if a table has a row for each element of the sequences of x and broadcasts along
  // its heads.
  static bool broadcasts(const Value& table, const Value& x, int64_t heads) {
    const int64_t missing = kRotatedRank - table.rank_or(0);
    if (missing < 0 || table.dtype != x.dtype) return false;
    const auto size = [&](int64_t axis) {
      return axis < missing ? Dim(1) : table.dim(axis - missing);
    };
    return size(heads).equals(1) && 3 - heads >= missing &&
           is_length(size(3 - heads), x.dim(3 - heads)) &&
           (size(0).equals(1) || size(0) == x.dim(0));
  }

  // Returns a table of shape (batch or 1, sequence, half the size of a head).
  Value* rows_of(Value& table, int64_t heads) {
    Value*& rows = rows_[{&table, heads}];
    if (rows) return rows;
    const int64_t missing = kRotatedRank - table.rank();
    const Dim batch = missing > 0 ? Dim(1) : table.dim(0);
    const Dim& length = table.dim(3 - heads - missing);
    const auto is_flat = [&](const Value& value) {
      if (value.rank() == 2) return batch.equals(1) && value.dim(0) == length;
      return value.rank() == 3 && value.dim(0) == batch && value.dim(1) == length;
    };
    Value* flat = &table;
    while (!is_flat(*flat) && changes_only_ones(*flat)) flat = flat->producer->inputs[0];
    if (!is_flat(*flat)) flat = behind(table, "Squeeze", {&table, integer(heads - missing)});
    rows = flat->rank() == kRotatedRank - 1 ? flat : behind(*flat, "Unsqueeze", {flat, integer(0)});
    return rows;
  }

  // Returns true for a tensor that a node made by inserting or removing axes of size 1.
  static bool changes_only_ones(const Value& value) {
    const Node* node = value.producer;
    if (!node || !node->is_any({"Unsqueeze", "Squeeze", "Reshape"})) return false;
    if (!value.shape || !node->inputs[0]->shape) return false;
    const auto without_ones = [](Shape shape) {
      std::erase_if(shape, [](const Dim& size) { return size.equals(1); });
      return shape;
    };
    return without_ones(*value.shape) == without_ones(*node->inputs[0]->shape);
  }

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
    if (doubles) {
      Value* once = layout == Layout::halves ? angles : without_last_axis(*angles);
      if (once && is_twice(*once, whole)) return once;
    }
    if (whole.is_constant()) return half_of_constant(whole, layout);
    const auto varying = input_of_rows(whole);
    if (!varying) return nullptr;
    std::vector<Value*> inputs = whole.producer->inputs;
    inputs[*varying] = half_of(inputs[*varying], layout);
    if (!inputs[*varying]) return nullptr;
    if (whole.producer->is("Reshape")) inputs[1] = halved_target(*inputs[1], whole);
    return behind(whole, whole.producer->op_type, std::move(inputs), whole.producer->attributes);
  }

  // Returns the target of a Reshape with the last axis half as large.
  Value* halved_target(const Value& target, const Value& whole) {
    std::vector<int64_t> sizes = *target.known_integers();
    sizes.back() = *whole.dim(-1).constant() / 2;
    return model_.graph->add_integers(sizes);
  }

  // Returns the input of an Unsqueeze, with its axes other than the last one inserted.
  Value* without_last_axis(Value& value) {
    Value* input = value.producer->inputs[0];
    std::vector<int64_t> axes = *value.producer->inputs[1]->known_integers();
    std::erase_if(axes, [&](int64_t axis) { return axis == -1 || axis == value.rank() - 1; });
    if (axes.empty()) return input;
    if (std::ranges::any_of(axes, [](int64_t axis) { return axis < 0; })) return nullptr;
    return behind(value, "Unsqueeze", {input, model_.graph->add_integers(axes)});
  }

  // Returns the input of the producer that has the last axis of its result; nullopt if the elements
  // along that axis may depend on each other.
  static std::optional<size_t> input_of_rows(const Value& value) {
    const Node* node = value.producer;
    if (!node || !node->domain.empty() || node->outputs.size() != 1) return std::nullopt;
    if (node->is_any({"Cos", "Sin", "Cast"})) return 0;
    if (node->is("Mul")) {
      if (is_scalar(*node->inputs[1])) return 0;
      return is_scalar(*node->inputs[0]) ? std::optional<size_t>(1) : std::nullopt;
    }
    if (node->is("Unsqueeze") && node->inputs.size() == 2)
      return other_axes(node->inputs[1]->known_integers(), value.rank_or(0));
    if (node->is("Slice") && node->inputs.size() >= 4)
      return other_axes(node->inputs[3]->known_integers(), value.rank_or(0));
    if (node->is("Reshape")) {
      const bool keeps = changes_only_ones(value) && node->inputs[1]->known_integers() &&
                         value.dim(-1).constant() && value.dim(-1) == node->inputs[0]->dim(-1);
      return keeps ? std::optional<size_t>(0) : std::nullopt;
    }
    if (node->is("Gather"))
      return other_axes({{node->attribute_int("axis", 0)}}, node->inputs[0]->rank_or(0));
    return std::nullopt;
  }
  // Returns input 0 if none of the axes is the last one.
  static std::optional<size_t> other_axes(const std::optional<std::vector<int64_t>>& axes,
                                          int64_t rank) {
    if (!axes || rank == 0) return std::nullopt;
    const auto is_last = [rank](int64_t axis) { return axis == -1 || axis == rank - 1; };
    return std::ranges::any_of(*axes, is_last) ? std::nullopt : std::optional<size_t>(0);
  }

  // The same for the elements of a table that was folded. Those of weights may change.
  Value* half_of_constant(const Value& whole, Layout layout) {
    if (whole.named || !is_floating(whole.dtype) || !has_elements(whole.dtype)) return nullptr;
    if (whole.constant->numel() == 0 || whole.constant->shape.back() % 2 != 0) return nullptr;
    const Elements elements = read_elements(*whole.constant);
    std::vector<int64_t> shape = elements.shape;
    const int64_t size = std::exchange(shape.back(), shape.back() / 2);
    std::vector<int64_t> once;
    for (int64_t row = 0; row < elements.size(); row += size) {
      for (int64_t i = 0; i < size / 2; ++i) {
        const bool halves = layout == Layout::halves;
        const int64_t first = row + (halves ? i : 2 * i);
        const int64_t second = first + (halves ? size / 2 : 1);
        if (elements.floats[first] != elements.floats[second]) return nullptr;
        once.push_back(first);
      }
    }
    return model_.graph->add_initializer("",
                                         write_elements(pick(elements, once, std::move(shape))));
  }

  // Inserts a node behind the producer of a value.
  Value* behind(Value& value, std::string_view op_type, std::vector<Value*> inputs,
                std::vector<onnx::Attribute> attributes = {}) {
    const auto place =
        value.producer ? std::next(value.producer->position) : value.graph->nodes.begin();
    Node* node =
        value.graph->insert_node(place, op_type, std::move(inputs), 1, std::move(attributes));
    if (value.producer) node->location = value.producer->location;
    onnx::infer(*node, model_.opset);
    return node->outputs[0];
  }
  Value* integer(int64_t value) { return model_.graph->add_integers(std::vector<int64_t>{value}); }

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
  std::map<std::pair<const Value*, int64_t>, Value*> rows_;  // by table and axis of the heads
  // By table and graph; then by batch.
  std::map<std::pair<const Value*, const Graph*>, std::unordered_map<Dim, Value*>> expanded_;
};

const std::vector<int64_t> kHeadsFirst{0, 2, 1, 3};  // and back
// Matches (batch, heads, sequence, size) as (batch, sequence, heads, size), and the other way
// round.
template <class P>
auto other_order(const P& inner) {
  return where(op("Transpose", inner), [](const Value& value) {
    return value.producer && value.producer->attribute_ints("perm") == kHeadsFirst;
  });
}

// Replaces the node by a RotaryEmbedding of x, between transpositions if the heads of x follow its
// sequence (`heads` is 2). Attention needs the heads first, so that the transpositions meet others.
void replace(Rewrite& rewrite, onnx::Model& model, Node& node, Value* x, Value* cos, Value* sin,
             int64_t heads, std::vector<onnx::Attribute> attributes) {
  rewrite.set_changed();
  if (heads == 1) {
    node.op_type = "RotaryEmbedding";
    node.inputs = {x, cos, sin};
    node.attributes = std::move(attributes);
    return;
  }
  Value* ordered = insert_before(model, node, "Transpose", {x}, {{"perm", kHeadsFirst}});
  Value* rotated =
      insert_before(model, node, "RotaryEmbedding", {ordered, cos, sin}, std::move(attributes));
  node.op_type = "Transpose";
  node.inputs = {rotated};
  node.attributes = {{"perm", kHeadsFirst}};
}

void rotate(Rewrite& rewrite, onnx::Model& model, Node& node, Value* x, const Cache& cos,
            const Cache& sin, bool interleaved) {
  if (!cos.table || !sin.table || cos.heads != sin.heads) return;
  if (cos.table->dim(0) != sin.table->dim(0)) return;
  std::vector<onnx::Attribute> attributes;
  if (interleaved) attributes.push_back({"interleaved", int64_t{1}});
  replace(rewrite, model, node, x, cos.table, sin.table, cos.heads, std::move(attributes));
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
  if (!found || x->rank_or(0) != kRotatedRank || turned->shape != x->shape) return;
  const Cache cosines = caches.of_whole(node, cos, *x, layout);
  if (!cosines.table) return;
  rotate(rewrite, caches.model(), node, x, cosines, caches.of_whole(node, sin, *x, layout),
         layout == Layout::neighbors);
}

// concat(x1 * cos - x2 * sin, x2 * cos + x1 * sin), with caches of half the size.
void fuse_parts(Rewrite& rewrite, Uses& uses, Caches& caches, Node& node) {
  Var x, cos, sin;
  const auto real = op("Sub", mul(half(x, 0), cos), mul(half(x, 1), sin));
  const auto imaginary = add(mul(half(x, 1), cos), mul(half(x, 0), sin));
  const auto rotated = join(once(uses, real), once(uses, imaginary));
  if (!matches(node.outputs[0], rotated) || x->rank_or(0) != kRotatedRank) return;
  if (cos->dim(-1) * 2 != x->dim(-1)) return;
  const Cache cosines = caches.of_half(node, cos, *x);
  if (!cosines.table) return;
  rotate(rewrite, caches.model(), node, x, cosines, caches.of_half(node, sin, *x), false);
}

// The same for neighbors: the real and imaginary parts of pairs (x1, x2), stacked. x may have been
// reshaped to pairs.
void fuse_pairs(Rewrite& rewrite, Uses& uses, Caches& caches, Node& node) {
  Var source, cos, sin;
  const auto rotated = [&](const auto& x1, const auto& x2) {
    const auto real = op("Sub", mul(x1, cos), mul(x2, sin));
    const auto imaginary = add(mul(x2, cos), mul(x1, sin));
    const auto stacked =
        join(new_last_axis(once(uses, real)), new_last_axis(once(uses, imaginary)));
    return op("Reshape", once(uses, stacked), any);
  };
  Value* y = node.outputs[0];
  const bool strides = matches(y, rotated(every_second(source, 0), every_second(source, 1)));
  if (!strides && !matches(y, rotated(element(source, 0), element(source, 1)))) return;
  if (y->rank_or(0) != kRotatedRank || !y->dim(-1).constant()) return;
  if (cos->rank_or(0) < 2 || cos->dim(-1) * 2 != y->dim(-1)) return;
  if (strides && source->shape != y->shape) return;
  if (!strides) {
    Shape pairs = *y->shape;
    pairs.back() = *y->dim(-1).constant() / 2;
    pairs.push_back(2);
    if (!source->shape || *source->shape != pairs) return;
  }
  Value* x = strides ? source : caches.joined(node, *source, *y->dim(-1).constant());
  const Cache cosines = caches.of_half(node, cos, *x);
  rotate(rewrite, caches.model(), node, x, cosines, caches.of_half(node, sin, *x), true);
}

// concat(RotaryEmbedding(the first elements of x), the others), of which there may be none.
void absorb_partial(Rewrite& rewrite, Uses& uses, onnx::Model& model, Node& node) {
  Var whole;
  const auto none = part(any, [](const Part& p) { return p.start >= p.end; });
  if (matches(node.outputs[0], join(both(whole, op("RotaryEmbedding", any, any, any)), none))) {
    rewrite.replace(node.outputs[0], whole);
    return;
  }
  for (const int64_t heads : {1, 2}) {
    Var x, cos, sin, rotated;
    int64_t count = 0;
    const auto first = part(x, [&count](const Part& p) {
      count = p.end;
      return p.start == 0 && p.step == 1;
    });
    const auto rest = part(
        x, [&count](const Part& p) { return p.start == count && p.end == p.size && p.step == 1; });
    const auto plain = both(rotated, op("RotaryEmbedding", first, cos, sin));
    const auto ordered =
        other_order(once(uses, both(rotated, op("RotaryEmbedding", other_order(first), cos, sin))));
    Value* y = node.outputs[0];
    if (heads == 1 ? !matches(y, join(once(uses, plain), rest))
                   : !matches(y, join(once(uses, ordered), rest)))
      continue;
    std::vector<onnx::Attribute> attributes = rotated->producer->attributes;
    for (const onnx::Attribute& each : attributes) {
      if (each.name == "rotary_embedding_dim") return;
    }
    attributes.push_back({"rotary_embedding_dim", count});
    replace(rewrite, model, node, x, cos, sin, heads, std::move(attributes));
    return;
  }
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
    node.domain = onnx::kRuntimeDomain;
    model_.domains.emplace(onnx::kRuntimeDomain, 1);
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
// of only the first elements of each head. If the heads follow the sequence, x is transposed.
// The caches are expanded to the batch of x.
// Before opset 23 it becomes the contrib operator for ONNX Runtime's providers; on the CPU it takes
// 0.13 to 0.6 of the time (benchmarks/fused_operators.py).
int64_t fuse_rotary_embedding(onnx::Model& model) {
  const bool contrib = model.opset < kOpset;
  if (contrib && !onnx::has_provider(model.target)) return 0;
  Uses uses(model);
  Caches caches(model, contrib);
  const int64_t fused = sweep(model, [&](Rewrite& rewrite, onnx::Graph&, Node& node) {
    if (!node.domain.empty()) return;
    for (const Layout layout : {Layout::halves, Layout::neighbors}) {
      if (node.op_type == "Add") fuse_turned(rewrite, uses, caches, node, layout);
    }
    if (node.op_type == "Reshape") fuse_pairs(rewrite, uses, caches, node);
    if (node.op_type != "Concat") return;
    absorb_partial(rewrite, uses, model, node);
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
