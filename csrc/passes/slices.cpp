#include <algorithm>
#include <map>

#include "onnx/typing.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using onnx::Graph;
using onnx::Node;
using onnx::Value;
using Ints = std::vector<int64_t>;

std::optional<Ints> known_integers(const Value* value) {
  return value ? value->known_integers() : std::nullopt;
}

// The constant parameters of a Slice, by axis.
struct Bounds {
  int64_t start;
  int64_t end;
  int64_t step;
};
using Cuts = std::map<int64_t, Bounds>;

std::optional<Cuts> cuts_of(const Node& node) {
  if (!node.is("Slice") || !node.inputs[0]->shape) {
    return std::nullopt;
  }
  const auto starts = known_integers(node.input(1));
  const auto ends = known_integers(node.input(2));
  const auto axes = known_integers(node.input(3));
  if (!starts || !ends || !axes || starts->size() != axes->size()) return std::nullopt;
  const auto steps =
      node.input(4) ? known_integers(node.inputs[4]) : std::optional(Ints(axes->size(), 1));
  if (!steps || steps->size() != axes->size()) return std::nullopt;
  const int64_t rank = node.inputs[0]->rank();
  Cuts cuts;
  for (size_t i = 0; i < axes->size(); ++i) {
    const int64_t axis = (*axes)[i] < 0 ? (*axes)[i] + rank : (*axes)[i];
    cuts[axis] = {(*starts)[i], (*ends)[i], (*steps)[i]};
  }
  return cuts;
}

// A range of one axis whose size is constant.
struct Piece {
  int64_t axis;
  int64_t start;
  int64_t end;
  int64_t size;  // of the axis
};

std::optional<Piece> piece_of(const Node& node) {
  const auto cuts = cuts_of(node);
  if (!cuts || cuts->size() != 1) return std::nullopt;
  const auto& [axis, bounds] = *cuts->begin();
  const auto size = node.inputs[0]->dim(axis).constant();
  if (!size || bounds.step != 1) return std::nullopt;
  const auto clamped = [size](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + *size : at, 0, *size);
  };
  const Piece piece{axis, clamped(bounds.start), clamped(bounds.end), *size};
  return piece.start < piece.end ? std::optional(piece) : std::nullopt;
}

// The slices of one value along one axis, by their start.
struct Tiling {
  std::map<int64_t, int64_t> ends;
  int64_t size = 0;
  bool overlaps = false;
  std::map<int64_t, Value*> parts;  // outputs of the Split, once it exists

  bool is_complete() const {
    int64_t at = 0;
    for (const auto& [start, end] : ends) {
      if (start != at) return false;
      at = end;
    }
    return !overlaps && ends.size() > 1 && at == size;
  }
};

class SliceRules {
 public:
  explicit SliceRules(onnx::Model& model) {
    onnx::for_each_graph(*model.graph, [this](const Graph& graph) {
      for (const Node* node : graph.nodes) {
        const auto piece = piece_of(*node);
        if (!piece) continue;
        Tiling& tiling = tilings_[{&graph, node->inputs[0], piece->axis}];
        tiling.size = piece->size;
        const auto [found, is_new] = tiling.ends.emplace(piece->start, piece->end);
        tiling.overlaps |= !is_new && found->second != piece->end;
        of_node_[node] = &tiling;
      }
    });
  }

  void apply(Rewrite& rewrite, Graph& graph, Node& node) {
    if (!node.is("Slice")) return;
    if (take_operand(rewrite, node) || split(rewrite, graph, node)) return;
    merge(rewrite, graph, node);
  }

 private:
  // A slice of a Concat that is one of its operands becomes that operand.
  static bool take_operand(Rewrite& rewrite, const Node& node) {
    const Node* concat = node.inputs[0]->producer;
    if (!concat || !concat->is("Concat")) return false;
    const auto piece = piece_of(node);
    if (!piece) return false;
    const int64_t axis = concat->attribute_int("axis", 0);
    if ((axis < 0 ? axis + node.inputs[0]->rank() : axis) != piece->axis) return false;
    int64_t start = 0;
    for (Value* operand : concat->inputs) {
      const auto size = operand->shape ? operand->dim(piece->axis).constant() : std::nullopt;
      if (!size) return false;
      if (start == piece->start && start + *size == piece->end) {
        return rewrite.replace(node.outputs[0], operand);
      }
      start += *size;
    }
    return false;
  }

  // Slices that together are the whole axis become one Split, in the place of the first.
  bool split(Rewrite& rewrite, Graph& graph, Node& node) {
    const auto found = of_node_.find(&node);
    if (found == of_node_.end() || !found->second->is_complete()) return false;
    Tiling& tiling = *found->second;
    const auto piece = piece_of(node);
    if (!piece) return false;
    if (tiling.parts.empty()) add_split(graph, node, piece->axis, tiling);
    rewrite.replace_all(node, node.outputs[0], tiling.parts.at(piece->start));
    return true;
  }

  static void add_split(Graph& graph, Node& node, int64_t axis, Tiling& tiling) {
    Ints sizes;
    for (const auto& [start, end] : tiling.ends) sizes.push_back(end - start);
    Value* lengths = graph.add_integers(sizes);
    Node* split = graph.insert_node(node.position, "Split", {node.inputs[0], lengths}, sizes.size(),
                                    {{"axis", axis}});
    split->location = node.location;
    size_t index = 0;
    for (const auto& [start, end] : tiling.ends) {
      Value* part = split->outputs[index++];
      Shape shape = node.inputs[0]->known_shape();
      shape[static_cast<size_t>(axis)] = Dim(end - start);
      onnx::Typing::set(*part, node.inputs[0]->dtype, std::move(shape));
      tiling.parts[start] = part;
    }
  }

  // A slice of a slice along other axes becomes one Slice.
  static void merge(Rewrite& rewrite, Graph& graph, Node& node) {
    const Node* inner = node.inputs[0]->producer;
    auto cuts = cuts_of(node);
    const auto first = inner && cuts ? cuts_of(*inner) : std::nullopt;
    if (!first) return;
    for (const auto& [axis, bounds] : *first) {
      if (!cuts->emplace(axis, bounds).second) return;
    }
    Ints starts, ends, axes, steps;
    for (const auto& [axis, bounds] : *cuts) {
      starts.push_back(bounds.start);
      ends.push_back(bounds.end);
      axes.push_back(axis);
      steps.push_back(bounds.step);
    }
    node.inputs = {inner->inputs[0]};
    for (const Ints& values : {starts, ends, axes, steps})
      node.inputs.push_back(graph.add_integers(values));
    rewrite.set_changed();
  }

  std::map<std::tuple<const Graph*, const Value*, int64_t>, Tiling> tilings_;
  std::unordered_map<const Node*, Tiling*> of_node_;
};

}  // namespace

// Slices with constant bounds. Slices of one value that together are the whole of an axis become
// one Split. A slice of a Concat that is one of its operands becomes that operand. A slice of a
// slice along other axes becomes one Slice.
int64_t clean_slices(onnx::Model& model) {
  if (model.opset < 13) return 0;  // Split has an attribute for the sizes
  SliceRules rules(model);
  return sweep(model, [&rules](Rewrite& rewrite, Graph& graph, Node& node) {
    rules.apply(rewrite, graph, node);
  });
}

}  // namespace onnx_native::passes
