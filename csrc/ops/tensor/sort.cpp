// Sorts, order statistics, modes and quantiles. TopK orders equal elements by index, so every sort
// is stable.
#include "ops/formulas/sort.h"

#include <algorithm>
#include <limits>

#include "ops/families.h"
#include "ops/formulas/axes.h"
#include "ops/formulas/view.h"

namespace onnx_native::ops {
namespace {

Value nan_like(Builder& b, Value self) {
  return b.like(self, std::numeric_limits<double>::quiet_NaN());
}

// Drops the axis that a reduction kept, unless `keepdim` is set. A 0-d `shape` gives 0-d results.
Pair with_dropped_axis(Builder& b, Pair results, const Shape& shape, int64_t axis, bool keepdim) {
  for (Value& result : results) {
    if (shape.empty())
      result = b.reshape(result, {});
    else if (!keepdim)
      result = b.squeeze(result, {axis});
  }
  return results;
}

// Sorts elements that may be NaN.
Pair sort_with_nan(Builder& b, Value self, int64_t dim, bool descending) {
  const Dim size = self->rank() == 0 ? Dim(1) : self->dim(dim);
  return top_k_with_nan(b, self, size, dim, descending);
}

using TopK = Pair (*)(Builder&, Value, const Dim&, int64_t, bool);

// Returns the k-th smallest element along an axis, which stays with size 1.
Pair kth_smallest(Builder& b, Value self, const Dim& k, int64_t axis, TopK top) {
  Pair smallest = top(b, self, k, axis, /*largest=*/false);
  for (Value& part : smallest) {
    part = b.slice(part, axis, k - 1, std::numeric_limits<int64_t>::max());
    b.refine(part, axis, 1);
  }
  return smallest;
}

Pair kthvalue(Builder& b, Value self, const Dim& k, int64_t dim, bool keepdim) {
  const Shape& shape = self->known_shape();
  Value data = at_least_1d(b, self);
  int64_t axis = normalize_axis(dim, data->rank());
  return with_dropped_axis(b, kth_smallest(b, data, k, axis, top_k_with_nan), shape, axis, keepdim);
}

// Returns the lower of the two middle elements; NaN if any element is NaN.
Pair median_along(Builder& b, Value self, int64_t axis) {
  Pair middle = kth_smallest(b, self, Dim::floor_div(self->dim(axis) - 1, 2) + 1, axis, top_k);
  if (!is_floating(self->dtype)) return middle;
  Value nans = b.IsNaN(self);
  Value found = any_along(b, nans, axis);
  Value first = b.op("ArgMax", {b.cast(nans, DType::i32)}, {{"axis", axis}});
  return {b.where(found, nan_like(b, self), middle[0]), b.where(found, first, middle[1])};
}

// Returns the median of the elements that are not NaN: NaN sorts last and is not counted.
Pair nanmedian_along(Builder& b, Value self, int64_t axis) {
  if (!is_floating(self->dtype)) return median_along(b, self, axis);
  Value nans = b.IsNaN(self);
  Pair sorted = sort_with_nan(b, self, axis, /*descending=*/false);
  Value count = b.reduce("ReduceSum", b.cast(b.Not(nans), DType::i64), {axis}, /*keepdims=*/true);
  Value none = b.Equal(count, b.i64(0));
  Value middle = b.Div(b.Max(b.Sub(count, b.i64(1)), b.i64(0)), b.i64(2));
  for (Value& part : sorted) part = b.op("GatherElements", {part, middle}, {{"axis", axis}});
  return {b.where(none, nan_like(b, self), sorted[0]), sorted[1]};
}

// Returns the median of no elements: NaN, which eager casts to the dtype.
Value median_of_none(Builder& b, Value self) {
  if (is_floating(self->dtype)) return nan_like(b, self);
  if (self->dtype == DType::i64) return b.like(self, std::numeric_limits<int64_t>::min());
  if (self->dtype == DType::i32) return b.like(self, std::numeric_limits<int32_t>::min());
  return b.like(self, self->dtype == DType::boolean ? 1 : 0);
}

using AlongAxis = Pair (*)(Builder&, Value, int64_t);

template <AlongAxis kMedian>
Value median_of_all(Builder& b, Value self) {
  Dim count = numel(self->known_shape());
  if (count.equals(0)) return median_of_none(b, self);
  Value flat = b.reshape(self, {count});
  if (!count.known_positive()) {
    const Dim missing = 1 - Dim::min(count, 1);
    flat = b.concat({flat, b.expand(b.unsqueeze(median_of_none(b, self), {0}), {missing})}, 0);
  }
  return b.squeeze(kMedian(b, flat, 0)[0], {0});
}

template <AlongAxis kMedian>
Pair median_of_dim(Builder& b, Value self, int64_t dim, bool keepdim) {
  const Shape& shape = self->known_shape();
  Value data = at_least_1d(b, self);
  int64_t axis = normalize_axis(dim, data->rank());
  return with_dropped_axis(b, kMedian(b, data, axis), shape, axis, keepdim);
}

// Returns the smallest of the most frequent elements, and its last index. NaN is not counted, so it
// is the mode of NaN only; what eager returns then depends on the order in which it sorts.
Pair mode(Builder& b, Value self, int64_t dim, bool keepdim) {
  const Shape shape = self->known_shape();
  Value data = at_least_1d(b, self);
  int64_t axis = normalize_axis(dim, data->rank());
  if (data->dtype == DType::boolean) data = b.cast(data, DType::u8);
  data = move_axis(b, data, axis, -1);
  const Value nans = is_floating(data->dtype) ? b.IsNaN(data) : nullptr;
  const Value infinity = nans ? b.like(data, std::numeric_limits<double>::infinity()) : nullptr;
  if (nans) data = b.where(nans, infinity, data);
  Value sorted = sort(b, data, -1, /*descending=*/false)[0];
  Value same = b.Equal(b.unsqueeze(sorted, {-1}), b.unsqueeze(sorted, {-2}));
  Value counts = b.reduce("ReduceSum", b.cast(same, DType::i32), {-1}, /*keepdims=*/false);
  Value nan_count = nullptr;
  if (nans) {
    nan_count = b.reduce("ReduceSum", b.cast(nans, DType::i32), {-1}, /*keepdims=*/true);
    counts = b.where(b.Equal(sorted, infinity), b.Sub(counts, nan_count), counts);
  }
  int64_t last = data->rank() - 1;
  Value most = b.op("ArgMax", {counts}, {{"axis", last}});
  Value value = b.op("GatherElements", {sorted, most}, {{"axis", last}});
  Value found = b.Equal(data, value);
  if (nans) found = b.And(found, b.Not(nans));
  Value where = b.op("ArgMax", {b.cast(found, DType::i32)},
                     {{"axis", last}, {"select_last_index", int64_t{1}}});
  if (nans) {
    const Value none = b.Equal(nan_count, b.cast(b.dim_value(data->dim(-1)), DType::i32));
    value = b.where(none, nan_like(b, value), value);
    where = b.where(none, b.i64(0), where);
  }
  Pair results{b.cast(move_axis(b, value, -1, axis), self->dtype), move_axis(b, where, -1, axis)};
  return with_dropped_axis(b, results, shape, axis, keepdim);
}

// --- Quantiles.

struct Quantile {
  std::optional<int64_t> dim;
  bool keepdim;
  std::string interpolation;
  bool ignore_nan;
};

// Returns the elements of sorted rows at `ranks`, shared by all rows (1-d) or given per row.
Value at_ranks(Builder& b, Value sorted, Value ranks) {
  int64_t last = sorted->rank() - 1;
  return b.op(ranks->rank() == 1 ? "Gather" : "GatherElements", {sorted, ranks}, {{"axis", last}});
}

Value interpolate(Builder& b, Value sorted, Value ranks, const std::string& interpolation) {
  if (interpolation == "lower") ranks = b.Floor(ranks);
  if (interpolation == "higher") ranks = b.Ceil(ranks);
  if (interpolation == "nearest") ranks = b.Round(ranks);
  Value below = b.cast(ranks, DType::i64);
  Value low = at_ranks(b, sorted, below);
  if (interpolation != "linear" && interpolation != "midpoint") return low;
  Value high = at_ranks(b, sorted, b.cast(b.Ceil(ranks), DType::i64));
  Value weight =
      interpolation == "midpoint" ? b.like(ranks, 0.5) : b.Sub(ranks, b.cast(below, ranks->dtype));
  return b.Add(low, b.Mul(weight, b.Sub(high, low)));
}

// `q` is 1-d. The quantiles form the first axis of the result.
Value quantiles(Builder& b, Value self, Value q, const Quantile& options) {
  static constexpr std::string_view kModes[] = {"linear", "lower", "higher", "midpoint", "nearest"};
  b.check(std::ranges::find(kModes, options.interpolation) != std::end(kModes),
          "interpolation must be linear, lower, higher, midpoint or nearest, got ",
          options.interpolation);
  const Shape shape = self->known_shape();
  int64_t axis = options.dim ? normalize_axis(*options.dim, self->rank()) : 0;
  Value rows =
      options.dim ? move_axis(b, at_least_1d(b, self), axis, -1) : b.reshape(self, {numel(shape)});
  Value nans = b.IsNaN(rows);
  Value infinity = b.like(rows, std::numeric_limits<double>::infinity());
  Value sorted = sort(b, b.where(nans, infinity, rows), -1, /*descending=*/false)[0];
  Value invalid = nullptr;
  Value ranks = nullptr;
  if (options.ignore_nan) {
    Value count = b.reduce("ReduceSum", b.cast(b.Not(nans), self->dtype), {-1}, /*keepdims=*/true);
    invalid = b.Equal(count, b.like(count, 0));
    ranks = b.Max(b.Mul(q, b.Sub(count, b.like(count, 1))), b.like(count, 0));
  } else {
    invalid = any_along(b, nans, -1);
    ranks = b.Mul(q, b.cast(b.dim_value(rows->dim(-1) - 1), self->dtype));
  }
  Value result =
      b.where(invalid, nan_like(b, self), interpolate(b, sorted, ranks, options.interpolation));
  result = move_axis(b, result, -1, 0);
  if (!options.keepdim || shape.empty()) return result;
  Ints kept;
  for (int64_t i = 0; i < static_cast<int64_t>(shape.size()); ++i) {
    if (!options.dim || i == axis) kept.push_back(i + 1);
  }
  return b.unsqueeze(result, kept);
}

template <bool kIgnoreNan>
Value quantile(Builder& b, Value self, Value q, std::optional<int64_t> dim, bool keepdim,
               std::string interpolation) {
  bool one = q->rank() == 0;
  Value result = quantiles(b, self, at_least_1d(b, q), {dim, keepdim, interpolation, kIgnoreNan});
  return one ? b.squeeze(result, {0}) : result;
}

template <bool kIgnoreNan>
Value quantile_scalar(Builder& b, Value self, const Number& q, std::optional<int64_t> dim,
                      bool keepdim, std::string interpolation) {
  return quantile<kIgnoreNan>(b, self, b.like(self, q), dim, keepdim, interpolation);
}

}  // namespace

void register_sort(OpTable& ops) {
  ops.def("aten::sort", sort_with_nan);
  ops.def("aten::sort.stable", [](Builder& b, Value self, Ignored, int64_t dim, bool descending) {
    return sort_with_nan(b, self, dim, descending);
  });
  ops.def("aten::argsort", [](Builder& b, Value self, int64_t dim, bool descending) {
    return sort_with_nan(b, self, dim, descending)[1];
  });
  ops.def("aten::argsort.stable",
          [](Builder& b, Value self, Ignored, int64_t dim, bool descending) {
            return sort_with_nan(b, self, dim, descending)[1];
          });
  ops.def("aten::msort", [](Builder& b, Value self) {
    return sort_with_nan(b, self, 0, /*descending=*/false)[0];
  });
  ops.def("aten::topk", [](Builder& b, Value self, Dim k, int64_t dim, bool largest, Ignored) {
    return top_k_with_nan(b, self, k, dim, largest);
  });
  ops.def("aten::kthvalue", kthvalue);
  ops.def("aten::median", median_of_all<median_along>);
  ops.def("aten::median.dim", median_of_dim<median_along>);
  ops.def("aten::nanmedian", median_of_all<nanmedian_along>);
  ops.def("aten::nanmedian.dim", median_of_dim<nanmedian_along>);
  ops.def("aten::mode", mode);
  ops.def("aten::quantile", quantile<false>);
  ops.def("aten::quantile.scalar", quantile_scalar<false>);
  ops.def("aten::nanquantile", quantile<true>);
  ops.def("aten::nanquantile.scalar", quantile_scalar<true>);
}

}  // namespace onnx_native::ops
