// Convolutions and pools: operators that slide a window over spatial axes.
#include <algorithm>

#include "onnx/infer_rules.h"

namespace onnx_native::onnx {
namespace {

// The attributes of a sliding window, one entry per spatial axis.
struct Window {
  Shape kernel;
  std::vector<int64_t> strides;
  std::vector<int64_t> dilations;
  std::vector<int64_t> pads;  // begins, then ends
  std::string auto_pad;

  size_t rank() const { return kernel.size(); }
  // Returns the number of elements that the dilated kernel spans.
  Dim span(size_t axis) const { return Dim(dilations[axis]) * (kernel[axis] - 1) + 1; }
  int64_t pad(size_t axis) const { return pads[axis] + pads[rank() + axis]; }
};

Window read_window(const Inference& i, Shape kernel) {
  Window window;
  window.kernel = std::move(kernel);
  const auto ints = [&](std::string_view name, size_t count, int64_t otherwise) {
    auto values = i.attribute_ints(name).value_or(std::vector<int64_t>(count, otherwise));
    if (values.size() != count) i.fail(name, " has ", values.size(), " entries, not ", count);
    return values;
  };
  window.strides = ints("strides", window.rank(), 1);
  window.dilations = ints("dilations", window.rank(), 1);
  window.pads = ints("pads", 2 * window.rank(), 0);
  window.auto_pad = i.node().attribute_string("auto_pad", "NOTSET");
  if (window.auto_pad == "VALID") std::fill(window.pads.begin(), window.pads.end(), 0);
  return window;
}

Shape kernel_attribute(const Inference& i) {
  const auto kernel = i.attribute_ints("kernel_shape");
  if (!kernel) i.fail("the attribute kernel_shape is missing");
  return {kernel->begin(), kernel->end()};
}

// Returns the kernel_shape attribute, or the weight's sizes after the first two.
Shape kernel_of_weight(const Inference& i, size_t weight) {
  if (const auto kernel = i.attribute_ints("kernel_shape")) {
    return {kernel->begin(), kernel->end()};
  }
  const Shape* shape = i.shape(weight);
  if (!shape || shape->size() < 2) i.fail("the shape of the kernel is unknown");
  return {shape->begin() + 2, shape->end()};
}

bool same_padding(const Window& window) { return window.auto_pad.starts_with("SAME"); }

Dim window_count(const Window& window, size_t axis, const Dim& size, bool ceil_mode) {
  const Dim stride = window.strides[axis];
  if (same_padding(window)) return Dim::ceil_div(size, stride);
  const Dim room = size + Dim(window.pad(axis)) - window.span(axis);
  if (!ceil_mode) return Dim::floor_div(room, stride) + 1;
  // The last window must start inside the input or its leading padding.
  return Dim::min(Dim::ceil_div(room, stride) + 1,
                  Dim::ceil_div(size + Dim(window.pads[axis]), stride));
}

// Returns the shape [N, channels, windows...] for input 0.
std::optional<Shape> windowed(const Inference& i, const Window& window,
                              const std::optional<Dim>& channels) {
  const Shape* input = i.shape(0);
  if (!input) return std::nullopt;
  if (input->size() != window.rank() + 2) {
    i.fail("the input has rank ", input->size(), ", but the window has ", window.rank(),
           " spatial axes");
  }
  const bool ceil_mode = i.attribute("ceil_mode", 0) != 0;
  Shape result = {(*input)[0], channels ? *channels : (*input)[1]};
  for (size_t axis = 0; axis < window.rank(); ++axis) {
    result.push_back(window_count(window, axis, (*input)[axis + 2], ceil_mode));
    if (result.back().constant_or(1) < 0) i.fail("the window is larger than the input");
  }
  return result;
}

std::optional<Shape> convolved(const Inference& i, size_t weight) {
  const Shape* weights = i.shape(weight);
  const Shape* input = i.shape(0);
  if (weights && input && input->size() >= 2 && weights->size() >= 2) {
    i.unify((*input)[1], (*weights)[1] * Dim(i.attribute("group", 1)));
  }
  const Dim channels = weights ? (*weights)[0] : i.unknown(0, i.in(0).rank_or(-1), 1);
  return windowed(i, read_window(i, kernel_of_weight(i, weight)), channels);
}

void conv(Inference& i) {
  i.same_dtype(0, 1);
  i.set(0, i.dtype(0), convolved(i, 1));
}

void conv_integer(Inference& i) { i.set(0, DType::i32, convolved(i, 1)); }

// x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, B
void quantized_conv(Inference& i) { i.set(0, i.dtype(7), convolved(i, 3)); }

void deform_conv(Inference& i) {
  const Shape* weights = i.shape(1);
  const Dim channels = weights ? (*weights)[0] : i.unknown(0, 4, 1);
  i.set(0, i.dtype(0), windowed(i, read_window(i, kernel_of_weight(i, 1)), channels));
}

void conv_transpose(Inference& i) {
  i.same_dtype(0, 1);
  const Shape* input = i.shape(0);
  const Shape* weights = i.shape(1);
  if (!input || !weights) {
    i.set(0, i.dtype(0), std::nullopt);
    return;
  }
  const Window window = read_window(i, kernel_of_weight(i, 1));
  if (input->size() != window.rank() + 2)
    i.fail("the input has rank ", input->size(), ", expected ", window.rank() + 2);
  i.unify((*input)[1], (*weights)[0]);
  const auto output_shape = i.attribute_ints("output_shape");
  const auto output_padding = i.attribute_ints("output_padding");
  Shape result = {(*input)[0], (*weights)[1] * Dim(i.attribute("group", 1))};
  for (size_t axis = 0; axis < window.rank(); ++axis) {
    const Dim& size = (*input)[axis + 2];
    const Dim stride = window.strides[axis];
    if (output_shape) {
      // Some models give output_shape for all axes, others for the spatial axes only.
      result.emplace_back((*output_shape)[output_shape->size() - window.rank() + axis]);
    } else if (same_padding(window)) {
      result.push_back(size * stride);
    } else {
      const Dim more = output_padding ? (*output_padding)[axis] : 0;
      result.push_back(stride * (size - 1) + more + window.span(axis) - Dim(window.pad(axis)));
    }
  }
  i.set(0, i.dtype(0), std::move(result));
}

void pool(Inference& i) {
  const auto shape = windowed(i, read_window(i, kernel_attribute(i)), std::nullopt);
  i.set(0, i.dtype(0), shape);
  i.set(1, DType::i64, shape);  // indices of MaxPool
}

void global_pool(Inference& i) {
  std::optional<Shape> result = i.in(0).shape;
  if (result) std::fill(result->begin() + 2, result->end(), Dim(1));
  i.set(0, i.dtype(0), std::move(result));
}

void max_unpool(Inference& i) {
  if (i.optional(2)) {
    const auto* given = i.contents(2);
    const int64_t rank = i.in(0).rank_or(-1);
    i.set(0, i.dtype(0),
          given       ? std::optional<Shape>(*given)
          : rank >= 0 ? std::optional(i.unknown_shape(0, rank))
                      : std::nullopt);
    return;
  }
  const Shape* input = i.shape(0);
  if (!input) {
    i.set(0, i.dtype(0), std::nullopt);
    return;
  }
  const Window window = read_window(i, kernel_attribute(i));
  if (input->size() != window.rank() + 2)
    i.fail("the input has rank ", input->size(), ", expected ", window.rank() + 2);
  Shape result = {(*input)[0], (*input)[1]};
  for (size_t axis = 0; axis < window.rank(); ++axis) {
    result.push_back(Dim(window.strides[axis]) * ((*input)[axis + 2] - 1) + window.kernel[axis] -
                     Dim(window.pad(axis)));
  }
  i.set(0, i.dtype(0), std::move(result));
}

void col2im(Inference& i) {
  const Shape* input = i.shape(0);
  const auto* image = i.contents(1);
  const auto* block = i.contents(2);
  if (!input || input->size() != 3 || !image) {
    const Shape* axes = i.shape(1);
    const auto spatial = axes && axes->size() == 1 ? (*axes)[0].constant() : std::nullopt;
    i.set(0, i.dtype(0), spatial ? std::optional(i.unknown_shape(0, *spatial + 2)) : std::nullopt);
    return;
  }
  const auto rank = static_cast<int64_t>(image->size()) + 2;
  Shape result = {(*input)[0],
                  block ? Dim::floor_div((*input)[1], numel(*block)) : i.unknown(0, rank, 1)};
  result.insert(result.end(), image->begin(), image->end());
  i.set(0, i.dtype(0), std::move(result));
}

}  // namespace

void add_window_rules(Rules& rules) {
  rules["AveragePool"] = pool;
  rules["Col2Im"] = col2im;
  rules["Conv"] = conv;
  rules["ConvInteger"] = conv_integer;
  rules["ConvTranspose"] = conv_transpose;
  rules["DeformConv"] = deform_conv;
  rules["GlobalAveragePool"] = global_pool;
  rules["GlobalLpPool"] = global_pool;
  rules["GlobalMaxPool"] = global_pool;
  rules["LpPool"] = pool;
  rules["MaxPool"] = pool;
  rules["MaxUnpool"] = max_unpool;
  rules["QLinearConv"] = quantized_conv;
}

}  // namespace onnx_native::onnx
