#include "onnx/infer.h"
#include "onnx/typing.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using match::Uses;
using onnx::Node;
using onnx::Value;

constexpr int64_t kCacheRank = 4;     // batch, heads, length, size
constexpr int64_t kLength = 2;        // the axis
constexpr size_t kInputsOfCache = 4;  // query, key, value, mask come before past key and value

// A cache that grows: Concat(past, added) along the length.
struct GrowingCache {
  Value* past;
  Value* added;
};

bool has_rank(const Value* value) { return value->rank_or(0) == kCacheRank; }

// Returns the cache if the model uses it for nothing but one attention and as a result.
std::optional<GrowingCache> cache_of(const Rewrite& rewrite, Uses& uses, const Value& whole,
                                     const onnx::Graph* graph) {
  const Node* concat = whole.producer;
  if (!concat || !concat->is("Concat")) return std::nullopt;
  if (whole.graph != graph || concat->inputs.size() != 2 || !has_rank(&whole)) return std::nullopt;
  const int64_t axis = concat->attribute_int("axis", 0);
  if (axis != kLength && axis != kLength - kCacheRank) return std::nullopt;
  if (uses.of(&whole) != (rewrite.is_result(&whole) ? 2 : 1)) return std::nullopt;
  const GrowingCache cache{concat->inputs[0], concat->inputs[1]};
  if (!has_rank(cache.past) || !has_rank(cache.added)) return std::nullopt;
  // ONNX Runtime takes the numbers of new keys and values from the query and the masks; a cache
  // whose new part is empty is left alone.
  return cache.added->dim(kLength).known_positive() ? std::optional(cache) : std::nullopt;
}

bool takes_cache(const Node& node) {
  return node.is("Attention") && node.inputs.size() >= 3 && node.inputs.size() <= kInputsOfCache &&
         node.outputs.size() == 1 && has_rank(node.inputs[0]) &&
         node.attribute_int("is_causal", 0) == 0;
}

void absorb_cache(Rewrite& rewrite, Uses& uses, onnx::Model& model, Node& node) {
  if (!takes_cache(node) || node.inputs[1] == node.inputs[2]) return;
  onnx::Graph* graph = node.outputs[0]->graph;
  Value *keys = node.inputs[1], *values = node.inputs[2];
  const auto of_keys = cache_of(rewrite, uses, *keys, graph);
  const auto of_values = cache_of(rewrite, uses, *values, graph);
  if (!of_keys || !of_values) return;
  std::vector<Value*> inputs{node.inputs[0], of_keys->added, of_values->added,
                             node.input(3),  of_keys->past,  of_values->past};
  Node* made =
      graph->insert_node(node.position, "Attention", std::move(inputs), 3, node.attributes);
  made->location = node.location;
  onnx::infer(*made, model.opset);
  const std::vector<Value*> replaced{node.outputs[0], keys, values};
  for (size_t i = 0; i < replaced.size(); ++i) {
    onnx::Typing::copy(*replaced[i], *made->outputs[i]);
    rewrite.replace_all(node, replaced[i], made->outputs[i]);
  }
}

}  // namespace

// An Attention of Concat(past, new) for keys and values takes the past as its own inputs, and its
// outputs take the place of the Concat's as results of the model, which nothing else may use.
// Without a causal mask, because runtimes align it to different corners.
int64_t absorb_attention_caches(onnx::Model& model) {
  if (model.opset != 23 && model.opset != 24) return 0;  // else ONNX Runtime has no kernel
  Uses uses(model);
  return sweep(model, [&](Rewrite& rewrite, onnx::Graph&, Node& node) {
    absorb_cache(rewrite, uses, model, node);
  });
}

}  // namespace onnx_native::passes
