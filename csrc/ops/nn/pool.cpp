#include <algorithm>
#include <functional>
#include <string>

#include "base/nan.h"
#include "onnx/builder.h"
#include "ops/families.h"
#include "ops/formulas/axes.h"
#include "ops/formulas/numeric.h"

namespace onnx_native::ops {
namespace {

struct Window {
  Ints kernel, stride, padding, dilation;
  bool ceil_mode;
};

// Repeats a single number for every axis; the stride defaults to the kernel size.
Window window(Builder& b, int64_t axes, Ints kernel, Ints stride, Ints padding, Ints dilation,
              bool ceil_mode) {
  const auto spread = [axes](Ints& values) {
    if (static_cast<int64_t>(values.size()) < axes) values.resize(axes, values.at(0));
  };
  if (stride.empty()) stride = kernel;
  for (Ints* values : {&kernel, &stride, &padding, &dilation}) spread(*values);
  for (const Ints* values : {&kernel, &stride, &dilation})
    b.check(std::ranges::min(*values) > 0, "kernel_size, stride and dilation must be positive");
  return {kernel, stride, padding, dilation, ceil_mode};
}

std::vector<onnx::Attribute> attributes(const Window& w, const Ints& ends) {
  Ints pads = w.padding;
  pads.insert(pads.end(), ends.begin(), ends.end());
  std::vector<onnx::Attribute> list{
      {"kernel_shape", w.kernel}, {"strides", w.stride}, {"pads", std::move(pads)}};
  if (w.ceil_mode) list.push_back({"ceil_mode", 1});
  return list;
}

// PyTorch leaves out a last window that starts in the padding after the input. With ceil_mode, ONNX
// Runtime does the same but ONNX's shape inference does not, so the lowering sets the end padding.
struct Settled {
  Window window;
  Ints ends;              // padding after the input
  Ints crops;             // elements at the end of the input that no window reads
  bool left_out = false;  // true if PyTorch leaves out a window along an axis of known size
};

// The windows along an axis of known size.
struct Fit {
  int64_t last;   // index of the last window
  int64_t reach;  // elements past the end of the input that it covers; negative if it ends before
  bool left_out;  // true if ceil_mode alone would add one more window
};

Fit fit(const Window& w, int64_t i, int64_t size) {
  const int64_t span = w.dilation[i] * (w.kernel[i] - 1) + 1;
  const int64_t room = size + 2 * w.padding[i] - span;
  const int64_t ceiling = (room + w.stride[i] - 1) / w.stride[i];
  const int64_t last = std::min(ceiling, (size + w.padding[i] - 1) / w.stride[i]);
  return {last, last * w.stride[i] + span - size - w.padding[i], last < ceiling};
}

// If all sizes are known, replaces ceil_mode by end padding. ONNX has one ceil_mode for all axes:
// if a size is dynamic it stays, and the known axes get padding with which it changes nothing.
Settled settle(Value x, const Window& w) {
  Settled settled{w, w.padding, Ints(w.kernel.size(), 0)};
  if (!w.ceil_mode) return settled;
  const auto axes = static_cast<int64_t>(w.kernel.size());
  bool dynamic = false, too_far = false;
  for (int64_t i = 0; i < axes; ++i) {
    const auto size = x->dim(i - axes).constant();
    if (!size || *size == 0) {
      dynamic = true;
      continue;
    }
    const Fit known = fit(w, i, *size);
    settled.ends[i] = std::max(w.padding[i], known.reach);
    settled.left_out = settled.left_out || known.left_out;
    // ONNX Runtime rejects padding as large as the kernel.
    too_far = too_far || settled.ends[i] >= w.kernel[i];
  }
  if (!dynamic && !too_far) {
    settled.window.ceil_mode = false;
    return settled;
  }
  settled.ends = w.padding;
  for (int64_t i = 0; i < axes; ++i) {
    const auto size = x->dim(i - axes).constant();
    if (!size || *size == 0) continue;
    const Fit known = fit(w, i, *size);
    if (!known.left_out) continue;
    settled.ends[i] = std::max<int64_t>(known.reach, 0);
    settled.crops[i] = std::max<int64_t>(-known.reach, 0);
  }
  return settled;
}

// Runs `pool` on an input with a batch dimension; adds and removes one if the input has none.
Values batched(Builder& b, Value x, int64_t axes, const std::function<Values(Value)>& pool) {
  if (x->rank() == axes + 2) return pool(x);
  Values results = pool(b.unsqueeze(x, {0}));
  for (Value& result : results) result = b.squeeze(result, {0});
  return results;
}

// Removes the elements at the ends of the spatial axes that no window reads.
Value cropped(Builder& b, Value x, const Ints& crops) {
  const auto axes = static_cast<int64_t>(crops.size());
  for (int64_t i = 0; i < axes; ++i) {
    if (crops[i] > 0) x = b.slice(x, i - axes, 0, x->dim(i - axes) - crops[i]);
  }
  return x;
}

// Converts ONNX's positions of maxima, which count in the whole tensor `x`, to eager's, which count
// in the spatial dimensions. `x` is a crop of those.
Value positions_in(Builder& b, Value index, Value x, const Shape& spatial) {
  const Shape inner = part_of(x, 2);
  if (inner == spatial) return b.op("Mod", {index, b.dim_value(numel(inner))});
  Value position = nullptr;
  Dim inner_step = 1, step = 1;
  for (size_t i = spatial.size(); i-- > 0;) {
    Value along = index;
    if (!inner_step.equals(1)) along = b.Div(along, b.dim_value(inner_step));
    along = b.op("Mod", {along, b.dim_value(inner[i])});
    const Value part = b.Mul(along, b.dim_value(step));
    position = position ? b.Add(position, part) : part;
    inner_step = inner_step * inner[i];
    step = step * spatial[i];
  }
  return position;
}

// Mends the maxima of windows with NaN, which ONNX Runtime ignores, and of those with -inf only,
// for which it returns the lowest finite number. A window with NaN has the position of its last
// one. `pool` returns the greatest element of each window. The marks are 0 for -inf, 0.5 for
// numbers, and 1 or more for NaN.
void mend_maxima(Builder& b, Value x, Values& results, const std::function<Value(Value)>& pool) {
  const DType dtype = results.size() > 1 ? DType::f64 : DType::f32;
  const Value one = b.scalar(dtype, 1), zero = b.scalar(dtype, 0);
  Value place = one;
  if (results.size() > 1) {
    const Shape spatial = part_of(x, 2);
    place = b.cast(b.reshape(b.Add(b.range(numel(spatial)), b.i64(1)), spatial), dtype);
  }
  const Value finite = b.Greater(x, b.like(x, -kInfinity));
  const Value numbers = b.where(finite, b.scalar(dtype, 0.5), zero);
  const Value mark = pool(b.where(b.IsNaN(x), place, numbers));
  const Value has_nan = b.GreaterOrEqual(mark, one);
  const Value nan = b.like(results[0], std::numeric_limits<double>::quiet_NaN());
  const Value maxima = b.where(b.Greater(mark, zero), results[0], b.like(results[0], -kInfinity));
  results[0] = b.where(has_nan, nan, maxima);
  if (results.size() > 1)
    results[1] = b.where(has_nan, b.Sub(b.cast(mark, DType::i64), b.i64(1)), results[1]);
}

// Returns the maxima, and with `with_indices` their positions in the flattened spatial dimensions.
// Integers of more than 8 bits are computed in float64.
Values max_pool(Builder& b, Value self, int64_t axes, const Window& w, bool with_indices) {
  const DType dtype = self->dtype;
  const bool direct = is_floating(dtype) || dtype == DType::i8 || dtype == DType::u8;
  return batched(b, direct ? self : b.cast(self, DType::f64), axes, [&](Value x) {
    const Settled settled = settle(x, w);
    const Value read = cropped(b, x, settled.crops);
    auto list = attributes(settled.window, settled.ends);
    list.push_back({"dilations", w.dilation});
    Values results = b.ops("MaxPool", with_indices ? 2 : 1, {read}, list);
    results[0] = b.cast(results[0], dtype);
    if (with_indices) results[1] = positions_in(b, results[1], read, part_of(x, 2));
    if (is_floating(dtype) && nan_mode() == NanMode::exact) {
      mend_maxima(b, x, results,
                  [&](Value y) { return b.op("MaxPool", {cropped(b, y, settled.crops)}, list); });
    } else if (is_floating(dtype)) {
      note_nan_difference("MaxPool");
    }
    return results;
  });
}

// The windows of an average along one axis: output position i covers [start, end), of which
// [max(start, 0), min(end, size)) is input and the rest is padding.
struct AxisWindows {
  Value start, end;  // 1-d int64
  Dim count;
};

AxisWindows axis_windows(Builder& b, const Dim& size, int64_t kernel, int64_t stride,
                         int64_t padding, bool ceil_mode) {
  const Dim span = size + Dim(2 * padding - kernel);
  Dim count = Dim::floor_div(span, stride) + 1;
  if (ceil_mode) {
    // Leaves out a window that would start in the padding after the input.
    count = Dim::min(Dim::ceil_div(span, stride) + 1,
                     Dim::floor_div(size + Dim(padding - 1), stride) + 1);
  }
  const Value start = b.Sub(b.Mul(b.range(count), b.i64(stride)), b.i64(padding));
  const Value end = b.Min(b.Add(start, b.i64(kernel)), b.dim_value(size + Dim(padding)));
  return {start, end, count};
}

// Sums over the windows one axis at a time, then divides like eager. Exact where AveragePool is not
// (integers, float64) or cannot be (divisor_override with a ragged end).
Value windowed_average(Builder& b, Value x, int64_t axes, const Window& w, bool count_include_pad,
                       std::optional<int64_t> divisor) {
  const DType dtype = x->dtype;
  x = b.cast(x, accumulation_dtype(dtype));
  Value counts = nullptr;
  for (int64_t i = 0; i < axes; ++i) {
    const int64_t axis = i - axes;
    const Dim size = x->dim(axis);
    const AxisWindows windows =
        axis_windows(b, size, w.kernel[i], w.stride[i], w.padding[i], w.ceil_mode);
    const Value last = b.dim_value(size - 1), zero = b.i64(0);
    const Value inside_end = b.Min(windows.end, b.dim_value(size));
    const Value index =
        b.Add(b.unsqueeze(windows.start, {1}), b.unsqueeze(b.range(w.kernel[i]), {0}));
    const Value inside =
        b.And(b.GreaterOrEqual(index, zero), b.Less(index, b.unsqueeze(inside_end, {1})));
    const Value taken = b.gather(x, b.Max(b.Min(index, last), zero), x->rank() + axis);
    Ints trailing;
    for (int64_t k = i + 1; k < axes; ++k) trailing.push_back(k - i + 1);
    const Value masked = b.where(b.unsqueeze(inside, trailing), taken, b.like(taken, 0));
    x = b.reduce("ReduceSum", masked, {axis}, false);
    Value count = count_include_pad ? b.Sub(windows.end, windows.start)
                                    : b.Sub(inside_end, b.Max(windows.start, zero));
    for (int64_t k = i + 1; k < axes; ++k) count = b.unsqueeze(count, {-1});
    counts = counts ? b.Mul(counts, count) : count;
  }
  return b.cast(b.Div(x, divisor ? b.like(x, *divisor) : b.cast(counts, x->dtype)), dtype);
}

Value avg_pool(Builder& b, Value self, int64_t axes, const Window& w, bool count_include_pad,
               std::optional<int64_t> divisor) {
  return batched(b, self, axes, [&](Value x) -> Values {
    if (!is_floating(x->dtype) || x->dtype == DType::f64 || (divisor && w.ceil_mode))
      return {windowed_average(b, x, axes, w, count_include_pad, divisor)};
    const Settled settled = settle(x, w);
    // Padding that only ceil_mode adds must not count in the average, so ceil_mode has to add it.
    const bool needs_ceil = settled.window.ceil_mode || settled.ends != w.padding;
    if (needs_ceil && settled.left_out)
      return {windowed_average(b, x, axes, w, count_include_pad, divisor)};
    auto list = attributes(needs_ceil ? w : settled.window, w.padding);
    if (count_include_pad || divisor) list.push_back({"count_include_pad", 1});
    if (!divisor) return {b.op("AveragePool", {x}, std::move(list))};
    const DType dtype = x->dtype;
    const Value y = b.op("AveragePool", {b.cast(x, accumulation_dtype(dtype))}, std::move(list));
    double area = 1;
    for (int64_t k : w.kernel) area *= static_cast<double>(k);
    return {b.cast(b.Mul(y, b.like(y, area / static_cast<double>(*divisor))), dtype)};
  })[0];
}

void define_max_pool(OpTable& ops, const std::string& name, int64_t axes) {
  ops.def(name, [axes](Builder& b, Value self, Ints kernel_size, Ints stride, Ints padding,
                       Ints dilation, bool ceil_mode) {
    const Window w = window(b, axes, kernel_size, stride, padding, dilation, ceil_mode);
    return max_pool(b, self, axes, w, false)[0];
  });
  ops.def(name + "_with_indices", [axes](Builder& b, Value self, Ints kernel_size, Ints stride,
                                         Ints padding, Ints dilation, bool ceil_mode) {
    const Window w = window(b, axes, kernel_size, stride, padding, dilation, ceil_mode);
    return max_pool(b, self, axes, w, true);
  });
}

void define_avg_pool(OpTable& ops, std::string_view name, int64_t axes) {
  ops.def(name,
          [axes](Builder& b, Value self, Ints kernel_size, Ints stride, Ints padding,
                 bool ceil_mode, bool count_include_pad, std::optional<int64_t> divisor_override) {
            const Window w = window(b, axes, kernel_size, stride, padding, {1}, ceil_mode);
            return avg_pool(b, self, axes, w, count_include_pad, divisor_override);
          });
}

}  // namespace

void register_pool(OpTable& ops) {
  for (int64_t axes = 1; axes <= 3; ++axes)
    define_max_pool(ops, "aten::max_pool" + std::to_string(axes) + "d", axes);
  ops.def("aten::avg_pool1d", [](Builder& b, Value self, Ints kernel_size, Ints stride,
                                 Ints padding, bool ceil_mode, bool count_include_pad) {
    const Window w = window(b, 1, kernel_size, stride, padding, {1}, ceil_mode);
    return avg_pool(b, self, 1, w, count_include_pad, std::nullopt);
  });
  define_avg_pool(ops, "aten::avg_pool2d", 2);
  define_avg_pool(ops, "aten::avg_pool3d", 3);
}

}  // namespace onnx_native::ops
