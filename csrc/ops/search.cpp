// Finding and counting: searches in sorted sequences, unique elements, memberships, histograms.
#include <limits>

#include "ops/families.h"
#include "ops/index.h"
#include "ops/sort.h"
#include "ops/view.h"

namespace onnx_native::ops {
namespace {

// How many boundaries are before each value. Written as "not after" so that NaN, which sorts last,
// has all of them before it.
Value boundaries_before(Builder& b, Value sequence, Value values, bool right, bool out_int32) {
  if (b.known_shape(sequence)->size() > 1) sequence = b.unsqueeze(sequence, {-2});
  values = b.unsqueeze(values, {-1});
  Value after = right ? b.Greater(sequence, values) : b.GreaterOrEqual(sequence, values);
  DType dtype = out_int32 ? DType::i32 : DType::i64;
  return b.reduce("ReduceSum", b.cast(b.Not(after), dtype), {-1}, /*keepdims=*/false);
}

Value searchsorted(Builder& b, Value, Value, bool out_int32, bool right,
                   std::optional<std::string> side, std::optional<Value> sorter, const Call& call) {
  DType dtype = call.result_type_of({0, 1});
  Value sequence = b.cast(call.tensor(0), dtype);
  Value values = b.cast(call.tensor(1, dtype), dtype);
  if (sorter) sequence = gather_elements(b, sequence, -1, *sorter);
  return boundaries_before(b, sequence, values, right || side == "right", out_int32);
}

Value bucketize(Builder& b, Value self, Value boundaries, bool out_int32, bool right) {
  return boundaries_before(b, boundaries, self, right, out_int32);
}

Value isin(Builder& b, Value elements, Value test_elements, Ignored, bool invert) {
  Value test = b.reshape(test_elements, {numel(*b.known_shape(test_elements))});
  Value found = b.squeeze(any_along(b, b.Equal(b.unsqueeze(elements, {-1}), test), -1), {-1});
  return invert ? b.Not(found) : found;
}

// --- Unique.

Value nothing(Builder& b) { return b.full(DType::i64, 0, {0}); }

Values unique(Builder& b, Value self, Ignored, bool return_inverse, bool return_counts) {
  const Shape shape = *b.known_shape(self);
  Values parts = b.ops("Unique", 4, {b.reshape(self, {numel(shape)})}, {{"sorted", int64_t{1}}});
  return {parts[0], return_inverse ? b.reshape(parts[2], shape) : nothing(b),
          return_counts ? parts[3] : nothing(b)};
}

Values unique_dim(Builder& b, Value self, int64_t dim, Ignored, bool return_inverse,
                  bool return_counts) {
  int64_t axis = normalize_axis(dim, static_cast<int64_t>(b.known_shape(self)->size()));
  Values parts = b.ops("Unique", 4, {self}, {{"axis", axis}, {"sorted", int64_t{1}}});
  return {parts[0], return_inverse ? parts[2] : nothing(b), return_counts ? parts[3] : nothing(b)};
}

Value ones_added_at(Builder& b, Value index, const Dim& size) {
  return b.op("ScatterElements",
              {b.full(DType::i64, 0, {size}), index, b.full(DType::i64, 1, *index->shape)},
              {{"axis", int64_t{0}}, {"reduction", std::string("add")}});
}

// Runs of equal elements, or of equal slices along a dimension.
Values unique_consecutive(Builder& b, Value self, bool return_inverse, bool return_counts,
                          std::optional<int64_t> dim) {
  const Shape shape = *b.known_shape(self);
  Value data = dim ? self : b.reshape(self, {numel(shape)});
  int64_t axis = normalize_axis(dim.value_or(0), data->rank());
  const Dim size = data->dim(axis);
  Value places = positions(b, 0, size);
  Value previous = b.gather(data, b.Max(b.Sub(places, b.i64(1)), b.i64(0)), axis);
  Value differs = b.Not(b.Equal(data, previous));
  Ints others;
  for (int64_t i = 0; i < data->rank(); ++i) {
    if (i != axis) others.push_back(i);
  }
  if (!others.empty()) {
    Value count = b.reduce("ReduceSum", b.cast(differs, DType::i32), others, /*keepdims=*/false);
    differs = b.Greater(count, b.scalar(DType::i32, 0));
  }
  Value starts = b.Or(differs, b.Equal(places, b.i64(0)));
  Value runs = b.op("Compress", {data, starts}, {{"axis", axis}});
  Value run_of = b.Sub(b.op("CumSum", {b.cast(starts, DType::i64), b.i64(0)}), b.i64(1));
  Value inverse = dim ? run_of : b.reshape(run_of, shape);
  return {runs, return_inverse ? inverse : nothing(b),
          return_counts ? ones_added_at(b, run_of, runs->dim(axis)) : nothing(b)};
}

// --- Histograms.

// Adds each weight into its bin of `bins`; a bin of that number takes what lies outside.
Value count_bins(Builder& b, Value bin, Value weights, const Dim& bins) {
  Value sums = b.op("ScatterElements", {b.full(weights->dtype, 0, {bins + 1}), bin, weights},
                    {{"axis", int64_t{0}}, {"reduction", std::string("add")}});
  Value result = b.slice(sums, 0, 0, bins);
  result->shape = Shape{bins};
  return result;
}

struct Range {
  Value low, high;
};

// The range that a histogram covers: the data's own where none is given, widened when empty.
Range histogram_range(Builder& b, Value flat, double low, double high) {
  if (low != high) return {b.like(flat, low), b.like(flat, high)};
  Range range{b.like(flat, low), b.like(flat, high)};
  if (!flat->dim(0).equals(0)) {
    range = {b.reduce("ReduceMin", flat, {}, /*keepdims=*/false),
             b.reduce("ReduceMax", flat, {}, /*keepdims=*/false)};
  }
  Value empty = b.Equal(range.low, range.high);
  return {b.where(empty, b.Sub(range.low, b.like(flat, 1)), range.low),
          b.where(empty, b.Add(range.high, b.like(flat, 1)), range.high)};
}

Value histc(Builder& b, Value self, int64_t bins, double min, double max) {
  Value flat = b.reshape(self, {numel(*b.known_shape(self))});
  // What ATen's own range is for a given `min == max`.
  Range range = histogram_range(b, flat, min, max);
  Value inside = b.And(b.GreaterOrEqual(flat, range.low), b.LessOrEqual(flat, range.high));
  Value place =
      b.Div(b.Mul(b.Sub(flat, range.low), b.like(flat, bins)), b.Sub(range.high, range.low));
  place = b.where(inside, place, b.like(flat, 0));
  Value bin = b.Min(b.cast(place, DType::i64), b.i64(bins - 1));
  return count_bins(b, b.where(inside, bin, b.i64(bins)), b.full(flat->dtype, 1, *flat->shape),
                    bins);
}

// Counts in [edge, next edge), the last bin closed.
Pair histogram(Builder& b, Value self, Value edges, std::optional<Value> weight, bool density) {
  Shape count{numel(*b.known_shape(self))};
  Value flat = b.reshape(self, count);
  Dim bins = b.known_shape(edges)->at(0) - 1;
  Value last = b.select(edges, 0, bins);
  Value inside = b.And(b.GreaterOrEqual(flat, b.select(edges, 0, 0)), b.LessOrEqual(flat, last));
  Value bin = b.Sub(boundaries_before(b, edges, flat, /*right=*/true, false), b.i64(1));
  bin = b.where(inside, b.Min(bin, b.dim_value(bins - 1)), b.dim_value(bins));
  Value hist =
      count_bins(b, bin, weight ? b.reshape(*weight, count) : b.full(flat->dtype, 1, count), bins);
  if (density) {
    Value widths = b.Sub(b.slice(edges, 0, 1, bins + 1), b.slice(edges, 0, 0, bins));
    hist = b.Div(b.Div(hist, b.reduce("ReduceSum", hist, {}, /*keepdims=*/false)), widths);
  }
  return {hist, edges};
}

Pair histogram_of_bins(Builder& b, Value self, int64_t bins,
                       std::optional<std::vector<double>> range, std::optional<Value> weight,
                       bool density) {
  Value flat = b.reshape(self, {numel(*b.known_shape(self))});
  Range ends =
      range ? histogram_range(b, flat, range->at(0), range->at(1)) : histogram_range(b, flat, 0, 0);
  // As torch.linspace: from each end up to the middle.
  std::vector<double> from_low, from_high;
  for (int64_t i = 0; i <= bins; ++i) {
    bool first_half = i < (bins + 1) / 2;
    from_low.push_back(first_half ? static_cast<double>(i) : 0);
    from_high.push_back(first_half ? 0 : static_cast<double>(bins - i));
  }
  auto numbers = [&](const std::vector<double>& values) {
    return b.tensor(make_tensor(flat->dtype, {bins + 1}, std::span<const double>(values)));
  };
  std::vector<int64_t> half(bins + 1);
  for (int64_t i = 0; i <= bins; ++i) half[i] = i < (bins + 1) / 2;
  Value is_first = b.cast(b.i64s(half), DType::boolean);
  Value step = b.Div(b.Sub(ends.high, ends.low), b.like(flat, bins));
  Value edges = b.where(is_first, b.Add(ends.low, b.Mul(step, numbers(from_low))),
                        b.Sub(ends.high, b.Mul(step, numbers(from_high))));
  return histogram(b, self, edges, weight, density);
}

Value bincount(Builder& b, Value self, std::optional<Value> weights, const Dim& minlength) {
  self = b.cast(self, DType::i64);
  // The largest element and minlength - 1 together: right for no elements, too.
  Value all = b.concat({self, b.shape_value({minlength - 1})}, 0);
  Value largest = b.reduce("ReduceMax", all, {}, /*keepdims=*/false);
  Dim bins = b.dim_of(b.Add(largest, b.i64(1)));
  Value ones = nullptr;
  if (weights)
    ones = (*weights)->dtype == DType::f32 ? *weights : b.cast(*weights, DType::f64);
  else
    ones = b.full(DType::i64, 1, *b.known_shape(self));
  return count_bins(b, self, ones, bins);
}

}  // namespace

void register_search(OpTable& ops) {
  ops.def({"aten::searchsorted.Tensor", "aten::searchsorted.Scalar"}, searchsorted);
  ops.def({"aten::bucketize.Tensor", "aten::bucketize.Scalar"}, Promote::standard, bucketize);
  ops.def({"aten::isin.Tensor_Tensor", "aten::isin.Tensor_Scalar", "aten::isin.Scalar_Tensor"},
          Promote::standard, isin);
  ops.def("aten::_unique2", unique);
  ops.def("aten::unique_dim", unique_dim);
  ops.def("aten::unique_consecutive", unique_consecutive);
  ops.def("aten::histc", histc);
  ops.def("aten::histogram.bins_tensor", histogram);
  ops.def("aten::histogram.bin_ct", histogram_of_bins);
  ops.def("aten::bincount", bincount);
}

}  // namespace onnx_native::ops
