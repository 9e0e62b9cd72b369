// Searching and counting: sorted sequences, unique elements, membership, histograms.

#include <array>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/weight.h"
#include "ops/families.h"
#include "ops/formulas/index.h"
#include "ops/formulas/loop.h"
#include "ops/formulas/numeric.h"
#include "ops/formulas/positions.h"
#include "ops/formulas/sort.h"

namespace onnx_native::ops {
namespace {

// Returns true for constants in ascending order without NaN.
bool is_ascending(Value sequence) {
  if (!has_elements(sequence->constant) || sequence->rank() != 1) return false;
  const auto size = sequence->dim(0).constant_or(0);
  for (int64_t i = 0; i < size; ++i) {
    const double number = sequence->constant->number(i);
    if (std::isnan(number) || (i > 0 && number < sequence->constant->number(i - 1))) return false;
  }
  return true;
}

// Searches by halves, as eager does: this decides the result where the sequence has NaN or is not
// in order. `sequence` is 1-d, or has the leading dimensions of `values`.
Value searched(Builder& b, Value sequence, Value values, bool right) {
  const Dim size = sequence->dim(-1);
  const bool rows = sequence->rank() > 1;
  // Ranges that are not searched anymore read the element that is added.
  Shape added = sequence->known_shape();
  added.back() = 1;
  const Value padded = b.concat({sequence, b.full(sequence->dtype, 0, added)}, -1);
  const auto halve = [&](Value start, Value end) {
    const Value middle = b.Div(b.Add(start, end), b.i64(2));
    const Value found = rows ? gather_elements(b, padded, -1, middle) : b.gather(padded, middle, 0);
    const Value after = right ? b.Greater(found, values) : b.GreaterOrEqual(found, values);
    const Value searching = b.Less(start, end);
    return std::pair{b.where(b.And(searching, b.Not(after)), b.Add(middle, b.i64(1)), start),
                     b.where(b.And(searching, after), middle, end)};
  };
  Value start = b.full(DType::i64, 0, values->known_shape());
  Value end = b.expand(b.dim_value(size), values->known_shape());
  if (size.is_constant()) {
    for (int64_t left = *size.constant(); left > 0; left /= 2)
      std::tie(start, end) = halve(start, end);
    return start;
  }
  constexpr int64_t kMostSteps = 63;
  return loop_while(b, b.i64(kMostSteps), {start, end}, [&](Value, const Values& states) {
    const auto [low, high] = halve(states[0], states[1]);
    return Values{any_true(b, b.Less(low, high)), low, high};
  })[0];
}

// Returns the number of boundaries before each value. Counts those that are not after it, because
// NaN sorts last and must count all of them.
Value boundaries_before(Builder& b, Value sequence, Value values, bool right, bool out_int32) {
  if (is_floating(sequence->dtype) && !is_ascending(sequence))
    return b.cast(searched(b, sequence, values, right), out_int32 ? DType::i32 : DType::i64);
  if (sequence->known_shape().size() > 1) sequence = b.unsqueeze(sequence, {-2});
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
  Value test = b.reshape(test_elements, {numel(test_elements->known_shape())});
  Value found = b.squeeze(any_along(b, b.Equal(b.unsqueeze(elements, {-1}), test), -1), {-1});
  return invert ? b.Not(found) : found;
}

// --- Unique.

Value nothing(Builder& b) { return b.full(DType::i64, 0, {0}); }

// The unique elements, their inverse and their counts. Each NaN is an element of its own, after the
// numbers. ONNX Runtime orders elements by `<`, and NaN would break the order.
std::array<Value, 3> unique_elements(Builder& b, Value flat) {
  const auto of_numbers = [&](Value numbers) {
    const Values parts = b.ops("Unique", 4, {numbers}, {{"sorted", int64_t{1}}});
    return std::array{parts[0], parts[2], parts[3]};
  };
  if (!is_floating(flat->dtype)) return of_numbers(flat);
  const Value is_nan = b.IsNaN(flat);
  const Value is_number = b.Not(is_nan);
  const auto only = [&](Value which) { return b.op("Compress", {flat, which}, {{"axis", 0}}); };
  const auto [values, inverse, counts] = of_numbers(only(is_number));
  const Value nans = only(is_nan);
  const auto place = [&](Value which) {
    return b.Sub(b.op("CumSum", {b.cast(which, DType::i64), b.i64(0)}), b.i64(1));
  };
  // A place before the first number is -1, where the element that is added is read.
  const Value of_number = b.gather(b.concat({inverse, b.i64s({0})}, 0), place(is_number), 0);
  const Value of_nan = b.Add(place(is_nan), b.dim_value(values->dim(0)));
  return {b.concat({values, nans}, 0), b.where(is_nan, of_nan, of_number),
          b.concat({counts, b.full(DType::i64, 1, {nans->dim(0)})}, 0)};
}

Values unique(Builder& b, Value self, Ignored, bool return_inverse, bool return_counts) {
  const Shape& shape = self->known_shape();
  const auto [values, inverse, counts] = unique_elements(b, b.reshape(self, {numel(shape)}));
  return {values, return_inverse ? b.reshape(inverse, shape) : nothing(b),
          return_counts ? counts : nothing(b)};
}

Values unique_and_inverse(Builder& b, Value self, Ignored sorted, bool return_inverse) {
  const Values parts = unique(b, self, sorted, return_inverse, false);
  return {parts[0], parts[1]};
}

// Along a dimension, ATen always returns the inverse and the counts.
Values unique_dim(Builder& b, Value self, int64_t dim, Ignored, Ignored, Ignored) {
  int64_t axis = normalize_axis(dim, self->rank());
  Values parts = b.ops("Unique", 4, {self}, {{"axis", axis}, {"sorted", int64_t{1}}});
  return {parts[0], parts[2], parts[3]};
}

Value ones_added_at(Builder& b, Value index, const Dim& size) {
  return b.op("ScatterElements",
              {b.full(DType::i64, 0, {size}), index, b.full(DType::i64, 1, index->known_shape())},
              {{"axis", int64_t{0}}, {"reduction", std::string("add")}});
}

// Finds runs of equal elements, or of equal slices along a dimension.
Values unique_consecutive(Builder& b, Value self, bool return_inverse, bool return_counts,
                          std::optional<int64_t> dim) {
  const Shape shape = self->known_shape();
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
  return {runs, dim || return_inverse ? inverse : nothing(b),
          dim || return_counts ? ones_added_at(b, run_of, runs->dim(axis)) : nothing(b)};
}

// --- Histograms.

// Adds each weight to its bin below `bins`; bin `bins` collects values outside and is dropped.
Value count_bins(Builder& b, Value bin, Value weights, const Dim& bins) {
  Value sums = b.op("ScatterElements", {b.full(weights->dtype, 0, {bins + 1}), bin, weights},
                    {{"axis", int64_t{0}}, {"reduction", std::string("add")}});
  Value result = b.slice(sums, 0, 0, bins);
  b.refine(result, {bins});
  return result;
}

struct Range {
  Value low, high;
};

// Returns the range of the data; widens it on both sides if it is a single point.
Range data_range(Builder& b, Value flat, double widening) {
  const Value low = b.reduce("ReduceMin", flat, {}, /*keepdims=*/false);
  const Value high = b.reduce("ReduceMax", flat, {}, /*keepdims=*/false);
  const Value point = b.Equal(low, high);
  return {b.where(point, b.Sub(low, b.like(flat, widening)), low),
          b.where(point, b.Add(high, b.like(flat, widening)), high)};
}

Value histc(Builder& b, Value self, const Dim& bins, const Number& min, const Number& max) {
  Value flat = b.reshape(self, {numel(self->known_shape())});
  Range range{b.like(flat, min), b.like(flat, max)};
  if (!min.is_constant() || !max.is_constant()) {
    b.check(!flat->dim(0).equals(0),
            "the bounds of a histogram of an empty tensor must be constant");
    const Range own = data_range(b, flat, 1);
    const Value unset = b.Equal(range.low, range.high);
    range = {b.where(unset, own.low, range.low), b.where(unset, own.high, range.high)};
  } else if (min.to_double() == max.to_double()) {  // in ATen, equal bounds select the data's range
    range = flat->dim(0).equals(0) ? Range{b.like(flat, min - 1), b.like(flat, max + 1)}
                                   : data_range(b, flat, 1);
  }
  Value inside = b.And(b.GreaterOrEqual(flat, range.low), b.LessOrEqual(flat, range.high));
  Value place = b.Div(b.Mul(b.Sub(flat, range.low), b.cast(b.dim_value(bins), flat->dtype)),
                      b.Sub(range.high, range.low));
  place = b.where(inside, place, b.like(flat, 0));
  Value bin = b.Min(b.cast(place, DType::i64), b.dim_value(bins - 1));
  const Value ones = b.full(accumulation_dtype(flat->dtype), 1, flat->known_shape());
  return b.cast(count_bins(b, b.where(inside, bin, b.dim_value(bins)), ones, bins), flat->dtype);
}

// The bin [edge, next edge) of each value, the last bin closed, and true if the value is in a bin.
struct Place {
  Value bin, inside;
};

Place place(Builder& b, Value values, Value edges) {
  Dim bins = edges->known_shape().at(0) - 1;
  Value inside = b.And(b.GreaterOrEqual(values, b.select(edges, 0, 0)),
                       b.LessOrEqual(values, b.select(edges, 0, bins)));
  Value bin =
      b.Sub(boundaries_before(b, edges, values, /*right=*/true, /*out_int32=*/false), b.i64(1));
  return {b.Min(bin, b.dim_value(bins - 1)), inside};
}

// Matches torch.linspace: from each end to the middle.
Value bin_edges(Builder& b, const Range& range, int64_t bins) {
  b.constant_size(static_cast<double>(bins));
  std::vector<double> from_low, from_high;
  std::vector<int64_t> first_half;
  for (int64_t i = 0; i <= bins; ++i) {
    first_half.push_back(i < (bins + 1) / 2);
    from_low.push_back(static_cast<double>(i));
    from_high.push_back(static_cast<double>(bins - i));
  }
  auto numbers = [&](const std::vector<double>& values) {
    return b.tensor(make_tensor(range.low->dtype, {bins + 1}, std::span<const double>(values)));
  };
  Value step = b.Div(b.Sub(range.high, range.low), b.like(range.low, bins));
  return b.where(b.cast(b.i64s(first_half), DType::boolean),
                 b.Add(range.low, b.Mul(step, numbers(from_low))),
                 b.Sub(range.high, b.Mul(step, numbers(from_high))));
}

// Counts [N, D] points in the grid of D edge tensors; returns the counts, then the edges.
Values histogram_of_points(Builder& b, Value points, const Values& edges,
                           std::optional<Value> weight, bool density) {
  Dim total = 1;
  Shape shape;
  Value bin = b.i64(0);
  Value inside = b.boolean(true);
  for (size_t d = 0; d < edges.size(); ++d) {
    Dim bins = edges[d]->known_shape().at(0) - 1;
    Place along = place(b, b.select(points, 1, static_cast<int64_t>(d)), edges[d]);
    bin = b.Add(b.Mul(bin, b.dim_value(bins)), along.bin);
    inside = b.And(inside, along.inside);
    total = total * bins;
    shape.push_back(bins);
  }
  Shape count{points->dim(0)};
  Value ones = weight ? b.reshape(*weight, count) : b.full(points->dtype, 1, count);
  Value hist = count_bins(b, b.where(inside, bin, b.dim_value(total)), ones, total);
  hist = b.reshape(hist, shape);
  if (density) {
    hist = b.Div(hist, b.reduce("ReduceSum", hist, {}, /*keepdims=*/false));
    for (size_t d = 0; d < edges.size(); ++d) {
      Shape along(shape.size(), 1);
      along[d] = shape[d];
      Value widths =
          b.Sub(b.slice(edges[d], 0, 1, shape[d] + 1), b.slice(edges[d], 0, 0, shape[d]));
      hist = b.Div(hist, b.reshape(widths, along));
    }
  }
  Values results{hist};
  results.insert(results.end(), edges.begin(), edges.end());
  return results;
}

// Returns a tensor's elements as points with one coordinate.
Value as_points(Builder& b, Value self) { return b.reshape(self, {numel(self->known_shape()), 1}); }

// Returns a tensor's rows as points.
Value rows(Builder& b, Value self) {
  return self->known_shape().size() > 2 ? b.flatten(self, 0, -2) : self;
}

// Returns the range of the bins of coordinate d: the given one, or else the data's.
Range bin_range(Builder& b, Value values, const std::optional<std::vector<double>>& range,
                size_t d) {
  if (!range && !values->dim(0).equals(0)) return data_range(b, values, 0.5);
  const double low = range ? range->at(2 * d) : 0;
  const double high = range ? range->at(2 * d + 1) : 1;
  const double widening = low == high ? 0.5 : 0;
  return {b.like(values, low - widening), b.like(values, high + widening)};
}

Values histogram_of_bins(Builder& b, Value points, const Ints& bins,
                         const std::optional<std::vector<double>>& range,
                         std::optional<Value> weight, bool density) {
  Values edges;
  for (size_t d = 0; d < bins.size(); ++d) {
    Value values = b.select(points, 1, static_cast<int64_t>(d));
    edges.push_back(bin_edges(b, bin_range(b, values, range, d), bins[d]));
  }
  return histogram_of_points(b, points, edges, weight, density);
}

Value bincount(Builder& b, Value self, std::optional<Value> weights, const Dim& minlength) {
  self = b.cast(self, DType::i64);
  // Includes minlength - 1, so that the maximum also exists for no elements.
  Value all = b.concat({self, b.shape_value({minlength - 1})}, 0);
  Value largest = b.reduce("ReduceMax", all, {}, /*keepdims=*/false);
  Dim bins = b.dim_of(b.Add(largest, b.i64(1)), DimRange::size());
  Value ones = nullptr;
  if (weights)
    ones = (*weights)->dtype == DType::f32 ? *weights : b.cast(*weights, DType::f64);
  else
    ones = b.full(DType::i64, 1, self->known_shape());
  return count_bins(b, self, ones, bins);
}

}  // namespace

void register_search(OpTable& ops) {
  ops.def({"aten::searchsorted.Tensor", "aten::searchsorted.Scalar"}, searchsorted);
  ops.def({"aten::bucketize.Tensor", "aten::bucketize.Scalar"}, Promote::standard, bucketize);
  ops.def({"aten::isin.Tensor_Tensor", "aten::isin.Tensor_Scalar", "aten::isin.Scalar_Tensor"},
          Promote::standard, isin);
  ops.def("aten::_unique", unique_and_inverse);
  ops.def("aten::_unique2", unique);
  ops.def("aten::unique_dim", unique_dim);
  ops.def("aten::unique_consecutive", unique_consecutive);
  ops.def("aten::histc", histc);
  ops.def("aten::histogram.bins_tensor",
          [](Builder& b, Value self, Value bins, std::optional<Value> weight, bool density) {
            return histogram_of_points(b, as_points(b, self), {bins}, weight, density);
          });
  ops.def("aten::histogram.bin_ct",
          [](Builder& b, Value self, int64_t bins, std::optional<std::vector<double>> range,
             std::optional<Value> weight, bool density) {
            return histogram_of_bins(b, as_points(b, self), {bins}, range, weight, density);
          });
  ops.def("aten::histogramdd",
          [](Builder& b, Value self, Ints bins, std::optional<std::vector<double>> range,
             std::optional<Value> weight, bool density) {
            return histogram_of_bins(b, rows(b, self), bins, range, weight, density);
          });
  ops.def("aten::histogramdd.TensorList_bins", [](Builder& b, Value self, Values bins, Ignored,
                                                  std::optional<Value> weight, bool density) {
    return histogram_of_points(b, rows(b, self), bins, weight, density);
  });
  ops.def("aten::bincount", bincount);
}

}  // namespace onnx_native::ops
