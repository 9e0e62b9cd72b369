#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "passes/elementwise.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using onnx::Graph;
using onnx::Node;
using onnx::Value;
using Ints = std::vector<int64_t>;

constexpr int64_t kToEnd = std::numeric_limits<int64_t>::max();

// A range of one axis, as Slice takes it.
struct Window {
  int64_t axis;
  int64_t start;
  int64_t end;
  bool operator==(const Window&) const = default;

  Window at(int64_t other) const { return {other, start, end}; }
};
using Windows = std::vector<std::optional<Window>>;  // one per input; nullopt: taken whole

// Returns the number of indices from start to end; nullopt if it depends on the size of the axis.
std::optional<int64_t> length_of(int64_t start, int64_t end) {
  if (start < 0 && end > std::numeric_limits<int32_t>::max()) return -start;
  if ((start < 0) != (end < 0)) return std::nullopt;
  return end - start;
}

// Returns a window of few indices: one, or at most half of a constant size.
std::optional<Window> small_window(const Value& data, int64_t axis, int64_t start, int64_t end) {
  const auto length = length_of(start, end);
  if (!data.shape || !length || *length < 1) return std::nullopt;
  if (axis < 0) axis += data.rank();
  const auto size = data.dim(axis).constant();
  if (size ? *length > *size / 2 : *length > 1) return std::nullopt;
  return Window{axis, start, end};
}

// Returns what a Gather of one index, or a Slice of one axis, selects.
std::optional<Window> selected(const Node& node) {
  const auto of = [&node](size_t i) {
    return node.input(i) ? node.inputs[i]->known_integers() : std::nullopt;
  };
  if (node.is("Gather")) {
    const auto index = of(1);
    if (!index || node.inputs[1]->rank_or(-1) != 0) return std::nullopt;
    const int64_t start = index->at(0);
    return small_window(*node.inputs[0], node.attribute_int("axis", 0), start,
                        start == -1 ? kToEnd : start + 1);
  }
  if (!node.is("Slice")) return std::nullopt;
  const auto starts = of(1), ends = of(2), axes = of(3);
  if (!starts || !ends || !axes || axes->size() != 1) return std::nullopt;
  if (node.input(4) && of(4) != Ints{1}) return std::nullopt;
  return small_window(*node.inputs[0], axes->at(0), starts->at(0), ends->at(0));
}

std::optional<Windows> of_broadcast(const Node& node, const Value& result, const Window& window) {
  Windows windows;
  for (const Value* input : node.inputs) {
    windows.emplace_back();
    if (!input) continue;
    if (!input->shape) return std::nullopt;
    const int64_t axis = window.axis - (result.rank() - input->rank());
    if (axis < 0 || input->dim(axis).equals(1)) continue;
    if (input->dim(axis) != result.dim(window.axis)) return std::nullopt;
    windows.back() = window.at(axis);
  }
  return windows;
}

// Returns true for an Attention each of whose rows depends on one row of the query alone.
bool attends_to_all(const Node& node) {
  if (!node.is("Attention") || node.attribute_int("is_causal", 0) != 0) return false;
  for (size_t i = 3; i < node.inputs.size(); ++i) {
    if (node.inputs[i]) return false;
  }
  return true;
}

// Returns the windows of the inputs from which the node computes a window of its result; nullopt if
// it needs more than that.
std::optional<Windows> needed(const Node& node, const Window& window) {
  const Value& result = *node.outputs[0];
  if (!result.shape || node.inputs.empty() || !node.inputs[0]) return std::nullopt;
  for (size_t i = 1; i < node.outputs.size(); ++i) {
    if (node.outputs[i]) return std::nullopt;
  }
  if (is_elementwise(node)) return of_broadcast(node, result, window);
  const int64_t rank = result.rank();
  if (node.inputs[0]->rank_or(-1) != rank) return std::nullopt;
  Windows windows(node.inputs.size());
  windows[0] = window;
  const bool is_row = window.axis < rank - 1;
  if (is_row && normalizes_last_axis(node, rank)) return windows;
  if (is_row && node.is("MatMul") && node.inputs[1]->rank_or(-1) == 2) return windows;
  if (window.axis == rank - 2 && rank >= 3 && attends_to_all(node)) return windows;
  return std::nullopt;
}

// The nodes that compute a window instead of everything, found from the selections upwards.
class Plan {
 public:
  struct Step {
    size_t region;
    Windows inputs;
  };

  explicit Plan(onnx::Model& model) : uses_(onnx::count_uses(*model.graph)) {
    onnx::for_each_graph(*model.graph, [this](Graph& graph) {
      for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) visit(**node);
    });
  }

  // Returns the step of a selection or of a node to narrow; nullptr if it stays.
  const Step* find(const Node& node) const {
    const auto found = steps_.find(&node);
    if (found == steps_.end() || !pays_[root(found->second.region)]) return nullptr;
    return &found->second;
  }

 private:
  // The parts of a value that its uses ask for.
  struct Request {
    Window window;
    size_t region;
    int64_t uses = 0;
    bool differs = false;
  };

  void visit(Node& node) {
    if (node.outputs.empty() || !node.outputs[0]) return;
    if (const auto window = selected(node)) {
      parents_.push_back(parents_.size());
      pays_.push_back(false);
      return add(node, {parents_.back(), {*window}});
    }
    const auto found = requests_.find(node.outputs[0]);
    if (found == requests_.end()) return;
    const Request request = found->second;
    if (request.differs || request.uses != uses_.at(node.outputs[0])) return;
    auto inputs = needed(node, request.window);
    if (!inputs) return;
    if (node.is("MatMul")) pays_[root(request.region)] = true;
    add(node, {request.region, std::move(*inputs)});
  }

  void add(const Node& node, Step step) {
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const Value* input = node.inputs[i];
      if (!step.inputs[i] || input->graph != node.outputs[0]->graph) continue;
      const auto [found, is_new] = requests_.emplace(input, Request{*step.inputs[i], step.region});
      Request& request = found->second;
      ++request.uses;
      if (is_new) continue;
      request.differs |= request.window != *step.inputs[i];
      if (!request.differs) unite(request.region, step.region);
    }
    steps_.emplace(&node, std::move(step));
  }

  size_t root(size_t region) const {
    while (parents_[region] != region) region = parents_[region];
    return region;
  }
  void unite(size_t one, size_t other) {
    one = root(one), other = root(other);
    pays_[one] = pays_[one] || pays_[other];
    parents_[other] = one;
  }

  std::unordered_map<const Value*, int64_t> uses_;
  std::unordered_map<const Value*, Request> requests_;
  std::unordered_map<const Node*, Step> steps_;
  std::vector<size_t> parents_;  // regions that share values are one
  std::vector<bool> pays_;       // a region with a product
};

class Narrowing {
 public:
  explicit Narrowing(onnx::Model& model) : model_(model), plan_(model) {}

  void apply(Rewrite& rewrite, Node& node) {
    const Plan::Step* step = plan_.find(node);
    if (!step) return;
    if (node.is_any({"Gather", "Slice"})) return select(rewrite, node);
    std::vector<Value*> inputs = node.inputs;
    for (size_t i = 0; i < step->inputs.size(); ++i) {
      if (step->inputs[i]) inputs[i] = part(node, node.inputs[i], *step->inputs[i]);
    }
    narrowed_[node.outputs[0]] =
        insert_before(model_, node, node.op_type, std::move(inputs), node.attributes);
  }

 private:
  // Selects from what is narrowed.
  void select(Rewrite& rewrite, Node& node) {
    const auto found = narrowed_.find(node.inputs[0]);
    if (found == narrowed_.end()) return;
    if (node.is("Slice")) return rewrite.replace_all(node, node.outputs[0], found->second);
    Value* first =
        model_.graph->add_initializer("", make_tensor(node.inputs[1]->dtype, {}, Ints{0}));
    node.inputs = {found->second, first};
    rewrite.set_changed();
  }

  Value* part(Node& node, Value* whole, const Window& window) {
    const auto found = narrowed_.find(whole);
    if (found != narrowed_.end()) return found->second;
    Graph* graph = node.outputs[0]->graph;
    Value*& slice = slices_[{graph, whole, window.axis, window.start, window.end}];
    if (!slice) {
      const auto integer = [this](int64_t number) {
        return model_.graph->add_integers(Ints{number});
      };
      slice = insert_before(
          model_, node, "Slice",
          {whole, integer(window.start), integer(window.end), integer(window.axis), integer(1)});
    }
    return slice;
  }

  onnx::Model& model_;
  Plan plan_;
  std::unordered_map<const Value*, Value*> narrowed_;
  // By what is sliced, and the axis, start and end of the window.
  std::map<std::tuple<const Graph*, const Value*, int64_t, int64_t, int64_t>, Value*> slices_;
};

}  // namespace

// A Gather of one index, or a Slice of few, moves before the products, norms, elementwise operators
// and queries whose other results nothing uses: MatMul(x, w)[:, 0] becomes MatMul(x[:, 0:1], w). So
// a classifier of the first token computes that token alone after the keys and values of the last
// layer. The axis stays, with its new size, until the end.
int64_t slice_early(onnx::Model& model) {
  Narrowing narrowing(model);
  return sweep(model, [&narrowing](Rewrite& rewrite, Graph&, Node& node) {
    narrowing.apply(rewrite, node);
  });
}

}  // namespace onnx_native::passes
