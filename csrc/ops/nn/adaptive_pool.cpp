#include <algorithm>
#include <array>
#include <iterator>

#include "onnx/builder.h"
#include "ops/families.h"
#include "ops/formulas/axes.h"
#include "ops/formulas/numeric.h"

namespace onnx_native::ops {
namespace {

// The windows along one axis, padded to a common length.
struct Windows {
  Value index;   // (windows, longest), clamped to the axis
  Value inside;  // (windows, longest) bool; false for padding
  Value length;  // (windows)
};

Value as_column(Builder& b, Value v) { return b.unsqueeze(v, {1}); }

// Returns the windows; window i of n covers [floor(i * size / n), ceil((i + 1) * size / n)).
Windows adaptive_windows(Builder& b, const Dim& size, const Dim& count) {
  const Dim divisor = count.known_positive() ? count : Dim::max(count, 1);
  const Value n = b.dim_value(divisor);
  const Value in = b.dim_value(size);
  const Value i = b.range(count);
  const Value start = b.Div(b.Mul(i, in), n);
  const Value next = b.Mul(b.Add(i, b.i64(1)), in);
  const Value end = b.Div(b.Sub(b.Add(next, n), b.i64(1)), n);
  Dim longest = Dim::ceil_div(size, divisor) + 1;
  constexpr int64_t kMostTried = 1 << 20;
  if (size.constant_or(kMostTried) < kMostTried && count.constant_or(kMostTried) < kMostTried) {
    const int64_t s = *size.constant(), c = *count.constant();
    int64_t most = 0;
    for (int64_t k = 0; k < c; ++k) most = std::max(most, ((k + 1) * s + c - 1) / c - k * s / c);
    longest = most;
  }
  const Value index = b.Add(as_column(b, start), b.unsqueeze(b.range(longest), {0}));
  return {b.Min(index, b.dim_value(size - 1)), b.Less(index, as_column(b, end)), b.Sub(end, start)};
}

// Replaces `axis` (negative) by two axes (windows, longest); elements outside a window are
// `filler`.
Value take(Builder& b, Value x, const Windows& windows, int64_t axis, const Number& filler) {
  const Value taken = b.gather(x, windows.index, x->rank() + axis);
  Ints trailing;
  for (int64_t k = axis + 1; k < 0; ++k) trailing.push_back(k);
  return b.where(b.unsqueeze(windows.inside, trailing), taken, b.like(taken, filler));
}

bool divides(const Dim& count, const Dim& size) {
  return size.is_constant() && count.is_constant() && *count.constant() > 0 &&
         *size.constant() % *count.constant() == 0 && *size.constant() > 0;
}

// Returns the kernel if all windows have the same size, else nullopt.
std::optional<Ints> even_kernel(Value x, const Shape& output_size) {
  Ints kernel;
  const auto axes = static_cast<int64_t>(output_size.size());
  for (int64_t i = 0; i < axes; ++i) {
    const Dim& size = x->dim(i - axes);
    if (size == output_size[i]) {
      kernel.push_back(1);
    } else if (divides(output_size[i], size)) {
      kernel.push_back(*size.constant() / *output_size[i].constant());
    } else {
      return std::nullopt;
    }
  }
  return kernel;
}

Shape sizes_of_axes(Shape sizes, size_t count) {
  if (sizes.size() < count) sizes.resize(count, sizes.at(0));
  return sizes;
}

// Returns the shape of the result if it is empty, else nullopt.
std::optional<Shape> empty_result(Value x, const Shape& output_size) {
  Shape shape = part_of(x, 0, -static_cast<int64_t>(output_size.size()));
  std::ranges::copy(output_size, std::back_inserter(shape));
  return is_empty(shape) ? std::optional(shape) : std::nullopt;
}

Value adaptive_avg_pool(Builder& b, Value x, const Shape& output_size) {
  if (const auto empty = empty_result(x, output_size)) return b.full(x->dtype, 0, *empty);
  const auto axes = static_cast<int64_t>(output_size.size());
  const bool batched = x->rank() == axes + 2;
  const bool global =
      std::ranges::all_of(output_size, [](const Dim& size) { return size.equals(1); });
  // ONNX Runtime's pools reject empty axes.
  const bool could_be_empty = may_be_empty(x->known_shape());
  if (global && batched && !could_be_empty) return b.op("GlobalAveragePool", {x});
  Ints reduced;
  for (int64_t i = -axes; i < 0; ++i) reduced.push_back(i);
  if (global) return mean_over(b, x, axes_of(x, reduced), /*keepdim=*/true);
  const auto kernel = could_be_empty ? std::nullopt : even_kernel(x, output_size);
  if (kernel && x->dtype != DType::f64) {
    const Value y = b.op("AveragePool", {batched ? x : b.unsqueeze(x, {0})},
                         {{"kernel_shape", *kernel}, {"strides", *kernel}});
    return batched ? y : b.squeeze(y, {0});
  }
  const DType dtype = x->dtype;
  x = b.cast(x, accumulation_dtype(dtype));
  for (int64_t i = 0; i < axes; ++i) {
    const int64_t axis = i - axes;
    if (x->dim(axis) == output_size[i]) continue;
    const Windows windows = adaptive_windows(b, x->dim(axis), output_size[i]);
    const Value sum = b.reduce("ReduceSum", take(b, x, windows, axis, 0.0), {axis}, false);
    Ints trailing;
    for (int64_t k = axis + 1; k < 0; ++k) trailing.push_back(k);
    x = b.Div(sum, b.unsqueeze(b.cast(windows.length, x->dtype), trailing));
  }
  return b.cast(x, dtype);
}

// Returns the index of the first maximum along an axis, or of the last NaN, which counts as
// maximum.
Value place_of_maximum(Builder& b, Value x, int64_t axis) {
  const Value best = b.op("ArgMax", {x}, {{"axis", axis}, {"keepdims", 1}});
  if (!is_floating(x->dtype)) return best;
  const Value nan = b.cast(b.IsNaN(x), DType::i32);
  const Value last =
      b.op("ArgMax", {nan}, {{"axis", axis}, {"keepdims", 1}, {"select_last_index", 1}});
  const Value any = b.cast(b.reduce("ReduceMax", nan, {axis}, true), DType::boolean);
  return b.where(any, last, best);
}

// Returns the maxima and their positions in the flattened spatial dimensions. Ties go to the first.
std::array<Value, 2> adaptive_max_pool(Builder& b, Value x, const Shape& output_size) {
  if (const auto empty = empty_result(x, output_size))
    return {b.full(x->dtype, 0, *empty), b.full(DType::i64, 0, *empty)};
  const auto axes = static_cast<int64_t>(output_size.size());
  const Shape sizes = part_of(x, -axes);
  Value position = nullptr;  // in the flattened axes pooled so far
  Dim pooled = 1;            // number of input elements in those axes
  for (int64_t axis = -1; axis >= -axes; --axis) {
    const Dim& count = output_size[axes + axis];
    const Windows windows = adaptive_windows(b, x->dim(axis), count);
    const double lowest = is_floating(x->dtype) ? -kInfinity : lowest_value(x->dtype);
    const Value taken = take(b, x, windows, axis, lowest);
    // `taken` is (..., windows, longest, pooled axes).
    const Value best = place_of_maximum(b, taken, taken->rank() + axis);
    x = b.squeeze(b.op("GatherElements", {taken, best}, {{"axis", taken->rank() + axis}}), {axis});
    Ints trailing;
    for (int64_t k = axis + 1; k < 0; ++k) trailing.push_back(k);
    const Value start = b.unsqueeze(b.slice(windows.index, 1, 0, 1), trailing);
    const Value here = b.squeeze(b.Add(best, start), {axis});
    const Value step = b.Mul(here, b.dim_value(pooled));
    if (position) {
      const Value rows = b.op("GatherElements", {position, here}, {{"axis", here->rank() + axis}});
      position = b.Add(step, rows);
    } else {
      position = step;
    }
    pooled = pooled * sizes[axes + axis];
  }
  return {x, position};
}

template <size_t N>
Value adaptive_avg(Builder& b, Value self, Shape output_size) {
  return adaptive_avg_pool(b, self, sizes_of_axes(output_size, N));
}

template <size_t N>
std::array<Value, 2> adaptive_max(Builder& b, Value self, Shape output_size) {
  return adaptive_max_pool(b, self, sizes_of_axes(output_size, N));
}

}  // namespace

void register_adaptive_pool(OpTable& ops) {
  ops.def("aten::adaptive_avg_pool1d", adaptive_avg<1>);
  ops.def({"aten::adaptive_avg_pool2d", "aten::_adaptive_avg_pool2d"}, adaptive_avg<2>);
  ops.def({"aten::adaptive_avg_pool3d", "aten::_adaptive_avg_pool3d"}, adaptive_avg<3>);
  ops.def("aten::adaptive_max_pool1d", adaptive_max<1>);
  ops.def("aten::adaptive_max_pool2d", adaptive_max<2>);
  ops.def("aten::adaptive_max_pool3d", adaptive_max<3>);
}

}  // namespace onnx_native::ops
