#include "passes/compositions/oldest_operators.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/schema.h"

namespace onnx_native::passes {
namespace {

using onnx::Node;

// --- Sizes and indices.

// Returns a size as a 1-D tensor of one element.
Value size_of(Builder& b, Value x, int64_t axis) {
  if (const auto known = x->dim(axis).constant()) return b.i64s({*known});
  return b.gather(b.op("Shape", {x}), b.i64s({axis}), 0);
}

// Returns the number of elements in a slice along each axis from `first` to `last`, as a 1-D
// tensor.
Value count_of(Builder& b, Value x, int64_t first, int64_t last) {
  int64_t known = 1;
  Value count = nullptr;
  for (int64_t axis = first; axis < last; ++axis) {
    if (const auto size = x->dim(axis).constant()) {
      known *= *size;
    } else {
      count = count ? b.Mul(count, size_of(b, x, axis)) : size_of(b, x, axis);
    }
  }
  if (!count) return b.i64s({known});
  return known == 1 ? count : b.Mul(count, b.i64s({known}));
}

Value times(Builder& b, Value x, Value count) {
  if (!count->is_constant()) return b.Mul(x, count);
  const int64_t factor = count->constant->integers()[0];
  if (factor == 1) return x;
  if (!x->is_constant() || x->rank() != 1) return b.Mul(x, count);
  std::vector<int64_t> products = x->constant->integers();
  for (int64_t& product : products) product *= factor;
  return b.i64s(products);
}

// Counts negative indices from the end.
Value from_start(Builder& b, Value index, Value size) {
  const Node* node = index->producer;
  if (node && (node->is("TopK") || node->is("ArgMax") || node->is("ArgMin"))) return index;
  return b.where(b.Less(index, b.i64(0)), b.Add(index, size), index);
}

Value flat(Builder& b, Value x) { return b.op("Reshape", {x, b.i64s({-1})}); }

Ints all_but(int64_t rank, int64_t axis) {
  Ints axes;
  for (int64_t i = 0; i < rank; ++i)
    if (i != axis) axes.push_back(i);
  return axes;
}

// 0, 1, 2 ... up to a size, which is a 1-D tensor of one element.
Value places(Builder& b, Value size) {
  const Value ones =
      b.op("ConstantOfShape", {size},
           {{"value",
             std::make_shared<TensorData>(make_tensor(DType::i64, {1}, std::vector<double>{1}))}});
  return b.op("Reshape", {b.op("NonZero", {ones}), b.i64s({-1})});
}

// --- Elementwise operators.

// The comparisons are false for NaN, and so is equality.
Values equal(Builder& b, const Node& node) {
  const Value x = node.inputs[0], y = node.inputs[1];
  if (!is_floating(x->dtype)) {
    const bool is_wide = x->dtype == DType::u32 || x->dtype == DType::u64;
    const DType dtype = is_wide ? DType::i64 : DType::i32;
    return {b.Equal(b.cast(x, dtype), b.cast(y, dtype))};
  }
  const Value ordered = b.Not(b.Or(b.Less(x, y), b.Greater(x, y)));
  return {b.And(ordered, b.Not(b.Or(b.IsNaN(x), b.IsNaN(y))))};
}

bool is_new_equality(const Node& node) {
  const DType dtype = node.inputs[0]->dtype;
  return dtype != DType::boolean && dtype != DType::i32 && dtype != DType::i64;
}

// Rounds halves to the even neighbor.
Values round(Builder& b, const Node& node) {
  const Value x = node.inputs[0];
  const Value below = b.Floor(x), rest = b.Sub(x, below), half = b.like(x, 0.5);
  const Value halved = b.Mul(below, half);
  const Value odd = b.Greater(b.Sub(halved, b.Floor(halved)), b.like(x, 0));
  const Value tie = b.Not(b.Or(b.Less(rest, half), b.Greater(rest, half)));
  const Value up = b.Or(b.Greater(rest, half), b.And(tie, odd));
  return {b.where(up, b.Add(below, b.like(x, 1)), below)};
}

Values is_inf(Builder& b, const Node& node) {
  const Value x = node.inputs[0];
  const bool positive = node.attribute_int("detect_positive", 1) != 0;
  const bool negative = node.attribute_int("detect_negative", 1) != 0;
  const double most = x->dtype == DType::f64   ? std::numeric_limits<double>::max()
                      : x->dtype == DType::f16 ? 65504.0
                                               : std::numeric_limits<float>::max();
  const Value above = b.Greater(x, b.like(x, most)), below = b.Less(x, b.like(x, -most));
  if (positive && negative) return {b.Or(above, below)};
  if (!positive && !negative) return {};
  return {positive ? above : below};
}

// Integers only: the remainder has the sign of the divisor, or with fmod that of the dividend.
Values mod(Builder& b, const Node& node) {
  const Value x = node.inputs[0], y = node.inputs[1];
  if (is_floating(x->dtype)) return {};
  const Value rest = b.Sub(x, b.Mul(y, b.Div(x, y)));
  if (node.attribute_int("fmod", 0) != 0) return {rest};
  const Value zero = b.like(x, 0);
  const Value other_sign = b.Or(b.And(b.Less(rest, zero), b.Greater(y, zero)),
                                b.And(b.Greater(rest, zero), b.Less(y, zero)));
  return {b.where(other_sign, b.Add(rest, y), rest)};
}

// --- Sequences of numbers.

Values range(Builder& b, const Node& node) {
  const Value start = node.inputs[0], limit = node.inputs[1], step = node.inputs[2];
  const DType dtype = start->dtype;
  if (is_floating(dtype) || !step->is_constant()) return {};
  const int64_t by = step->constant->integers()[0];
  if (by == 0) return {};
  const Value first = b.cast(start, DType::i64), last = b.cast(limit, DType::i64);
  Value count = b.Sub(last, first);
  if (by < 0) count = b.Sub(first, last);
  const int64_t stride = std::abs(by);
  if (stride != 1) count = b.Div(b.Add(count, b.i64(stride - 1)), b.i64(stride));
  const Value zero = b.i64(0);
  count = b.where(b.Less(count, zero), zero, count);
  Value result = places(b, b.unsqueeze(count, {0}));
  if (by != 1) result = b.Mul(result, b.i64(by));
  return {b.cast(b.Add(result, first), dtype)};
}

// Adds elements at distances 1, 2, 4 ...
Values cumsum(Builder& b, const Node& node) {
  Value x = node.inputs[0];
  if (!node.inputs[1]->is_constant()) return {};
  const int64_t axis = normalize_axis(node.inputs[1]->constant->integers()[0], x->rank());
  const auto size = x->dim(axis).constant();
  if (!size) return {};
  const bool reverse = node.attribute_int("reverse", 0) != 0;
  const auto shifted = [&](Value y, int64_t by) {
    const Value part = reverse ? b.slice(y, axis, by, *size) : b.slice(y, axis, 0, *size - by);
    const Value taken = reverse ? b.slice(y, axis, 0, by) : b.slice(y, axis, *size - by, *size);
    const Value zeros = b.op("Expand", {b.like(y, 0), b.op("Shape", {taken})});
    return b.concat(reverse ? Values{part, zeros} : Values{zeros, part}, axis);
  };
  if (node.attribute_int("exclusive", 0) != 0 && *size > 0) x = shifted(x, 1);
  for (int64_t by = 1; by < *size; by *= 2) x = b.Add(x, shifted(x, by));
  return {x == node.inputs[0] ? b.Identity(x) : x};
}

// --- Elements by index.

// Counts the elements in front of each selected one in the flattened data.
Values gather_elements(Builder& b, const Node& node) {
  const Value data = node.inputs[0], index = node.inputs[1];
  const int64_t rank = data->rank();
  const int64_t axis = normalize_axis(node.attribute_int("axis", 0), rank);
  const Value wide = b.cast(index, DType::i64);
  Value place =
      times(b, from_start(b, wide, size_of(b, data, axis)), count_of(b, data, axis + 1, rank));
  for (int64_t i = 0; i < rank; ++i) {
    if (i == axis || index->dim(i).equals(1)) continue;
    const Value along = b.unsqueeze(places(b, size_of(b, index, i)), all_but(rank, i));
    place = b.Add(place, times(b, along, count_of(b, data, i + 1, rank)));
  }
  return {b.gather(flat(b, data), place, 0)};
}

Values gather_nd(Builder& b, const Node& node) {
  const Value data = node.inputs[0], indices = node.inputs[1];
  const auto count = indices->dim(-1).constant();
  const bool is_one = node.attribute_int("batch_dims", 0) == 0 && indices->rank() > 1;
  if (!is_one || !count || *count < 1) return {};
  Value place = nullptr;
  for (int64_t i = 0; i < *count; ++i) {
    const Value index = b.gather(indices, b.i64(i), indices->rank() - 1);
    const Value part =
        times(b, from_start(b, index, size_of(b, data, i)), count_of(b, data, i + 1, *count));
    place = place ? b.Add(place, part) : part;
  }
  Values sizes{b.i64s({-1})};
  for (int64_t i = *count; i < data->rank(); ++i) sizes.push_back(size_of(b, data, i));
  const Value rows = *count == 1 ? data : b.op("Reshape", {data, joined(b, sizes)});
  return {b.gather(rows, place, 0)};
}

// Takes the k largest elements only, and only of float32 and float64.
Values top_k(Builder& b, const Node& node) {
  const Value x = node.inputs[0];
  if (x->dtype == DType::i64 || x->dtype == DType::u64) return {};
  const bool is_wide = x->dtype == DType::f64 || x->dtype == DType::i32 || x->dtype == DType::u32;
  Value data = b.cast(x, is_wide ? DType::f64 : DType::f32);
  const bool largest = node.attribute_int("largest", 1) != 0;
  if (!largest) data = b.Neg(data);
  Values top = b.ops("TopK", 2, {data, node.inputs[1]},
                     {{"axis", normalize_axis(node.attribute_int("axis", -1), x->rank())}});
  if (!largest) top[0] = b.Neg(top[0]);
  top[0] = b.cast(top[0], x->dtype);
  return top;
}

bool is_new_top_k(const Node& node) {
  const DType dtype = node.inputs[0]->dtype;
  return node.attribute_int("largest", 1) == 0 || (dtype != DType::f32 && dtype != DType::f64);
}

// --- Slices and padding.

// A slice with steps is a Gather at opset 9.
Values slice(Builder& b, const Node& node) {
  Value x = node.inputs[0];
  const auto numbers = [&](size_t i) -> Ints {
    const Value value = node.input(i);
    return value && value->is_constant() ? Ints(value->constant->integers()) : Ints();
  };
  const Ints starts = numbers(1), ends = numbers(2);
  Ints axes = numbers(3);
  const Ints steps = numbers(4);
  if (starts.empty() || ends.size() != starts.size() || steps.size() != starts.size()) return {};
  if (!node.input(3)) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t axis = normalize_axis(axes.at(i), x->rank());
    if (steps[i] == 1) {
      x = b.op("Slice", {x, b.i64s({starts[i]}), b.i64s({ends[i]}), b.i64s({axis})});
      continue;
    }
    const auto size = x->dim(axis).constant();
    if (!size || steps[i] == 0) return {};
    const auto place = [&](int64_t at) {
      if (at < 0) at += *size;
      return steps[i] > 0 ? std::clamp<int64_t>(at, 0, *size)
                          : std::clamp<int64_t>(at, -1, *size - 1);
    };
    const int64_t start = place(starts[i]);
    // The lowest number means: to the first element.
    const int64_t end = ends[i] < -*size ? (steps[i] > 0 ? 0 : -1) : place(ends[i]);
    Ints index;
    for (int64_t at = start; steps[i] > 0 ? at < end : at > end; at += steps[i])
      index.push_back(at);
    x = b.gather(x, b.i64s(index), axis);
  }
  return {x};
}

bool has_steps(const Node& node) {
  const Value steps = node.input(4);
  if (!steps) return false;
  if (!steps->is_constant()) return true;
  const auto numbers = steps->constant->integers();
  return std::ranges::any_of(numbers, [](int64_t step) { return step != 1; });
}

// Pad is for floating-point numbers. Zeros and other constants are concatenated.
Values pad(Builder& b, const Node& node) {
  Value x = node.inputs[0];
  if (!node.inputs[1]->is_constant() || node.input(3)) return {};
  const auto sizes = node.inputs[1]->constant->integers();
  const DType dtype = x->dtype;
  if (node.attribute_string("mode", "constant") != "constant") {
    if (dtype == DType::i64 || dtype == DType::u64) return {};
    const Value padded = b.op("Pad", {b.cast(x, DType::f64), node.inputs[1]},
                              {{"mode", node.attribute_string("mode", "")}});
    return {b.cast(padded, dtype)};
  }
  const Value fill = node.input(2) ? node.inputs[2] : b.like(x, 0);
  const int64_t rank = x->rank();
  for (int64_t axis = 0; axis < rank; ++axis) {
    const int64_t before = sizes[axis], after = sizes[rank + axis];
    if (before < 0 || after < 0) {
      const int64_t end = after < 0 ? after : std::numeric_limits<int64_t>::max();
      x = b.op("Slice",
               {x, b.i64s({std::max<int64_t>(-before, 0)}), b.i64s({end}), b.i64s({axis})});
    }
    const auto block = [&](int64_t count) {
      Values parts;
      for (int64_t i = 0; i < rank; ++i)
        parts.push_back(i == axis ? b.i64s({count}) : size_of(b, x, i));
      return b.op("Expand", {fill, joined(b, parts)});
    };
    Values parts{x};
    if (before > 0) parts.insert(parts.begin(), block(before));
    if (after > 0) parts.push_back(block(after));
    if (parts.size() > 1) x = b.concat(parts, axis);
  }
  return {x == node.inputs[0] ? b.Identity(x) : x};
}

// Returns true if the attributes of Pad before opset 11 cannot express it.
bool is_new_pad(const Node& node) {
  const DType dtype = node.inputs[0]->dtype;
  const Value value = node.input(2);
  return (dtype != DType::f32 && dtype != DType::f64) || (value && !value->is_constant());
}

// --- Networks.

// C is not optional.
Values biased_gemm(Builder& b, const Node& node) {
  return {b.op("Gemm", {node.inputs[0], node.inputs[1], b.full(node.inputs[0]->dtype, 0, {1})},
               node.attributes)};
}
bool has_no_bias(const Node& node) { return !node.input(2); }

// The columns of a pixel are spread before the depth: [n, c, r, r, h, w].
Values depth_to_space(Builder& b, const Node& node) {
  const Value x = node.inputs[0];
  const int64_t r = node.attribute_int("blocksize", 1);
  const auto channels = x->dim(1).constant();
  if (!channels || r < 1) return {};
  const Value n = size_of(b, x, 0), h = size_of(b, x, 2), w = size_of(b, x, 3), block = b.i64s({r});
  const Value depth = b.i64s({*channels / (r * r)});
  const Value split = b.op("Reshape", {x, joined(b, {n, depth, block, block, h, w})});
  const Value spread = b.transpose(split, {0, 1, 4, 2, 5, 3});
  return {b.op("Reshape", {spread, joined(b, {n, depth, times(b, h, block), times(b, w, block)})})};
}
bool has_columns_first(const Node& node) { return node.attribute_string("mode", "DCR") == "CRD"; }

// The place in the input of an element of the result, computed in float32 like eager.
class Coordinates {
 public:
  Coordinates(const Node& node, int64_t in, int64_t out, std::optional<double> scale)
      : mode_(node.attribute_string("coordinate_transformation_mode", "half_pixel")),
        nearest_(node.attribute_string("mode", "nearest") == "nearest"),
        rounding_(node.attribute_string("nearest_mode", "round_prefer_floor")),
        last_(static_cast<float>(in - 1)),
        step_(scale ? static_cast<float>(1 / *scale)
                    : static_cast<float>(in) / static_cast<float>(out)) {
    if (mode_ == "align_corners") step_ = out > 1 ? last_ / static_cast<float>(out - 1) : 0;
  }
  // Returns false for modes that this class does not compute.
  bool is_known() const {
    if (nearest_ && mode_ == "asymmetric") return rounding_ == "floor";
    if (nearest_) return false;
    return mode_ == "half_pixel" || mode_ == "align_corners" || mode_ == "asymmetric";
  }
  float at(int64_t place) const {
    const auto i = static_cast<float>(place);
    float found = i * step_;
    if (mode_ == "half_pixel") found = (i + 0.5F) * step_ - (nearest_ ? 0.0F : 0.5F);
    return std::clamp(nearest_ ? std::floor(found) : found, 0.0F, last_);
  }

 private:
  std::string mode_;
  bool nearest_;
  std::string rounding_;
  float last_, step_;
};

// Interpolates one axis after the other, between elements that Gather takes. All sizes are known.
Values resize(Builder& b, const Node& node) {
  Value x = node.inputs[0];
  const std::string mode = node.attribute_string("mode", "nearest");
  if ((mode != "nearest" && mode != "linear") || !is_floating(x->dtype)) return {};
  if (node.attribute_int("antialias", 0) != 0 || node.attribute("axes")) return {};
  const Value scales = node.input(2);
  // Eager divides by the scale in float64, of which Resize has the float32.
  if (scales && (mode == "nearest" || !scales->is_constant())) return {};
  for (int64_t axis = 0; axis < x->rank(); ++axis) {
    const auto in = x->dim(axis).constant(), out = node.outputs[0]->dim(axis).constant();
    std::optional<double> scale;
    if (scales) scale = scales->constant->number(axis);
    if (x->dim(axis) == node.outputs[0]->dim(axis) && (!scale || *scale == 1)) continue;
    if (!in || !out || *in == 0) return {};
    const Coordinates coordinates(node, *in, *out, scale);
    if (!coordinates.is_known()) return {};
    Ints low, high;
    std::vector<double> weights;
    for (int64_t i = 0; i < *out; ++i) {
      const float at = coordinates.at(i);
      low.push_back(static_cast<int64_t>(at));
      high.push_back(std::min(low.back() + 1, *in - 1));
      weights.push_back(at - std::floor(at));
    }
    const Value below = b.gather(x, b.i64s(low), axis);
    if (std::ranges::all_of(weights, [](double weight) { return weight == 0; })) {
      x = below;
      continue;
    }
    const Value above = b.gather(x, b.i64s(high), axis);
    std::vector<int64_t> shape{*out};
    for (int64_t i = axis + 1; i < x->rank(); ++i) shape.push_back(1);
    const Value weight = b.tensor(make_tensor(x->dtype, shape, weights));
    x = b.Add(b.Mul(below, b.Sub(b.like(x, 1), weight)), b.Mul(above, weight));
  }
  return {x == node.inputs[0] ? b.Identity(x) : x};
}

bool is_new_resize(const Node& node) {
  return node.attribute_string("mode", "nearest") != "nearest" || !has_whole_scales(node) ||
         node.attribute_string("coordinate_transformation_mode", "half_pixel") != "asymmetric" ||
         node.attribute_string("nearest_mode", "round_prefer_floor") != "floor" ||
         !is_floating(node.inputs[0]->dtype);
}

constexpr Composition kCompositionsBefore11[] = {
    {"CumSum", 11, cumsum},
    {"DepthToSpace", 11, depth_to_space, has_columns_first},
    {"Equal", 11, equal, is_new_equality},
    {"GatherElements", 11, gather_elements},
    {"GatherND", 11, gather_nd},
    {"Gemm", 11, biased_gemm, has_no_bias},
    {"IsInf", 10, is_inf},
    {"Mod", 10, mod},
    {"Pad", 11, pad, is_new_pad},
    {"Range", 11, range},
    {"Resize", 11, resize, is_new_resize},
    {"Round", 11, round},
    {"Slice", 10, slice, has_steps},
    {"TopK", 11, top_k, is_new_top_k}};

}  // namespace

bool has_whole_scales(const Node& node) {
  const Value scales = node.input(2);
  if (!scales || !scales->is_constant()) return false;
  for (int64_t axis = 0; axis < scales->constant->numel(); ++axis) {
    const double scale = scales->constant->number(axis);
    if (scale < 1 || scale != std::floor(scale)) return false;
  }
  return true;
}

Composer composition_before_11(const Node& node, int64_t opset) {
  const auto* rule = std::ranges::find(kCompositionsBefore11, node.op_type, &Composition::op_type);
  if (rule == std::end(kCompositionsBefore11) || opset >= rule->before) return nullptr;
  return !rule->applies || rule->applies(node) ? rule->compose : nullptr;
}

}  // namespace onnx_native::passes
