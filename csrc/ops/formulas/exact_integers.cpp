// Compositions of integer operators whose ONNX Runtime kernels are not exact. Max, Min, Clip,
// ReduceMax and ReduceMin of int64 compare the low halves as signed numbers. ReduceSum and
// ReduceProd compute in float64: they lose digits from 2^53 on, and saturate where integers wrap.
// Sign, and Mod with fmod=1, compute in floating point as well.
#include <algorithm>
#include <numeric>

#include "base/weight.h"
#include "ops/formulas/compositions.h"
#include "ops/formulas/cumulative.h"

namespace onnx_native::ops {
namespace {

using onnx::Node;

bool fits_32_bits(int64_t n) { return n == static_cast<int32_t>(n); }

bool constants_are_small(const TensorData& data) {
  constexpr int64_t kMost = 64;
  return data.numel() <= kMost && std::ranges::all_of(data.integers(), fits_32_bits);
}

// Returns true for numbers of 32 bits and for expressions of input sizes, which are assumed to fit.
bool is_small(const Dim& dim) {
  if (const auto number = dim.constant()) return fits_32_bits(*number);
  bool sizes = true;
  dim.for_each_symbol([&](const Dim::Factor& symbol) {
    const auto& range = symbol.range;
    sizes &= range.is_input_size ||
             (range.low && range.high && fits_32_bits(*range.low) && fits_32_bits(*range.high));
  });
  return sizes;
}

// Returns true if all elements are known to fit in 32 bits: sizes, positions, casts of narrow
// dtypes.
bool is_small(Value x, int depth = 4) {
  if (has_elements(x->constant)) return constants_are_small(*x->constant);
  if (x->contents)
    return std::ranges::all_of(*x->contents, [](const Dim& dim) { return is_small(dim); });
  if (!x->producer || depth == 0) return false;
  const Node& node = *x->producer;
  if (node.is_any({"Shape", "Size", "ArgMax", "ArgMin", "NonZero"})) return true;
  if (node.is("Cast")) {
    const DType from = node.inputs[0]->dtype;
    return from == DType::boolean ||
           (is_integral(from) && item_size(from) <= 4 && from != DType::u32);
  }
  const bool moves =
      node.is_any({"Identity", "Unsqueeze", "Squeeze", "Reshape", "Transpose", "Expand", "Slice",
                   "Gather", "GatherElements", "GatherND", "Split"});
  if (moves) return is_small(node.inputs[0], depth - 1);
  if (node.is("Where"))
    return is_small(node.inputs[1], depth - 1) && is_small(node.inputs[2], depth - 1);
  if (!node.is_any({"Concat", "Min", "Max"})) return false;
  return std::ranges::all_of(node.inputs, [&](Value v) { return is_small(v, depth - 1); });
}

bool all_small(const Node& node) {
  return std::ranges::all_of(node.inputs, [](Value v) { return !v || is_small(v); });
}

Value greater_of(Builder& b, Value x, Value y) { return b.where(b.Less(x, y), y, x); }
Value lesser_of(Builder& b, Value x, Value y) { return b.where(b.Less(y, x), y, x); }

template <Value (*of_two)(Builder&, Value, Value)>
Values extreme(Builder& b, const Node& node) {
  if (node.inputs[0]->dtype != DType::i64 || all_small(node)) return {};
  Value result = node.inputs[0];
  for (size_t i = 1; i < node.inputs.size(); ++i) result = of_two(b, result, node.inputs[i]);
  return {result};
}

Values clip(Builder& b, const Node& node) {
  if (node.inputs[0]->dtype != DType::i64 || all_small(node)) return {};
  Value x = node.inputs[0];
  if (const Value low = node.input(1)) x = greater_of(b, x, low);
  if (const Value high = node.input(2)) x = lesser_of(b, x, high);
  return {x};
}

Values sign(Builder& b, const Node& node) {
  const Value x = node.inputs[0];
  if (x->dtype != DType::i64 || is_small(x)) return {};
  const Value zero = b.i64(0);
  return {b.Sub(b.cast(b.Greater(x, zero), DType::i64), b.cast(b.Less(x, zero), DType::i64))};
}

// C's remainder: integer division truncates toward zero.
Values remainder(Builder& b, const Node& node) {
  const Value x = node.inputs[0], y = node.inputs[1];
  if (x->dtype != DType::i64 || node.attribute_int("fmod", 0) == 0) return {};
  return {b.Sub(x, b.Mul(b.Div(x, y), y))};
}

// A reduction over the last axis of a tensor reshaped to (kept axes, elements).
class Reduction {
 public:
  Reduction(Builder& b, const Node& node)
      : b_(b), x_(node.inputs[0]), keepdims_(node.attribute_int("keepdims", 1) != 0) {
    const Value axes = node.input(1);
    if (!x_->shape || (axes && !axes->is_constant())) return;
    if (axes) {
      for (const int64_t axis : axes->constant->integers())
        axes_.push_back(normalize_axis(axis, x_->rank()));
    } else if (node.attribute_int("noop_with_empty_axes", 0) == 0) {
      axes_.resize(x_->rank());
      std::iota(axes_.begin(), axes_.end(), 0);
    }
  }

  // Returns true if the axes are known and there is at least one.
  bool is_known() const { return !axes_.empty(); }

  Value flattened() const {
    Ints order;
    for (int64_t axis = 0; axis < x_->rank(); ++axis)
      if (!reduces(axis)) order.push_back(axis);
    const auto kept = static_cast<int64_t>(order.size());
    order.insert(order.end(), axes_.begin(), axes_.end());
    return b_.flatten(b_.transpose(x_, order), kept, -1);
  }

  // Reshapes one element per position of the kept axes to the result's shape.
  Value shaped(Value result) const {
    Shape shape;
    for (int64_t axis = 0; axis < x_->rank(); ++axis) {
      if (!reduces(axis)) shape.push_back(x_->dim(axis));
      if (reduces(axis) && keepdims_) shape.emplace_back(1);
    }
    return b_.reshape(result, shape);
  }

 private:
  bool reduces(int64_t axis) const { return std::ranges::find(axes_, axis) != axes_.end(); }

  Builder& b_;
  Value x_;
  bool keepdims_;
  Ints axes_;
};

bool is_wide(Value x) { return x->dtype == DType::i64 || x->dtype == DType::i32; }

// Uses a matrix product, which wraps. ONNX Runtime rejects a 1-d vector of ones if there are no
// rows.
Values sum(Builder& b, const Node& node) {
  const Value x = node.inputs[0];
  const Reduction reduction(b, node);
  if (!is_wide(x) || (x->dtype == DType::i64 && is_small(x)) || !reduction.is_known()) return {};
  const Value rows = reduction.flattened();
  const Value ones = b.full(x->dtype, 1, {rows->dim(-1), 1});
  return {reduction.shaped(b.matmul(rows, ones))};
}

Values product(Builder& b, const Node& node) {
  constexpr int64_t kFew = 8;
  const Value x = node.inputs[0];
  const Reduction reduction(b, node);
  if (!is_wide(x) || x->contents || !reduction.is_known()) return {};
  const Value rows = reduction.flattened();
  const auto count = rows->dim(-1).constant();
  if (!count || *count == 0 || *count > kFew) {
    Shape one = rows->known_shape();
    one.back() = 1;
    const Value running =
        running_product(b, b.concat({b.full(x->dtype, 1, one), rows}, -1), rows->rank() - 1);
    return {reduction.shaped(b.slice(running, -1, rows->dim(-1), rows->dim(-1) + 1))};
  }
  Value result = b.select(rows, -1, 0);
  for (int64_t i = 1; i < *count; ++i) result = b.Mul(result, b.select(rows, -1, i));
  return {reduction.shaped(result)};
}

// Reads the element at ArgMax or ArgMin, which are exact.
template <bool greatest>
Values reduced_extreme(Builder& b, const Node& node) {
  const Value x = node.inputs[0];
  const Reduction reduction(b, node);
  if (x->dtype != DType::i64 || is_small(x) || !reduction.is_known()) return {};
  const Value rows = reduction.flattened();
  // With a negative axis, ONNX Runtime gives an empty result the shape of the operand.
  const std::vector<onnx::Attribute> attributes = {{"axis", rows->rank() - 1}, {"keepdims", 1}};
  const Value place = b.op(greatest ? "ArgMax" : "ArgMin", {rows}, attributes);
  return {reduction.shaped(b.op("GatherElements", {rows, place}, {{"axis", -1}}))};
}

}  // namespace

void add_exact_integers(Compositions& table) {
  table.insert({
      {"Clip", clip},
      {"Max", extreme<greater_of>},
      {"Min", extreme<lesser_of>},
      {"Mod", remainder},
      {"ReduceMax", reduced_extreme<true>},
      {"ReduceMin", reduced_extreme<false>},
      {"ReduceProd", product},
      {"ReduceSum", sum},
      {"Sign", sign},
  });
}

}  // namespace onnx_native::ops
