#include <algorithm>
#include <functional>
#include <string>

#include "onnx/builder.h"
#include "ops/axes.h"
#include "ops/families.h"

namespace onnx_native::ops {
namespace {

struct Window {
  Ints kernel, stride, padding, dilation;
  bool ceil_mode;
};

// A single number stands for every axis; no stride means the kernel's size.
Window window(Builder& b, int64_t axes, Ints kernel, Ints stride, Ints padding, Ints dilation,
              bool ceil_mode) {
  const auto spread = [axes](Ints& values) {
    if (static_cast<int64_t>(values.size()) < axes) values.resize(axes, values.at(0));
  };
  if (stride.empty()) stride = kernel;
  for (Ints* values : {&kernel, &stride, &padding, &dilation}) spread(*values);
  for (const Ints* values : {&kernel, &stride, &dilation})
    b.check(std::ranges::min(*values) > 0, "a window, stride or dilation that is not positive");
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

// PyTorch leaves out a last window that starts in the padding after the input; of ceil_mode, ONNX
// Runtime knows that and ONNX's shape inference does not. So where sizes are known, ceil_mode goes
// where windows end: the window is given without it, and the padding that it needs after the input.
Window without_ceil(Value x, Window w, Ints& ends) {
  ends = w.padding;
  if (!w.ceil_mode) return w;
  const auto axes = static_cast<int64_t>(w.kernel.size());
  for (int64_t i = 0; i < axes; ++i) {
    const auto size = x->dim(i - axes).constant();
    if (!size) return w;
    const int64_t span = w.dilation[i] * (w.kernel[i] - 1) + 1;
    const int64_t room = *size + 2 * w.padding[i] - span;
    const int64_t last =
        std::min((room + w.stride[i] - 1) / w.stride[i], (*size + w.padding[i] - 1) / w.stride[i]);
    ends[i] = std::max(w.padding[i], last * w.stride[i] + span - *size - w.padding[i]);
    // ONNX Runtime takes no padding as large as the kernel.
    if (ends[i] >= w.kernel[i]) return w;
  }
  w.ceil_mode = false;
  return w;
}

// Runs `pool` on an input with a batch dimension; adds and removes one where there is none.
Values batched(Builder& b, Value x, int64_t axes, const std::function<Values(Value)>& pool) {
  if (x->rank() == axes + 2) return pool(x);
  Values results = pool(b.unsqueeze(x, {0}));
  for (Value& result : results) result = b.squeeze(result, {0});
  return results;
}

// Values, and positions in the flattened spatial dimensions where asked for (ONNX counts them in
// the whole tensor). Integers go through float64.
Values max_pool(Builder& b, Value self, int64_t axes, const Window& w, bool with_indices) {
  const DType dtype = self->dtype;
  const bool direct = is_floating(dtype) || dtype == DType::i8 || dtype == DType::u8;
  return batched(b, direct ? self : b.cast(self, DType::f64), axes, [&](Value x) {
    Ints ends;
    const Window settled = without_ceil(x, w, ends);
    auto list = attributes(settled, w.ceil_mode == settled.ceil_mode ? w.padding : ends);
    list.push_back({"dilations", w.dilation});
    Values results = b.ops("MaxPool", with_indices ? 2 : 1, {x}, std::move(list));
    results[0] = b.cast(results[0], dtype);
    if (with_indices) {
      const Dim plane = numel(part_of(x, 2));
      results[1] = b.op("Mod", {results[1], b.dim_value(plane)});
    }
    return results;
  });
}

// The windows of an average along one axis: output position i covers [start, end), of which
// [max(start, 0), min(end, size)) is input and the rest padding.
struct AxisWindows {
  Value start, end;  // 1-d int64
  Dim count;
};

AxisWindows axis_windows(Builder& b, const Dim& size, int64_t kernel, int64_t stride,
                         int64_t padding, bool ceil_mode) {
  const Dim span = size + Dim(2 * padding - kernel);
  Dim count = Dim::floor_div(span, stride) + 1;
  if (ceil_mode) {
    // A window that would start in the padding after the input is left out.
    count = Dim::min(Dim::ceil_div(span, stride) + 1,
                     Dim::floor_div(size + Dim(padding - 1), stride) + 1);
  }
  const Value start = b.Sub(b.Mul(b.range(count), b.i64(stride)), b.i64(padding));
  const Value end = b.Min(b.Add(start, b.i64(kernel)), b.dim_value(size + Dim(padding)));
  return {start, end, count};
}

// Sums over windows, one axis after the other, then the division that eager does: exact where
// AveragePool is not (integers, float64) or cannot be (divisor_override at a ragged end).
Value windowed_average(Builder& b, Value x, int64_t axes, const Window& w, bool count_include_pad,
                       std::optional<int64_t> divisor) {
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
  return b.Div(x, divisor ? b.like(x, *divisor) : b.cast(counts, x->dtype));
}

Value avg_pool(Builder& b, Value self, int64_t axes, const Window& w, bool count_include_pad,
               std::optional<int64_t> divisor) {
  return batched(b, self, axes, [&](Value x) -> Values {
    if (!is_floating(x->dtype) || x->dtype == DType::f64 || (divisor && w.ceil_mode))
      return {windowed_average(b, x, axes, w, count_include_pad, divisor)};
    Ints ends;
    Window settled = without_ceil(x, w, ends);
    // Padding that only ceil_mode asks for does not count in the average.
    if (ends != w.padding) settled = w;
    auto list = attributes(settled, w.padding);
    if (count_include_pad || divisor) list.push_back({"count_include_pad", 1});
    const Value y = b.op("AveragePool", {x}, std::move(list));
    if (!divisor) return {y};
    double area = 1;
    for (int64_t k : w.kernel) area *= static_cast<double>(k);
    return {b.Mul(y, b.like(y, area / static_cast<double>(*divisor)))};
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
