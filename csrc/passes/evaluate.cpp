#include "passes/evaluate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "onnx/typing.h"
#include "passes/elements.h"
#include "passes/folds.h"

namespace onnx_native::passes {
namespace {

using onnx::Node;
using Ints = std::vector<int64_t>;

using Inputs = FoldInputs;
using Result = std::optional<Elements>;

Result fold_binary(const Node& node, const Inputs& inputs, int64_t) {
  Result result = inputs[0];
  for (size_t i = 1; result && i < inputs.size(); ++i) {
    result = binary(node.op_type, *result, *inputs[i]);
  }
  return result;
}

using RealFunction = double (*)(double);

// Functions of floats, computed in float64 and rounded once. Eager and runtimes approximate them in
// float32, and may be a unit in the last place away from the exact result, each in its own way.
// Integers have only some of them.
const std::unordered_map<std::string_view, RealFunction>& functions() {
  static const std::unordered_map<std::string_view, RealFunction> kFunctions{
      {"Neg", [](double x) { return -x; }},
      {"Abs", [](double x) { return std::abs(x); }},
      {"Sqrt", [](double x) { return std::sqrt(x); }},
      {"Floor", [](double x) { return std::floor(x); }},
      {"Ceil", [](double x) { return std::ceil(x); }},
      {"Round", [](double x) { return std::nearbyint(x); }},
      {"Reciprocal", [](double x) { return 1 / x; }},
      {"Exp", [](double x) { return std::exp(x); }},
      {"Log", [](double x) { return std::log(x); }},
      {"Sin", [](double x) { return std::sin(x); }},
      {"Cos", [](double x) { return std::cos(x); }},
      {"Tan", [](double x) { return std::tan(x); }},
      {"Asin", [](double x) { return std::asin(x); }},
      {"Acos", [](double x) { return std::acos(x); }},
      {"Atan", [](double x) { return std::atan(x); }},
      {"Sinh", [](double x) { return std::sinh(x); }},
      {"Cosh", [](double x) { return std::cosh(x); }},
      {"Asinh", [](double x) { return std::asinh(x); }},
      {"Acosh", [](double x) { return std::acosh(x); }},
      {"Atanh", [](double x) { return std::atanh(x); }},
      {"Erf", [](double x) { return std::erf(x); }},
      {"Tanh", [](double x) { return std::tanh(x); }},
      {"Sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"Relu", [](double x) { return x < 0 ? 0 : x; }},
      {"Sign", [](double x) { return x > 0   ? 1.0
                                     : x < 0 ? -1.0
                                             : x; }},
      {"Not", nullptr},
  };
  return kFunctions;
}

Result fold_unary(const Node& node, const Inputs& inputs, int64_t) {
  Elements x = *inputs[0];
  const std::string_view op = node.op_type;
  const RealFunction function = functions().at(op);
  if (x.floating() && !function) return std::nullopt;
  for (double& value : x.floats) value = function(value);
  if (!x.integers.empty() && op != "Neg" && op != "Abs" && op != "Not" && op != "Sign")
    return std::nullopt;
  for (int64_t& value : x.integers) {
    if (op == "Not") {
      value = value == 0;
    } else if (op == "Sign") {
      value = (value > 0) - (value < 0);
    } else if (op == "Neg" || value < 0) {
      value = static_cast<int64_t>(-static_cast<uint64_t>(value));
    }
  }
  return x;
}

Result fold_clip(const Node&, const Inputs& inputs, int64_t) {
  Elements x = *inputs[0];
  const auto clip = [&](auto& values, auto Elements::*of) {
    for (const size_t side : {1, 2}) {
      if (inputs.size() <= side || !inputs[side]) continue;
      const auto bound = (*inputs[side].*of).at(0);
      for (auto& value : values) {
        if (side == 1 ? value < bound : value > bound) value = bound;
      }
    }
  };
  x.floating() ? clip(x.floats, &Elements::floats) : clip(x.integers, &Elements::integers);
  return x;
}

Result fold_cast(const Node& node, const Inputs& inputs, int64_t) {
  const Elements& x = *inputs[0];
  Elements result{static_cast<DType>(node.attribute_int("to", 0)), x.shape, {}, {}};
  if (!has_elements(result.dtype)) return std::nullopt;
  constexpr double kExact = 9007199254740992.0;  // 2**53: doubles hold integers up to here
  for (const double value : x.floats) {
    if (result.floating()) {
      result.floats.push_back(value);
    } else if (result.dtype == DType::boolean) {
      result.integers.push_back(value != 0);
    } else {
      const double whole = std::trunc(value);
      if (!(whole >= lowest_value(result.dtype) && whole <= max_value(result.dtype)) ||
          std::abs(whole) > kExact) {
        return std::nullopt;
      }
      result.integers.push_back(static_cast<int64_t>(whole));
    }
  }
  for (const int64_t value : x.integers) {
    if (!result.floating()) {
      result.integers.push_back(value);
    } else if (std::abs(static_cast<double>(value)) <= kExact) {
      result.floats.push_back(static_cast<double>(value));
    } else {
      return std::nullopt;
    }
  }
  return result;
}

Result fold_where(const Node&, const Inputs& inputs, int64_t) {
  if (inputs[1]->dtype != inputs[2]->dtype) return std::nullopt;
  auto shape = broadcast_shape(inputs[1]->shape, inputs[2]->shape);
  if (shape) shape = broadcast_shape(*shape, inputs[0]->shape);
  if (!shape) return std::nullopt;
  const Elements condition = expanded(*inputs[0], *shape);
  Elements a = expanded(*inputs[1], *shape);
  const Elements b = expanded(*inputs[2], *shape);
  for (size_t i = 0; i < condition.integers.size(); ++i) {
    if (condition.integers[i] != 0) continue;
    if (a.floating()) {
      a.floats[i] = b.floats[i];
    } else {
      a.integers[i] = b.integers[i];
    }
  }
  return a;
}

// Operators that keep the elements and their order.
Result fold_reshape(const Node& node, const Inputs& inputs, int64_t) {
  const auto& inferred = node.outputs[0]->shape;
  const auto shape = inferred ? constant_shape(*inferred) : std::nullopt;
  if (!shape || count_elements(*shape) != inputs[0]->size()) return std::nullopt;
  Elements result = *inputs[0];
  result.shape = *shape;
  return result;
}

Result fold_expand(const Node&, const Inputs& inputs, int64_t limit) {
  const auto shape = broadcast_shape(inputs[0]->shape, inputs[1]->integers);
  if (!shape || count_elements(*shape) > limit) return std::nullopt;
  return expanded(*inputs[0], *shape);
}

Result fold_transpose(const Node& node, const Inputs& inputs, int64_t) {
  const Elements& x = *inputs[0];
  const Ints own = strides_of(x.shape);
  Ints order(x.shape.size());
  std::iota(order.rbegin(), order.rend(), 0);
  order = node.attribute_ints("perm").value_or(order);
  if (order.size() != own.size()) return std::nullopt;
  Ints shape;
  Ints strides;
  for (const int64_t axis : order) {
    shape.push_back(x.shape[static_cast<size_t>(axis)]);
    strides.push_back(own[static_cast<size_t>(axis)]);
  }
  return pick(x, strided_indices(shape, strides), shape);
}

Result fold_gather(const Node& node, const Inputs& inputs, int64_t limit) {
  const Elements& x = *inputs[0];
  const auto axis = axis_of(node.attribute_int("axis", 0), x.shape.size());
  if (!axis) return std::nullopt;
  const Ints outer(x.shape.begin(), x.shape.begin() + static_cast<int64_t>(*axis));
  const Ints inner(x.shape.begin() + static_cast<int64_t>(*axis) + 1, x.shape.end());
  Ints shape = outer;
  shape.insert(shape.end(), inputs[1]->shape.begin(), inputs[1]->shape.end());
  shape.insert(shape.end(), inner.begin(), inner.end());
  if (count_elements(shape) > limit) return std::nullopt;
  Ints indices;
  for (int64_t i = 0; i < count_elements(outer); ++i) {
    for (int64_t index : inputs[1]->integers) {
      if (index < 0) index += x.shape[*axis];
      if (index < 0 || index >= x.shape[*axis]) return std::nullopt;
      const int64_t start = (i * x.shape[*axis] + index) * count_elements(inner);
      for (int64_t j = 0; j < count_elements(inner); ++j) indices.push_back(start + j);
    }
  }
  return pick(x, indices, shape);
}

Result fold_concat(const Node& node, const Inputs& inputs, int64_t) {
  const Elements& first = *inputs[0];
  const auto axis = axis_of(node.attribute_int("axis", 0), first.shape.size());
  if (!axis) return std::nullopt;
  Elements result{first.dtype, first.shape, {}, {}};
  result.shape[*axis] = 0;
  for (const auto& input : inputs) {
    if (input->shape.size() != first.shape.size() || input->dtype != first.dtype) {
      return std::nullopt;
    }
    result.shape[*axis] += input->shape[*axis];
  }
  int64_t outer = 1;
  for (size_t i = 0; i < *axis; ++i) outer *= first.shape[i];
  if (outer == 0) return std::nullopt;
  for (int64_t row = 0; row < outer; ++row) {
    for (const auto& input : inputs) {
      const int64_t run = input->size() / outer;
      const auto append = [&](const auto& from, auto& to) {
        to.insert(to.end(), from.begin() + row * run, from.begin() + (row + 1) * run);
      };
      if (result.floating()) {
        append(input->floats, result.floats);
      } else {
        append(input->integers, result.integers);
      }
    }
  }
  return result;
}

Result fold_slice(const Node&, const Inputs& inputs, int64_t) {
  if (inputs.size() < 3) return std::nullopt;
  const Elements& x = *inputs[0];
  const Ints& starts = inputs[1]->integers;
  const Ints& ends = inputs[2]->integers;
  Ints axes(starts.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (inputs.size() > 3 && inputs[3]) axes = inputs[3]->integers;
  Ints steps(starts.size(), 1);
  if (inputs.size() > 4 && inputs[4]) steps = inputs[4]->integers;
  Ints shape = x.shape;
  Ints strides = strides_of(x.shape);
  int64_t origin = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    const auto axis = axis_of(axes[i], x.shape.size());
    if (!axis || steps[i] == 0) return std::nullopt;
    const int64_t size = x.shape[*axis];
    if (size == 0) return std::nullopt;
    const bool forward = steps[i] > 0;
    const auto bound = [&](int64_t position) {
      if (position < 0) position += size;
      return std::clamp<int64_t>(position, forward ? 0 : -1, forward ? size : size - 1);
    };
    const int64_t start = forward ? bound(starts[i]) : std::max<int64_t>(bound(starts[i]), 0);
    const int64_t distance = bound(ends[i]) - start;
    shape[*axis] = std::max<int64_t>((distance + steps[i] - (forward ? 1 : -1)) / steps[i], 0);
    origin += start * strides[*axis];
    strides[*axis] *= steps[i];
  }
  return count_elements(shape) == 0
             ? std::nullopt
             : Result(pick(x, strided_indices(shape, strides, origin), shape));
}

Result fold_constant_of_shape(const Node& node, const Inputs& inputs, int64_t limit) {
  const Ints& shape = inputs[0]->integers;
  if (count_elements(shape) > limit) return std::nullopt;
  Elements fill{DType::f32, {}, {0.0}, {}};
  if (const auto* value = node.attribute("value")) {
    const TensorData& data = **std::get_if<std::shared_ptr<TensorData>>(value);
    if (!has_elements(data.dtype)) return std::nullopt;
    fill = read_elements(data);
    fill.shape = {};
  }
  return expanded(fill, shape);
}

Result fold_range(const Node&, const Inputs& inputs, int64_t limit) {
  if (inputs[0]->integers.size() != 1) return std::nullopt;  // float rounding depends on the kernel
  const int64_t start = inputs[0]->integers[0];
  const int64_t end = inputs[1]->integers[0];
  const int64_t step = inputs[2]->integers[0];
  if (step == 0) return std::nullopt;
  Elements result{inputs[0]->dtype, {0}, {}, {}};
  for (int64_t value = start; step > 0 ? value < end : value > end; value += step) {
    if (++result.shape[0] > limit) return std::nullopt;
    result.integers.push_back(value);
  }
  return result;
}

// The result of a reduction of no elements.
enum class OfNone { undefined, zero, one, lowest, highest };

// How an operator reduces elements: first `each`, then steps of two, then `whole`.
struct Reduction {
  std::string_view step;
  OfNone of_none = OfNone::undefined;
  bool squares = false;
  bool is_mean = false;
  bool is_root = false;
};

const std::unordered_map<std::string_view, Reduction>& reductions() {
  static const std::unordered_map<std::string_view, Reduction> kReductions{
      {"ReduceSum", {.step = "Add", .of_none = OfNone::zero}},
      {"ReduceProd", {.step = "Mul", .of_none = OfNone::one}},
      {"ReduceMax", {.step = "Max", .of_none = OfNone::lowest}},
      {"ReduceMin", {.step = "Min", .of_none = OfNone::highest}},
      {"ReduceMean", {.step = "Add", .is_mean = true}},
      {"ReduceSumSquare", {.step = "Add", .of_none = OfNone::zero, .squares = true}},
      {"ReduceL2", {.step = "Add", .of_none = OfNone::zero, .squares = true, .is_root = true}},
  };
  return kReductions;
}

Result result_of_none(OfNone kind, DType dtype) {
  if (kind == OfNone::undefined) return std::nullopt;
  Elements result{dtype, {}, {}, {}};
  const double number = kind == OfNone::zero     ? 0
                        : kind == OfNone::one    ? 1
                        : kind == OfNone::lowest ? lowest_value(dtype)
                                                 : max_value(dtype);
  const bool is_bound = kind == OfNone::lowest || kind == OfNone::highest;
  if (result.floating()) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    result.floats = {is_bound ? std::copysign(kInfinity, number) : number};
  } else if (is_bound && dtype == DType::i64) {
    using Limits = std::numeric_limits<int64_t>;
    result.integers = {kind == OfNone::lowest ? Limits::min() : Limits::max()};
  } else {
    result.integers = {static_cast<int64_t>(number)};
  }
  return result;
}

Result fold_reduce(const Node& node, const Inputs& inputs, int64_t) {
  Elements x = *inputs[0];
  const Reduction& reduction = reductions().at(node.op_type);
  const bool selects = reduction.step == "Max" || reduction.step == "Min";
  // A sum in double has no rounding that narrower floats show; one of float64 depends on its order.
  const bool empty = x.size() == 0;
  if (empty ? reduction.of_none == OfNone::undefined : x.dtype == DType::f64 && !selects)
    return std::nullopt;
  if (!x.floating() && (reduction.is_mean || reduction.squares)) return std::nullopt;
  Ints axes = node.attribute_ints("axes").value_or(Ints());
  if (inputs.size() > 1 && inputs[1]) axes = inputs[1]->integers;
  if (axes.empty() && node.attribute_int("noop_with_empty_axes", 0) != 0) {
    return reduction.squares ? std::nullopt : Result(std::move(x));
  }
  std::vector<bool> reduced(x.shape.size(), axes.empty());
  for (const int64_t given : axes) {
    const auto axis = axis_of(given, x.shape.size());
    if (!axis) return std::nullopt;
    reduced[*axis] = true;
  }
  for (double& value : x.floats) value = reduction.squares ? value * value : value;
  const Ints strides = strides_of(x.shape);
  Ints kept_shape, kept_strides, shape, inner_shape, inner_strides;
  for (size_t i = 0; i < x.shape.size(); ++i) {
    (reduced[i] ? inner_shape : kept_shape).push_back(x.shape[i]);
    (reduced[i] ? inner_strides : kept_strides).push_back(strides[i]);
    if (!reduced[i]) shape.push_back(x.shape[i]);
    if (reduced[i] && node.attribute_int("keepdims", 1) != 0) shape.push_back(1);
  }
  const Ints starts = strided_indices(kept_shape, kept_strides);
  const Ints inner = strided_indices(inner_shape, inner_strides);
  if (inner.empty()) {
    return expanded(*result_of_none(reduction.of_none, x.dtype), shape);
  }
  Result total;
  for (const int64_t offset : inner) {
    Ints indices = starts;
    for (int64_t& index : indices) index += offset;
    const Elements slice = pick(x, indices, shape);
    total = total ? binary(reduction.step, *total, slice) : slice;
    if (!total) return std::nullopt;
  }
  for (double& value : total->floats) {
    if (reduction.is_mean) value /= static_cast<double>(inner.size());
    if (reduction.is_root) value = std::sqrt(value);
  }
  return total;
}

Fold find_fold(std::string_view op_type) {
  static const std::unordered_map<std::string_view, Fold> kFolds = [] {
    std::unordered_map<std::string_view, Fold> folds{
        {"Cast", fold_cast},           {"Where", fold_where},
        {"Clip", fold_clip},           {"Expand", fold_expand},
        {"Transpose", fold_transpose}, {"Gather", fold_gather},
        {"Concat", fold_concat},       {"Slice", fold_slice},
        {"Range", fold_range},         {"ConstantOfShape", fold_constant_of_shape},
    };
    for (const auto op : {"Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "And", "Or", "Xor",
                          "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"}) {
      folds[op] = fold_binary;
    }
    for (const auto& [op, function] : functions()) folds[op] = fold_unary;
    for (const auto op : {"Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten"}) {
      folds[op] = fold_reshape;
    }
    for (const auto& [op, reduction] : reductions()) folds[op] = fold_reduce;
    return folds;
  }();
  if (const auto found = kFolds.find(op_type); found != kFolds.end()) return found->second;
  const Fold indexing = find_indexing_fold(op_type);
  return indexing ? indexing : find_product_fold(op_type);
}

}  // namespace

bool can_evaluate(const Node& node) {
  if (!node.domain.empty() || !find_fold(node.op_type) || node.inputs.empty()) return false;
  const auto is_known = [](const onnx::Value* value) {
    return !value || has_elements(value->dtype);
  };
  return node.outputs.size() == 1 && std::ranges::all_of(node.inputs, is_known) &&
         std::ranges::all_of(node.outputs, is_known);
}

std::optional<TensorData> evaluate(const Node& node, std::span<const TensorData* const> inputs,
                                   int64_t limit, size_t output) {
  const bool splits = node.is("Split");
  const Fold fold = node.domain.empty() ? find_fold(node.op_type) : nullptr;
  if (!(splits || fold) || inputs.empty() || !inputs[0]) return std::nullopt;
  Inputs elements;
  for (const TensorData* input : inputs) {
    if (input && !has_elements(input->dtype)) return std::nullopt;
    elements.push_back(input ? std::optional(read_elements(*input)) : std::nullopt);
  }
  Result result = splits ? fold_split(node, elements, output) : fold(node, elements, limit);
  if (!result || result->size() > limit) return std::nullopt;
  return write_elements(std::move(*result));
}

Expression::Expression(std::span<Node* const> nodes, std::span<onnx::Value* const> leaves)
    : graph_(std::make_unique<onnx::Graph>()) {
  std::unordered_map<const onnx::Value*, onnx::Value*> copies;
  for (const onnx::Value* leaf : leaves) {
    copies[leaf] = graph_->add_value(leaf->dtype, leaf->shape);
    leaves_.push_back(copies[leaf]);
  }
  for (const Node* node : nodes) {
    std::vector<onnx::Value*> inputs;
    for (const onnx::Value* input : node->inputs) {
      inputs.push_back(input ? copies.at(input) : nullptr);
    }
    const Node* copy = graph_->add_node(node->op_type, std::move(inputs), 1, node->attributes);
    onnx::Typing::copy(*node->outputs[0], *copy->outputs[0]);
    copies[node->outputs[0]] = copy->outputs[0];
  }
  for (const Node* node : graph_->nodes) {
    for (const onnx::Value* input : node->inputs) last_use_[input] = node;
  }
}

std::optional<TensorData> Expression::run(std::span<const TensorData> sources,
                                          int64_t limit) const {
  std::unordered_map<const onnx::Value*, TensorData> known;
  for (size_t i = 0; i < leaves_.size(); ++i) known[leaves_[i]] = sources[i];
  for (const Node* node : graph_->nodes) {
    std::vector<const TensorData*> inputs;
    for (const onnx::Value* input : node->inputs) {
      inputs.push_back(input ? &known.at(input) : nullptr);
    }
    std::optional<TensorData> result = evaluate(*node, inputs, limit);
    if (!result) return std::nullopt;
    for (const onnx::Value* input : node->inputs) {
      if (last_use_.at(input) == node) known.erase(input);
    }
    known[node->outputs[0]] = std::move(*result);
  }
  return known.at(graph_->nodes.back()->outputs[0]);
}

}  // namespace onnx_native::passes
