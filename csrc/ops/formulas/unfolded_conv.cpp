// Convolutions as matrix products over unfolded input, for dtypes without a kernel.
#include <algorithm>
#include <limits>

#include "ops/formulas/compositions.h"
#include "ops/formulas/matrix_product.h"

namespace onnx_native::ops {
namespace {

// The attributes of a convolution along its axes, with defaults filled in.
struct Taps {
  Shape kernel;
  std::vector<int64_t> strides, dilations, begins, ends, output_padding;
  int64_t groups;

  int64_t axes() const { return static_cast<int64_t>(kernel.size()); }
};

std::optional<Taps> taps_of(const onnx::Node& node) {
  const Value x = node.inputs[0], w = node.inputs[1];
  if (x->rank_or(-1) < 3 || w->rank_or(-1) != x->rank()) return std::nullopt;
  if (node.attribute_string("auto_pad", "NOTSET") != "NOTSET" || node.attribute("output_shape"))
    return std::nullopt;
  Taps taps;
  taps.kernel = Shape(w->shape->begin() + 2, w->shape->end());
  const auto count = taps.kernel.size();
  const auto ints = [&](std::string_view name, size_t size, int64_t otherwise) {
    return node.attribute_ints(name).value_or(std::vector<int64_t>(size, otherwise));
  };
  taps.strides = ints("strides", count, 1);
  taps.dilations = ints("dilations", count, 1);
  taps.output_padding = ints("output_padding", count, 0);
  const auto pads = ints("pads", 2 * count, 0);
  taps.begins.assign(pads.begin(), pads.begin() + static_cast<int64_t>(count));
  taps.ends.assign(pads.begin() + static_cast<int64_t>(count), pads.end());
  taps.groups = node.attribute_int("group", 1);
  return taps;
}

// Replaces an axis by two: (windows, taps). `backward` reads the kernel from its end.
Value unfolded_axis(Builder& b, Value x, int64_t axis, const Dim& kernel, int64_t stride,
                    int64_t dilation, bool backward) {
  const Dim span = Dim(dilation) * (kernel - 1) + 1;
  const Dim windows = Dim::floor_div(x->dim(axis) - span, stride) + 1;
  Value starts = b.range(windows);
  if (stride != 1) starts = b.Mul(starts, b.i64(stride));
  Value taps = b.range(kernel);
  if (dilation != 1) taps = b.Mul(taps, b.i64(dilation));
  if (backward) taps = b.Sub(b.dim_value(span - 1), taps);
  return b.gather(x, b.Add(b.unsqueeze(starts, {1}), b.unsqueeze(taps, {0})), axis);
}

// Convolves `x`, already padded, with a kernel (groups, outputs, inputs * taps).
Value convolved(Builder& b, Value x, Value matrix, const Taps& taps, bool backward) {
  const int64_t axes = taps.axes();
  const Dim batch = x->dim(0), channels = x->dim(1);
  for (int64_t i = axes; i-- > 0;) {
    const int64_t stride = backward ? 1 : taps.strides[i];
    x = unfolded_axis(b, x, i + 2, taps.kernel[i], stride, taps.dilations[i], backward);
  }
  // (batch, channels, window, tap, window, tap ...) becomes (batch, channels, taps, windows).
  Ints order{0, 1};
  Shape windows;
  for (int64_t i = 0; i < axes; ++i) order.push_back(2 * i + 3);
  for (int64_t i = 0; i < axes; ++i) {
    order.push_back(2 * i + 2);
    windows.push_back(x->dim(2 * i + 2));
  }
  const Dim inputs = Dim::floor_div(channels, taps.groups) * numel(taps.kernel);
  const Value columns =
      b.reshape(b.transpose(x, order), {batch, taps.groups, inputs, numel(windows)});
  Shape shape{batch, matrix->dim(0) * matrix->dim(1)};
  shape.insert(shape.end(), windows.begin(), windows.end());
  return b.reshape(matrix_product(b, matrix, columns), shape);
}

Value biased(Builder& b, Value y, Value bias) {
  if (!bias) return y;
  Ints axes;
  for (int64_t i = 1; i < y->rank() - 1; ++i) axes.push_back(i);
  return b.Add(y, b.unsqueeze(bias, axes));
}

// Pads an axis; a negative pad crops it.
Value padded(Builder& b, Value x, int64_t axis, int64_t begin, int64_t end) {
  std::vector<Dim> pads(2 * x->rank(), 0);
  pads[axis] = std::max<int64_t>(begin, 0);
  pads[axis + x->rank()] = std::max<int64_t>(end, 0);
  x = b.pad(x, pads);
  return b.slice(x, axis, std::max<int64_t>(-begin, 0),
                 end < 0 ? Dim(end) : Dim(std::numeric_limits<int64_t>::max()));
}

}  // namespace

Values unfolded_conv(Builder& b, const onnx::Node& node) {
  const auto taps = taps_of(node);
  if (!taps) return {};
  Value x = node.inputs[0];
  const Value w = node.inputs[1];
  std::vector<Dim> pads(2 * x->rank(), 0);
  for (int64_t i = 0; i < taps->axes(); ++i) {
    pads[i + 2] = taps->begins[i];
    pads[i + 2 + x->rank()] = taps->ends[i];
  }
  const Dim outputs = Dim::floor_div(w->dim(0), taps->groups);
  const Value matrix = b.reshape(w, {taps->groups, outputs, w->dim(1) * numel(taps->kernel)});
  return {biased(b, convolved(b, b.pad(x, pads), matrix, *taps, false), node.input(2))};
}

// Inserts zeros between the input's elements and convolves with the reversed kernel.
Values unfolded_conv_transpose(Builder& b, const onnx::Node& node) {
  const auto taps = taps_of(node);
  if (!taps) return {};
  Value x = node.inputs[0];
  Value w = node.inputs[1];
  for (int64_t i = 0; i < taps->axes(); ++i) {
    const int64_t axis = i + 2, zeros = taps->strides[i] - 1;
    const auto kernel = taps->kernel[i].constant();
    if (!kernel) return {};
    if (zeros > 0) {
      Shape shape = x->known_shape();
      shape[axis] = shape[axis] * taps->strides[i];
      x = b.reshape(padded(b, b.unsqueeze(x, {axis + 1}), axis + 1, 0, zeros), shape);
    }
    const int64_t reach = taps->dilations[i] * (*kernel - 1);
    x = padded(b, x, axis, reach - taps->begins[i],
               reach - taps->ends[i] + taps->output_padding[i] - zeros);
  }
  // (groups * inputs, outputs, taps) -> (groups, outputs, inputs * taps)
  const Dim inputs = Dim::floor_div(w->dim(0), taps->groups);
  const Dim outputs = w->dim(1), count = numel(taps->kernel);
  w = b.transpose(b.reshape(w, {taps->groups, inputs, outputs, count}), {0, 2, 1, 3});
  const Value matrix = b.reshape(w, {taps->groups, outputs, inputs * count});
  return {biased(b, convolved(b, x, matrix, *taps, true), node.input(2))};
}

}  // namespace onnx_native::ops
