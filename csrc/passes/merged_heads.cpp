#include <array>

#include "onnx/typing.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using namespace match;  // NOLINT(google-build-using-namespace)
using Ints = std::vector<int64_t>;
using Attributes = std::vector<onnx::Attribute>;

// One of query, key and value: (batch, length, heads, size), transposed, perhaps normalized and
// perhaps rotated.
struct Heads {
  Value* split = nullptr;    // before the Transpose; nullptr: a part of `packed`
  Value* packed = nullptr;   // query, key and value, one after the other along the last axis
  int64_t index = 0;         // the part of `packed`
  Node* norm = nullptr;      // an RMSNormalization of each head; nullptr: none
  Node* rotation = nullptr;  // a RotaryEmbedding after the Transpose; nullptr: none
  int64_t count = 0;
  int64_t size = 0;
};

auto swapped_axes(Var& split) {
  return where(op("Transpose", split), [](const Value& value) {
    return value.producer && value.producer->attribute_ints("perm") == Ints{0, 2, 1, 3};
  });
}

// Matches one of the parts of a projection that is reshaped to (batch, length, parts, heads, size)
// and transposed to (parts, batch, heads, length, size).
auto taken_part(Uses& uses, Var& packed, Var& apart, Var& index) {
  const auto turned =
      where(op("Transpose", both(apart, op("Reshape", packed, any))), [](const Value& value) {
        return value.producer->attribute_ints("perm") == Ints{2, 0, 3, 1, 4};
      });
  return once(uses, op("Gather", turned, constant(index)).with("axis", 0, 0));
}

// Returns true if the Reshape splits the last axis into parts, heads and their size.
bool splits_last_axis(const Value& packed, const Value& apart) {
  if (packed.rank_or(0) != 3 || apart.rank_or(0) != 5) return false;
  const auto parts = apart.dim(2).constant(), count = apart.dim(3).constant(),
             size = apart.dim(4).constant();
  return parts && count && size && packed.dim(2).equals(*parts * *count * *size) &&
         packed.dim(0) == apart.dim(0) && packed.dim(1) == apart.dim(1);
}

bool is_of_last_axis(const Node& norm) {
  const int64_t axis = norm.attribute_int("axis", -1);
  return axis == -1 || axis == 3;
}

std::optional<Heads> heads_of(Uses& uses, Value* value) {
  Var split, packed, apart, index, weight, normal, cos, sin, rotated;
  const auto turned = any_of(swapped_axes(split), taken_part(uses, packed, apart, index));
  const auto norm = where(op("RMSNormalization", turned, weight), [](const Value& v) {
    return v.producer && is_of_last_axis(*v.producer);
  });
  const auto straight = any_of(turned, both(normal, once(uses, norm)));
  const auto rotation = once(uses, op("RotaryEmbedding", straight, cos, sin));
  if (!value || !matches(value, any_of(straight, both(rotated, rotation)))) return std::nullopt;
  Heads heads{.split = split,
              .packed = packed,
              .norm = normal ? normal->producer : nullptr,
              .rotation = rotated ? rotated->producer : nullptr};
  if (packed) {
    if (index->rank_or(-1) != 0 || !splits_last_axis(*packed, *apart)) return std::nullopt;
    heads.index = static_cast<int64_t>(to_number(*index));
    if (heads.index < 0) heads.index += *apart->dim(2).constant();
  } else if (split->rank_or(0) != 4) {
    return std::nullopt;
  }
  const int64_t axis = packed ? 3 : 2;
  const Value& sizes = packed ? *apart : *split;
  const auto count = sizes.dim(axis).constant(), size = sizes.dim(axis + 1).constant();
  if (!count || !size || *count * *size == 0) return std::nullopt;
  heads.count = *count;
  heads.size = *size;
  return heads;
}

// Inserts nodes before one node, at its location.
class Inserter {
 public:
  Inserter(onnx::Model& model, Node& at) : model_(model), at_(at) {}

  Node* node(std::string_view op_type, std::vector<Value*> inputs, Attributes attributes,
             size_t outputs) {
    return insert_node_before(model_, at_, op_type, std::move(inputs), std::move(attributes),
                              outputs);
  }
  Value* op(std::string_view op_type, std::vector<Value*> inputs, Attributes attributes = {}) {
    return node(op_type, std::move(inputs), std::move(attributes), 1)->outputs[0];
  }
  Value* integers(const Ints& values) { return model_.graph->add_integers(values); }
  // Returns the tensor as (batch, length, heads * size).
  Value* merged(const Heads& heads) {
    Value* result = heads.packed ? part(heads) : joined(heads);
    if (!heads.rotation) return result;
    Attributes attributes = heads.rotation->attributes;
    std::erase_if(attributes, [](const auto& each) { return each.name == "num_heads"; });
    attributes.push_back({"num_heads", heads.count});
    const auto& inputs = heads.rotation->inputs;
    return op("RotaryEmbedding", {result, inputs[1], inputs[2]}, std::move(attributes));
  }

 private:
  Value* joined(const Heads& heads) {
    const Shape shape{heads.split->dim(0), heads.split->dim(1), heads.count * heads.size};
    Var whole;
    const bool is_reshaped = matches(heads.split, match::op("Reshape", whole, any));
    if (is_reshaped && !heads.norm && whole->shape && *whole->shape == shape) return whole;
    return joined(heads, heads.split);
  }
  Value* joined(const Heads& heads, Value* split) {
    if (heads.norm) {
      split = op("RMSNormalization", {split, heads.norm->inputs[1]}, heads.norm->attributes);
    }
    return op("Reshape", {split, integers({0, 0, heads.count * heads.size})});
  }
  Value* part(const Heads& heads) {
    const int64_t width = heads.count * heads.size, start = heads.index * width;
    Value* whole = op("Slice", {heads.packed, integers({start}), integers({start + width}),
                                integers({2}), integers({1})});
    if (!heads.norm) return whole;
    return joined(heads, op("Reshape", {whole, integers({0, 0, heads.count, heads.size})}));
  }

  onnx::Model& model_;
  Node& at_;
};

// Query, key, value, mask, past key and value; the output, present key and value.
constexpr size_t kMostInputs = 6;
constexpr size_t kMostOutputs = 3;

bool is_used(Uses& uses, const Node& node, size_t output) {
  return output < node.outputs.size() && node.outputs[output] && uses.of(node.outputs[output]) > 0;
}

// Returns true for an Attention of three 4-D tensors, perhaps with a mask and a cache.
bool is_split(Uses& uses, const Node& node) {
  if (!node.is("Attention") || node.inputs.size() < 3 || node.inputs.size() > kMostInputs) {
    return false;
  }
  return !is_used(uses, node, kMostOutputs) && node.inputs[0] && node.inputs[0]->rank_or(0) == 4;
}

void merge_heads(Rewrite& rewrite, Uses& uses, onnx::Model& model, Node& node) {
  if (!is_split(uses, node)) return;
  std::array<Heads, 3> heads;
  for (size_t i = 0; i < heads.size(); ++i) {
    const auto found = heads_of(uses, node.inputs[i]);
    if (!found) return;
    heads[i] = *found;
  }
  Inserter at(model, node);
  std::vector<Value*> inputs = node.inputs;
  for (size_t i = 0; i < heads.size(); ++i) inputs[i] = at.merged(heads[i]);
  Attributes attributes = node.attributes;
  attributes.push_back({"q_num_heads", heads[0].count});
  attributes.push_back({"kv_num_heads", heads[1].count});
  const bool has_cache = is_used(uses, node, 1) || is_used(uses, node, 2);
  const Node& merged =
      *at.node("Attention", std::move(inputs), std::move(attributes), has_cache ? kMostOutputs : 1);
  for (size_t i = 1; i < merged.outputs.size(); ++i) {
    if (i >= node.outputs.size() || !node.outputs[i]) continue;
    onnx::Typing::copy(*node.outputs[i], *merged.outputs[i]);
    rewrite.replace_all(node, node.outputs[i], merged.outputs[i]);
  }
  Value* split =
      at.op("Reshape", {merged.outputs[0], at.integers({0, 0, heads[0].count, heads[2].size})});
  Value* swapped = at.op("Transpose", {split}, {{"perm", Ints{0, 2, 1, 3}}});
  rewrite.replace_all(node, node.outputs[0], swapped);
}

}  // namespace

// An Attention whose query, key and value are (batch, length, heads, size) tensors transposed to
// (batch, heads, length, size), with or without RMSNormalization and RotaryEmbedding, takes them as
// (batch, length, heads * size) instead. Its result is transposed, which the model usually reverts.
// Likewise if they are parts of one projection, (batch, length, 3 * heads * size), that is reshaped
// and transposed before it is taken apart.
// ONNX Runtime takes 0.75 to 0.95 of the time (benchmarks/fused_operators.py).
int64_t merge_attention_heads(onnx::Model& model) {
  if (model.opset < 23) return 0;
  Uses uses(model);
  return sweep(model, [&](Rewrite& rewrite, onnx::Graph&, Node& node) {
    merge_heads(rewrite, uses, model, node);
  });
}

}  // namespace onnx_native::passes
