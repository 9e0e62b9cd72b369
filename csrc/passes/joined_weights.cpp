#include <algorithm>
#include <unordered_map>

#include "base/weight.h"
#include "base/weight_names.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using onnx::Node;
using onnx::Value;

// The rows [start, end) of a weight, where a row is an element of the first axis.
struct Rows {
  const Value* weight;
  int64_t start, end;

  int64_t count() const { return end - start; }
};

// Appends rows; merges them with the last ones if they follow them.
void add_rows(std::vector<Rows>& all, const Rows& rows) {
  if (!all.empty() && all.back().weight == rows.weight && all.back().end == rows.start) {
    all.back().end = rows.end;
  } else {
    all.push_back(rows);
  }
}

bool is_plain_weight(const Value& value) {
  return value.is_constant() && is_floating(value.dtype) && value.rank() >= 1 &&
         !value.constant->scale;
}

bool is_on_first_axis(const Node& node) {
  const int64_t axis = node.attribute_int("axis", 0);
  return axis == 0 || (node.outputs[0] && axis == -node.outputs[0]->rank_or(0));
}

bool adds_first_axis(const Node& node) {
  return node.is("Unsqueeze") && node.inputs[1]->known_integers() == std::vector<int64_t>{0};
}

// Finds the rows of weights that a value consists of, each used only for it.
class Collector {
 public:
  explicit Collector(onnx::Model& model) : uses_(onnx::count_uses(*model.graph)) {}

  int64_t uses(const Value* value) const { return uses_.at(value); }

  // Appends the rows of the value, in row-major order. Returns false if it is something else.
  bool collect(const Value& value, std::vector<Rows>& rows) const {
    const Node* node = value.producer;
    if (!node) return add_all(value, rows);
    if (!node->domain.empty()) return false;
    if (node->op_type == "Split") return add_part(*node, value, rows);
    const bool joins = node->op_type == "Concat" && is_on_first_axis(*node);
    if (!joins && !adds_first_axis(*node)) return false;
    const size_t count = joins ? node->inputs.size() : 1;
    return std::all_of(
        node->inputs.begin(), node->inputs.begin() + static_cast<ptrdiff_t>(count),
        [&](const Value* input) { return uses(input) == 1 && collect(*input, rows); });
  }

 private:
  bool add_all(const Value& value, std::vector<Rows>& rows) const {
    if (!is_plain_weight(value) || uses(&value) != 1) return false;
    add_rows(rows, {&value, 0, value.constant->shape[0]});
    return true;
  }

  bool add_part(const Node& split, const Value& part, std::vector<Rows>& rows) const {
    const Value& weight = *split.inputs[0];
    if (!is_plain_weight(weight) || !is_on_first_axis(split) || uses(&weight) != 1) return false;
    int64_t start = 0;
    for (const Value* output : split.outputs) {
      const auto size = output && output->rank_or(0) > 0 ? output->dim(0).constant() : std::nullopt;
      if (!size) return false;
      if (output == &part) {
        add_rows(rows, {&weight, start, start + *size});
        return true;
      }
      start += *size;
    }
    return false;
  }

  std::unordered_map<const Value*, int64_t> uses_;
};

// Returns true if these are all rows of weights whose rows have the same size.
bool is_complete(const std::vector<Rows>& rows) {
  std::unordered_map<const Value*, int64_t> counts;
  for (const Rows& part : rows) counts[part.weight] += part.count();
  const auto row_shape = [](const Value* weight) {
    return std::span(weight->constant->shape).subspan(1);
  };
  return std::ranges::all_of(counts, [&](const auto& entry) {
    return entry.second == entry.first->constant->shape[0] &&
           std::ranges::equal(row_shape(entry.first), row_shape(rows[0].weight));
  });
}

std::string name_of(const std::vector<Rows>& rows) {
  std::vector<WeightPart> parts;
  for (const Rows& each : rows) {
    parts.push_back({each.weight->named ? each.weight->name : "", {{each.start, each.end}}});
  }
  return joined_name(parts);
}

// Appends rows of a tensor to bytes.
void append(std::vector<std::byte>& bytes, const TensorData& data, int64_t start, int64_t count) {
  TensorData part = data;
  int64_t row = data.strides.empty() ? data.numel() / data.shape[0] : data.strides[0];
  part.data += start * row * item_size(data.dtype);
  part.shape[0] = count;
  part.stream([&bytes](std::span<const std::byte> piece) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  });
}

// Returns a constant that puts the rows together whenever it is written.
TensorData joined_rows(const std::vector<Rows>& rows, const std::vector<int64_t>& shape) {
  struct Range {
    size_t source;
    int64_t start, count;
  };
  std::vector<TensorData> sources;
  std::vector<Range> ranges;
  for (const Rows& part : rows) {
    if (part.count() == 0) continue;
    sources.push_back(*part.weight->constant);
    ranges.push_back({sources.size() - 1, part.start, part.count()});
  }
  const DType dtype = rows[0].weight->dtype;
  const auto compute = [dtype, shape, ranges = std::move(ranges)](
                           std::span<const TensorData> now) -> std::optional<TensorData> {
    std::vector<std::byte> bytes;
    size_t size = static_cast<size_t>(item_size(dtype));
    for (const int64_t length : shape) size *= static_cast<size_t>(length);
    bytes.reserve(size);
    for (const Range& range : ranges) append(bytes, now[range.source], range.start, range.count);
    return make_tensor(dtype, shape, std::move(bytes));
  };
  return on_demand(dtype, shape, {std::move(sources), compute});
}

bool is_recurrent(const Node& node) { return node.is_any({"LSTM", "GRU", "RNN"}); }

constexpr size_t kFirstWeight = 1;  // X, W, R, B
constexpr size_t kLastWeight = 3;

// Counts the uses of values as weights of recurrent operators.
std::unordered_map<const Value*, int64_t> weights_of_recurrences(onnx::Graph& main) {
  std::unordered_map<const Value*, int64_t> counts;
  onnx::for_each_graph(main, [&counts](const onnx::Graph& graph) {
    for (const Node* node : graph.nodes) {
      if (!is_recurrent(*node)) continue;
      for (size_t i = kFirstWeight; i <= kLastWeight; ++i) ++counts[node->input(i)];
    }
  });
  return counts;
}

}  // namespace

// A weight of LSTM, GRU or RNN that puts together all rows of parameters that nothing else uses, in
// the order of ONNX's gates and directions, becomes one initializer. Its rows are gathered while it
// is written, so that one weight at a time is in memory twice. Its name tells the rows:
// "<name>[0:2,6:8,2:6]+<name>_reverse[0:2,6:8,2:6]".
int64_t join_weights(onnx::Model& model) {
  if (model.weights == WeightLayout::module) return 0;
  const auto as_weights = weights_of_recurrences(*model.graph);
  if (as_weights.empty()) return 0;
  const Collector collector(model);
  return sweep(model, [&](Rewrite& rewrite, onnx::Graph&, Node& node) {
    if (!is_recurrent(node)) return;
    for (size_t i = kFirstWeight; i <= kLastWeight; ++i) {
      Value* value = node.input(i);
      if (!value || !value->producer || rewrite.is_result(value)) continue;
      if (collector.uses(value) != as_weights.at(value)) continue;
      const auto shape = value->shape ? constant_shape(*value->shape) : std::nullopt;
      std::vector<Rows> rows;
      if (!shape || !collector.collect(*value, rows) || !is_complete(rows)) continue;
      const std::string name = name_of(rows);
      Value* joined = model.graph->add_initializer(name, joined_rows(rows, *shape));
      joined->named = !name.empty();
      if (rewrite.replace(value, joined)) node.inputs[i] = joined;
    }
  });
}

}  // namespace onnx_native::passes
