#include "passes/compositions/older_operators.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "onnx/kernels.h"
#include "onnx/schema.h"
#include "passes/compositions/oldest_operators.h"

namespace onnx_native::passes {
namespace {

using onnx::Node;

// --- As in the function bodies of the schemas.

Values layer_normalization(Builder& b, const Node& node) {
  const Value x = node.inputs[0];
  const int64_t rank = x->rank();
  const int64_t first = normalize_axis(node.attribute_int("axis", -1), rank);
  Ints axes;
  for (int64_t axis = first; axis < rank; ++axis) axes.push_back(axis);
  const Value mean = b.reduce("ReduceMean", x, axes, true);
  const Value centered = b.Sub(x, mean);
  const Value variance = b.reduce("ReduceMean", b.Mul(centered, centered), axes, true);
  const Value epsilon = b.like(x, node.attribute_float("epsilon", 1e-5));
  const Value deviation = b.Sqrt(b.Add(variance, epsilon));
  Value y = b.Mul(b.Div(centered, deviation), node.inputs[1]);
  if (const Value bias = node.input(2)) y = b.Add(y, bias);
  Values results{y, mean, node.outputs.size() > 2 ? b.Reciprocal(deviation) : nullptr};
  results.resize(node.outputs.size());
  return results;
}

Values mish(Builder& b, const Node& node) {
  const Value x = node.inputs[0];
  return {b.Mul(x, b.Tanh(b.op("Softplus", {x})))};
}

// Compares row and column indices: upper keeps column - row >= k, lower keeps column - row <= k.
Values trilu(Builder& b, const Node& node) {
  const Value x = node.inputs[0];
  const Value zero = b.i64(0);
  const Value one = b.i64(1);
  const auto places = [&](int64_t axis) {
    const Value size = b.squeeze(b.gather(b.op("Shape", {x}), b.i64s({axis}), 0), {0});
    return b.op("Range", {zero, size, one});
  };
  const int64_t rank = x->rank();
  const Value rows = b.unsqueeze(places(rank - 2), {1});
  const Value k = node.input(1) ? node.inputs[1] : zero;
  const Value diagonal = b.Sub(b.unsqueeze(places(rank - 1), {0}), rows);
  const bool upper = node.attribute_int("upper", 1) != 0;
  const Value kept = upper ? b.GreaterOrEqual(diagonal, k) : b.LessOrEqual(diagonal, k);
  return {b.where(kept, x, b.like(x, 0))};
}

// Before opset 13, Softmax normalizes over all axes from `axis` on.
Values softmax(Builder& b, const Node& node) {
  const Value x = node.inputs[0];
  const int64_t rank = x->rank();
  const int64_t axis = normalize_axis(node.attribute_int("axis", -1), rank);
  return {
      b.swap_axes(b.op(node.op_type, {b.swap_axes(x, axis, -1)}, {{"axis", rank - 1}}), axis, -1)};
}

Values celu(Builder& b, const Node& node) {
  const Value x = node.inputs[0];
  const Value alpha = b.like(x, node.attribute_float("alpha", 1.0));
  const Value zero = b.like(x, 0);
  const Value below = b.Mul(alpha, b.Sub(b.Exp(b.Div(x, alpha)), b.like(x, 1)));
  return {b.Add(b.op("Max", {x, zero}), b.op("Min", {below, zero}))};
}

// A shape with a 0 is that of a tensor without elements.
Values reshape_unless_empty(Builder& b, const Node& node) {
  const Value x = node.inputs[0], target = node.inputs[1];
  const Value is_empty = b.Equal(b.op("ReduceMin", {target}, {{"keepdims", 0}}), b.i64(0));
  return b.if_else(
      is_empty,
      [&] {
        return Values{b.op("Expand", {b.like(x, 0), target})};
      },
      [&] {
        return Values{b.op("Reshape", {x, target})};
      });
}

// Axes of size 1 in the input or in the result move each size that may be 0 to the place of the
// equal size of the input, which a 0 copies. One other size can be -1. Otherwise it is an If.
Values reshape(Builder& b, const Node& node) {
  const Value x = node.inputs[0], target = node.inputs[1];
  if (!x->shape || !node.outputs[0]->shape) return reshape_unless_empty(b, node);
  const Shape &from = *x->shape, &to = *node.outputs[0]->shape;
  if (std::ranges::any_of(to, [](const Dim& size) { return size.equals(0); }))
    return {b.op("Expand", {b.like(x, 0), target})};
  Ints added, removed;  // axes of size 1
  Values sizes;
  Shape places;  // the input with `added`
  size_t next = 0;
  bool has_unknown = false;
  // Takes the input's axes up to `end`, with as many places in the target.
  const auto align = [&](size_t end) {
    while (places.size() < sizes.size() && next < end) places.push_back(from[next++]);
    for (; next < end; ++next) {
      removed.push_back(static_cast<int64_t>(sizes.size()));
      sizes.push_back(b.i64s({1}));
      places.push_back(from[next]);
    }
    while (places.size() < sizes.size()) {
      added.push_back(static_cast<int64_t>(places.size()));
      places.push_back(1);
    }
  };
  std::vector<std::pair<size_t, size_t>> others;  // sizes that have no place yet: in `sizes`, `to`
  for (size_t i = 0; i < to.size(); ++i) {
    if (const auto known = to[i].constant()) {
      sizes.push_back(b.i64s({*known}));
      continue;
    }
    const auto same =
        std::find(from.begin() + static_cast<std::ptrdiff_t>(next), from.end(), to[i]);
    if (same == from.end()) {
      others.emplace_back(sizes.size(), i);
      sizes.push_back(nullptr);
      continue;
    }
    align(static_cast<size_t>(same - from.begin()));
    ++next;
    places.push_back(to[i]);
    sizes.push_back(b.i64s({0}));
  }
  align(from.size());
  for (const auto& [place, i] : others) {
    // A 0 copies 0 from a multiple of this size, and from a factor that is 0 if any is.
    const Dim& copied = places[place];
    const bool divides = Dim::floor_div(copied, to[i]) * to[i] == copied;
    Dim product = copied;
    bool is_product = true;
    for (const int64_t axis : removed) {
      const Dim& factor = places[static_cast<size_t>(axis)];
      product = product * factor;
      is_product &= factor.known_positive() || factor == copied;
    }
    is_product &= product == to[i];
    if (to[i].known_positive() || divides || is_product) {
      sizes[place] = b.gather(target, b.i64s({static_cast<int64_t>(i)}), 0);
    } else if (!std::exchange(has_unknown, true)) {
      sizes[place] = b.i64s({-1});
    } else {
      return reshape_unless_empty(b, node);
    }
  }
  const Value aligned = added.empty() ? x : b.unsqueeze(x, added);
  Value shape = joined(b, sizes);
  // ONNX Runtime's fusions make -1 of a size that a Concat takes. A size of 0 may be copied.
  if (!shape->is_constant()) shape = b.op("Abs", {shape});
  const Value result = b.op("Reshape", {aligned, shape});
  return {removed.empty() ? result : b.squeeze(result, removed)};
}

// --- Before opset 12.

// Not(Less) would be true for NaN.
Values or_equal(Builder& b, const Node& node) {
  const Value x = node.inputs[0], y = node.inputs[1];
  const std::string_view strict = node.op_type == "GreaterOrEqual" ? "Greater" : "Less";
  return {b.Or(b.op(strict, {x, y}), b.Equal(x, y))};
}

// Returns a dtype for which Less and Where have kernels in ONNX Runtime, and that holds all values
// of `dtype`; uint64 has none, and the Builder casts float16.
DType comparable(DType dtype) {
  if (is_floating(dtype) || dtype == DType::u64 || dtype == DType::i32) return dtype;
  return DType::i64;
}

Value larger(Builder& b, Value x, Value y) { return b.where(b.Less(x, y), y, x); }
Value smaller(Builder& b, Value x, Value y) { return b.where(b.Less(y, x), y, x); }

Values extremum(Builder& b, const Node& node) {
  const DType dtype = node.inputs[0]->dtype;
  const auto pick = node.op_type == "Max" ? larger : smaller;
  Value result = b.cast(node.inputs[0], comparable(dtype));
  for (size_t i = 1; i < node.inputs.size(); ++i)
    result = pick(b, result, b.cast(node.inputs[i], comparable(dtype)));
  return {b.cast(result, dtype)};
}

Values clip(Builder& b, const Node& node) {
  const DType dtype = node.inputs[0]->dtype;
  Value result = b.cast(node.inputs[0], comparable(dtype));
  if (const Value low = node.input(1)) result = larger(b, result, b.cast(low, comparable(dtype)));
  if (const Value high = node.input(2))
    result = smaller(b, result, b.cast(high, comparable(dtype)));
  return {b.cast(result, dtype)};
}

// Both operands of Pow have one floating dtype. A constant power of integers is a product.
Values power(Builder& b, const Node& node) {
  const Value x = node.inputs[0], exponent = node.inputs[1];
  if (is_floating(x->dtype)) return {b.op("Pow", {x, b.cast(exponent, x->dtype)})};
  constexpr int64_t kLargest = 64;
  if (!exponent->is_constant() || exponent->rank() != 0 || is_floating(exponent->dtype)) return {};
  int64_t left = exponent->constant->integers()[0];
  if (left < 1 || left > kLargest) return {};
  Value square = x, result = nullptr;
  for (; left > 0; left >>= 1) {
    if (left & 1) result = result ? b.Mul(result, square) : square;
    if (left > 1) square = b.Mul(square, square);
  }
  return {result == x ? b.op("Identity", {x}) : result};
}

Values max_pool(Builder& b, const Node& node) {
  const Value x = b.cast(node.inputs[0], DType::f32);
  Values results = b.ops(node.op_type, node.outputs.size(), {x}, node.attributes);
  results[0] = b.cast(results[0], node.inputs[0]->dtype);
  return results;
}

Values reduce_extremum(Builder& b, const Node& node) {
  Values inputs = node.inputs;
  inputs[0] = b.cast(inputs[0], DType::i32);
  return {b.cast(b.op(node.op_type, std::move(inputs), node.attributes), node.inputs[0]->dtype)};
}

// The last index of the largest element is the first one from the end.
Values last_index(Builder& b, const Node& node) {
  const Value x = node.inputs[0];
  const int64_t axis = normalize_axis(node.attribute_int("axis", 0), x->rank());
  const Value last = b.i64s({-1});
  const Value reversed =
      b.op("Slice", {x, last, b.i64s({std::numeric_limits<int64_t>::min()}), b.i64s({axis}), last});
  const int64_t keepdims = node.attribute_int("keepdims", 1);
  const Value first = b.op(node.op_type, {reversed}, {{"axis", axis}, {"keepdims", keepdims}});
  const Value size = b.squeeze(b.gather(b.op("Shape", {x}), b.i64s({axis}), 0), {0});
  return {b.Sub(b.Sub(size, b.i64(1)), first)};
}

// Adds the index of the batch to the indices.
Values batched_gather_nd(Builder& b, const Node& node) {
  const Value data = node.inputs[0], indices = node.inputs[1];
  if (node.attribute_int("batch_dims", 0) != 1) return {};
  const Value shape = b.op("Shape", {indices});
  const Value size = b.squeeze(b.gather(shape, b.i64s({0}), 0), {0});
  Ints axes;
  for (int64_t axis = 1; axis < indices->rank(); ++axis) axes.push_back(axis);
  const Value batch = b.unsqueeze(b.op("Range", {b.i64(0), size, b.i64(1)}), axes);
  const Value zero = b.Mul(b.slice(indices, -1, 0, 1), b.i64(0));
  return {b.op("GatherND", {data, b.concat({b.Add(batch, zero), indices}, -1)})};
}

// Reduces the updates of each row under a mask. Each index is one number, so it selects a row of
// the data. There may be no updates, so the data is reduced with them.
Values scattered_rows(Builder& b, const Node& node) {
  const Value data = node.inputs[0], updates = node.inputs[2];
  if (data->rank_or(-1) < 1 || (node.is("ScatterElements") && data->rank() > 1)) return {};
  Value index = node.inputs[1];
  if (node.is("ScatterND")) {
    if (index->rank_or(-1) != 2 || !index->dim(1).equals(1)) return {};
    index = b.squeeze(index, {1});
  }
  const Value size = b.squeeze(b.gather(b.op("Shape", {data}), b.i64s({0}), 0), {0});
  const Value places = b.unsqueeze(b.op("Range", {b.i64(0), size, b.i64(1)}), {1});
  const Value at = b.where(b.Less(index, b.i64(0)), b.Add(index, size), index);
  Ints trailing;
  for (int64_t axis = 1; axis < data->rank(); ++axis) trailing.push_back(axis + 1);
  const Value selected = b.unsqueeze(b.Equal(places, b.unsqueeze(at, {0})), trailing);
  const auto candidates = [&](Value otherwise) {
    return b.where(selected, b.unsqueeze(updates, {0}), otherwise);
  };
  const std::string reduction = node.attribute_string("reduction", "none");
  if (reduction == "add")
    return {b.Add(data, b.reduce("ReduceSum", candidates(b.like(data, 0)), {1}, false))};
  const Value own = b.unsqueeze(data, {1});
  const char* reduce = reduction == "max" ? "ReduceMax" : "ReduceMin";
  return {b.reduce(reduce, b.concat({own, candidates(own)}, 1), {1}, /*keepdims=*/false)};
}

// Dropout in training mode: elements are 0 where random numbers are below the ratio.
Values dropout(Builder& b, const Node& node) {
  const Value x = node.inputs[0], ratio = node.input(1), training = node.input(2);
  if (!ratio || !training || !training->is_constant()) return {};
  const Value p = b.cast(ratio, x->dtype);
  const Value kept = b.Not(b.Less(b.op("RandomUniformLike", {x}), p));
  const Value scaled = b.Div(x, b.Sub(b.like(x, 1), p));
  Values results{b.where(kept, scaled, b.like(x, 0)), kept};
  results.resize(node.outputs.size());
  return results;
}

// --- Einsum, as matrix products of two operands at a time.

struct Operand {
  Value value;
  std::string labels;

  bool has(char label) const { return labels.find(label) != std::string::npos; }
};

Value transposed_operand(Builder& b, const Operand& x, std::string_view to) {
  Ints permutation;
  for (const char label : to) permutation.push_back(static_cast<int64_t>(x.labels.find(label)));
  return b.transpose(x.value, permutation);
}

// Keeps one axis per label: the diagonal of axes with the same label.
Operand diagonal(Builder& b, Operand x) {
  for (size_t j = 0; j < x.labels.size(); ++j) {
    const size_t i = x.labels.find(x.labels[j]);
    if (i == j) continue;
    const auto places = [&](size_t axis) {
      const Value size =
          b.gather(b.op("Shape", {x.value}), b.i64s({static_cast<int64_t>(axis)}), 0);
      Ints axes;
      for (int64_t k = 0; k < x.value->rank(); ++k)
        if (k != static_cast<int64_t>(axis)) axes.push_back(k);
      return b.unsqueeze(b.op("Range", {b.i64(0), b.squeeze(size, {0}), b.i64(1)}), axes);
    };
    const Value kept = b.where(b.Equal(places(i), places(j)), x.value, b.like(x.value, 0));
    x.value = b.reduce("ReduceSum", kept, {static_cast<int64_t>(j)}, /*keepdims=*/false);
    x.labels.erase(j--, 1);
  }
  return x;
}

// Sums over the labels that nothing else needs.
Operand summed(Builder& b, Operand x, std::string_view needed) {
  Ints axes;
  std::string kept;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    if (needed.find(x.labels[i]) == std::string_view::npos) {
      axes.push_back(static_cast<int64_t>(i));
    } else {
      kept += x.labels[i];
    }
  }
  if (axes.empty()) return x;
  return {b.reduce("ReduceSum", x.value, axes, /*keepdims=*/false), kept};
}

// Merges the axes in [first, last) of a tensor with this shape; returns the size as a 1-D tensor.
Value merged_size(Builder& b, Value shape, size_t first, size_t last) {
  if (first == last) return b.i64s({1});
  const Value part = b.slice(shape, 0, static_cast<int64_t>(first), static_cast<int64_t>(last));
  return last - first == 1 ? part : b.reduce("ReduceProd", part, {0}, /*keepdims=*/true);
}

// Multiplies two operands, and sums over the labels of both that nothing else needs.
Operand product(Builder& b, const Operand& x, const Operand& y, std::string_view needed) {
  std::string batch, rows, columns, inner;
  for (const char label : x.labels) {
    if (!y.has(label)) {
      rows += label;
    } else if (needed.find(label) == std::string_view::npos) {
      inner += label;
    } else {
      batch += label;
    }
  }
  for (const char label : y.labels)
    if (!x.has(label)) columns += label;
  const Value left = transposed_operand(b, x, batch + rows + inner);
  const Value right = transposed_operand(b, y, batch + inner + columns);
  if (inner.empty()) {
    const auto axes = [](size_t first, size_t count) {
      Ints result(count);
      std::iota(result.begin(), result.end(), static_cast<int64_t>(first));
      return result;
    };
    const size_t n = batch.size();
    const Value spread = b.unsqueeze(left, axes(n + rows.size(), columns.size()));
    return {b.Mul(spread, b.unsqueeze(right, axes(n, rows.size()))), batch + rows + columns};
  }
  const Value left_shape = b.op("Shape", {left}), right_shape = b.op("Shape", {right});
  const size_t n = batch.size();
  const auto sizes = [&](Value shape, size_t first, size_t last) {
    return b.slice(shape, 0, static_cast<int64_t>(first), static_cast<int64_t>(last));
  };
  // The axes of a matrix that stand for no labels.
  const auto missing = [n](bool first, bool second) {
    Ints axes;
    if (first) axes.push_back(static_cast<int64_t>(n));
    if (second) axes.push_back(static_cast<int64_t>(n) + 1);
    return axes;
  };
  const auto matrices = [&](Value tensor, Value shape, size_t middle, size_t end) {
    // Reshape would copy another size in place of a 0.
    if (middle - n < 2 && end - middle < 2)
      return b.unsqueeze(tensor, missing(middle == n, end == middle));
    Values parts{merged_size(b, shape, n, middle), merged_size(b, shape, middle, end)};
    if (n > 0) parts.insert(parts.begin(), sizes(shape, 0, n));
    return b.op("Reshape", {tensor, b.concat(parts, 0)});
  };
  const Value a = matrices(left, left_shape, n + rows.size(), left->rank());
  const Value c = matrices(right, right_shape, n + inner.size(), right->rank());
  const Value result = b.op("MatMul", {a, c});
  const std::string labels = batch + rows + columns;
  if (rows.size() < 2 && columns.size() < 2)
    return {b.squeeze(result, missing(rows.empty(), columns.empty())), labels};
  Values parts;
  if (!batch.empty() || !rows.empty()) parts.push_back(sizes(left_shape, 0, n + rows.size()));
  if (!columns.empty()) parts.push_back(sizes(right_shape, n + inner.size(), right->rank()));
  return {b.op("Reshape", {result, parts.size() == 1 ? parts[0] : b.concat(parts, 0)}), labels};
}

// Equations have the form of the lowerings: a letter for each axis, and "->".
Values einsum(Builder& b, const Node& node) {
  const std::string equation = node.attribute_string("equation", "");
  const size_t arrow = equation.find("->");
  if (arrow == std::string::npos || equation.find_first_of(". ") != std::string::npos) return {};
  const std::string output = equation.substr(arrow + 2);
  std::vector<Operand> operands;
  size_t start = 0;
  for (const Value value : node.inputs) {
    const size_t end = std::min(equation.find(',', start), arrow);
    operands.push_back(diagonal(b, {value, equation.substr(start, end - start)}));
    start = end + 1;
  }
  Operand result = operands[0];
  for (size_t i = 1; i <= operands.size(); ++i) {
    std::string later = output;
    for (size_t j = i; j < operands.size(); ++j) later += operands[j].labels;
    result = summed(b, result, later);
    if (i == operands.size()) break;
    std::string after = output;
    for (size_t j = i + 1; j < operands.size(); ++j) after += operands[j].labels;
    const Operand other = summed(b, operands[i], after + result.labels);
    result = product(b, result, other, after);
  }
  return {transposed_operand(b, result, output)};
}

// --- Which nodes an opset lacks.

bool is_not_last_axis(const Node& node) {
  const int64_t axis = node.attribute_int("axis", -1);
  return axis != -1 && axis != node.inputs[0]->rank_or(-1) - 1;
}
bool selects_last(const Node& node) { return node.attribute_int("select_last_index", 0) != 0; }
bool selects_extreme(const Node& node) {
  const std::string reduction = node.attribute_string("reduction", "none");
  return reduction == "min" || reduction == "max";
}
bool adds(const Node& node) { return node.attribute_string("reduction", "none") == "add"; }
bool has_batch(const Node& node) { return node.attribute_int("batch_dims", 0) != 0; }

// Returns true if opset 11 lacks the operator for its dtypes.
bool has_new_dtype(const Node& node) {
  const onnx::OpSchema* schema = onnx::find_schema(node.op_type, 11);
  return schema && !schema->allows(0, node.inputs[0]->dtype);
}
// ONNX Runtime's kernel of Clip at opset 11 does not take all dtypes that the schema allows.
bool has_no_kernel(const Node& node) {
  return !onnx::has_kernel(node.op_type, node.inputs[0]->dtype, 11);
}
// Before opset 11, the limits are attributes.
bool has_computed_limits(const Node& node) {
  const auto is_number = [](Value limit) { return !limit || limit->is_constant(); };
  return node.inputs[0]->dtype != DType::f32 || !is_number(node.input(1)) ||
         !is_number(node.input(2));
}
bool is_mixed_power(const Node& node) {
  return has_new_dtype(node) || node.inputs[0]->dtype != node.inputs[1]->dtype;
}

// ONNX Runtime's shape inference (1.31) rejects a computed shape with a 0 that Reshape copies.
bool cannot_copy_zeros(const Node& node) {
  if (needs_allowzero(node)) return true;
  const auto& shape = node.outputs[0]->shape;
  const Value target = node.inputs[1];
  return shape && !target->is_constant() && target->contents == shape &&
         std::ranges::any_of(*shape, [](const Dim& size) { return size.equals(0); });
}

constexpr Composition kCompositions[] = {{"ArgMax", 12, last_index, selects_last},
                                         {"ArgMin", 12, last_index, selects_last},
                                         {"Celu", 12, celu},
                                         {"Clip", 11, clip, has_computed_limits},
                                         {"Clip", 12, clip, has_no_kernel},
                                         {"Dropout", 12, dropout},
                                         {"Einsum", 12, einsum},
                                         {"GatherND", 12, batched_gather_nd, has_batch},
                                         {"GreaterOrEqual", 12, or_equal},
                                         {"LayerNormalization", 17, layer_normalization},
                                         {"LessOrEqual", 12, or_equal},
                                         {"LogSoftmax", 13, softmax, is_not_last_axis},
                                         {"Max", 12, extremum, has_new_dtype},
                                         {"MaxPool", 12, max_pool, has_new_dtype},
                                         {"Min", 12, extremum, has_new_dtype},
                                         {"Mish", 18, mish},
                                         {"Pow", 12, power, is_mixed_power},
                                         {"ReduceMax", 12, reduce_extremum, has_new_dtype},
                                         {"ReduceMin", 12, reduce_extremum, has_new_dtype},
                                         {"Reshape", 14, reshape, cannot_copy_zeros},
                                         {"ScatterElements", 16, scattered_rows, adds},
                                         {"ScatterElements", 18, scattered_rows, selects_extreme},
                                         {"ScatterND", 16, scattered_rows, adds},
                                         {"ScatterND", 18, scattered_rows, selects_extreme},
                                         {"Softmax", 13, softmax, is_not_last_axis},
                                         {"Trilu", 14, trilu}};

}  // namespace

Value joined(Builder& b, const Values& sizes) {
  std::vector<int64_t> known;
  for (const Value size : sizes) {
    if (!size->is_constant()) return b.concat(sizes, 0);
    std::ranges::copy(size->constant->integers(), std::back_inserter(known));
  }
  return b.i64s(known);
}

bool needs_allowzero(const Node& node) {
  if (node.attribute_int("allowzero", 0) == 0) return false;
  const auto& to = node.outputs[0]->shape;
  const auto& from = node.inputs[0]->shape;
  if (!to) return true;
  for (size_t i = 0; i < to->size(); ++i) {
    const bool kept = from && i < from->size() && (*from)[i] == (*to)[i];
    if (!kept && !(*to)[i].known_positive()) return true;
  }
  return false;
}

Composer composition(const Node& node, int64_t opset) {
  if (!node.domain.empty()) return nullptr;
  for (const Composition& rule : kCompositions) {
    if (rule.op_type == node.op_type && opset < rule.before &&
        (!rule.applies || rule.applies(node)))
      return rule.compose;
  }
  return composition_before_11(node, opset);
}

}  // namespace onnx_native::passes
