#include "onnx/builder.h"
#include "ops/families.h"
#include "ops/formulas/axes.h"
#include "ops/formulas/matrix_product.h"

namespace onnx_native::ops {
namespace {

Value grid_sampler(Builder& b, Value input, Value grid, int64_t interpolation_mode,
                   int64_t padding_mode, bool align_corners) {
  static constexpr const char* kModes[] = {"linear", "nearest", "cubic"};
  static constexpr const char* kOldModes[] = {"bilinear", "nearest", "bicubic"};
  static constexpr const char* kPadding[] = {"zeros", "border", "reflection"};
  const auto is_mode = [](int64_t mode) { return mode >= 0 && mode < 3; };
  b.check(is_mode(interpolation_mode), "interpolation_mode must be 0, 1 or 2, got ",
          interpolation_mode);
  b.check(is_mode(padding_mode), "padding_mode must be 0, 1 or 2, got ", padding_mode);
  const bool old = b.opset() < 20;
  b.check(input->rank() == 4 || !old, "a 5-D input requires opset 20");
  return b.op("GridSample", {input, grid},
              {{"mode", (old ? kOldModes : kModes)[interpolation_mode]},
               {"padding_mode", kPadding[padding_mode]},
               {"align_corners", int64_t{align_corners}}});
}

// Returns `count` coordinates: from -1 to 1 if `align_corners`, else the centers of `count` pixels
// that divide [-1, 1].
Value normalized_coordinates(Builder& b, const Dim& count, bool align_corners, DType dtype) {
  const Value i = b.cast(b.range(count), dtype);
  const Value two = b.scalar(dtype, 2.0), one = b.scalar(dtype, 1.0);
  const auto number = [&](const Dim& dim) { return b.cast(b.dim_value(dim), dtype); };
  if (!align_corners) return b.Sub(b.Div(b.Add(b.Mul(i, two), one), number(count)), one);
  if (count.equals(1)) return b.full(dtype, 0.0, {1});
  const Value spaced = b.Sub(b.Div(b.Mul(i, two), number(count - 1)), one);
  return count.is_constant()
             ? spaced
             : b.where(b.Equal(b.dim_value(count), b.i64(1)), b.scalar(dtype, 0.0), spaced);
}

// Applies theta, (batch, 2, 3) or (batch, 3, 4), to the coordinates (x, y[, z], 1) of each element.
Value affine_grid_generator(Builder& b, Value theta, Shape size, bool align_corners) {
  const int64_t axes = static_cast<int64_t>(size.size()) - 2;
  const Shape spatial = part_of(size, 2);
  Shape plane = spatial;
  plane.push_back(1);
  Values columns;
  for (int64_t axis = axes - 1; axis >= 0; --axis) {
    Shape along(axes + 1, Dim(1));
    along[axis] = spatial[axis];
    const Value v = normalized_coordinates(b, spatial[axis], align_corners, theta->dtype);
    columns.push_back(b.expand(b.reshape(v, along), plane));
  }
  columns.push_back(b.full(theta->dtype, 1.0, plane));
  const Value points = b.reshape(b.concat(columns, -1), {numel(spatial), axes + 1});
  Shape result{size[0]};
  result.insert(result.end(), spatial.begin(), spatial.end());
  result.push_back(axes);
  return b.reshape(matrix_product(b, points, b.swap_axes(theta, 1, 2)), result);
}

struct SlidingBlocks {
  Ints kernel, dilation, padding, stride;
};

Ints pair(Ints values) {
  if (values.size() < 2) values.resize(2, values.at(0));
  return values;
}

// Returns the position along an axis of kernel element k of window i: (kernel, windows).
Value block_positions(Builder& b, const Dim& windows, const SlidingBlocks& c, size_t axis) {
  const Value within = b.Mul(b.range(c.kernel[axis]), b.i64(c.dilation[axis]));
  const Value start = b.Mul(b.range(windows), b.i64(c.stride[axis]));
  return b.Add(b.unsqueeze(within, {1}), b.unsqueeze(start, {0}));
}

Value im2col(Builder& b, Value self, Ints kernel_size, Ints dilation, Ints padding, Ints stride) {
  const SlidingBlocks c{pair(kernel_size), pair(dilation), pair(padding), pair(stride)};
  const bool batched = self->rank() == 4;
  Value x = batched ? self : b.unsqueeze(self, {0});
  x = b.pad(x, {0, 0, c.padding[0], c.padding[1], 0, 0, c.padding[0], c.padding[1]});
  Dim windows[2];
  for (size_t i = 0; i < 2; ++i)
    windows[i] = Dim::floor_div(x->dim(static_cast<int64_t>(i) + 2) -
                                    Dim(c.dilation[i] * (c.kernel[i] - 1) + 1),
                                c.stride[i]) +
                 1;
  x = b.gather(x, block_positions(b, windows[1], c, 1), 3);
  x = b.gather(x, block_positions(b, windows[0], c, 0), 2);
  // x is (batch, channels, kernel rows, window rows, kernel columns, window columns).
  const Dim channels = x->dim(1) * Dim(c.kernel[0] * c.kernel[1]);
  x = b.reshape(b.transpose(x, {0, 1, 2, 4, 3, 5}), {x->dim(0), channels, windows[0] * windows[1]});
  return batched ? x : b.squeeze(x, {0});
}

Value col2im(Builder& b, Value self, Shape output_size, Ints kernel_size, Ints dilation,
             Ints padding, Ints stride) {
  const Ints pads = pair(padding);
  const bool batched = self->rank() == 3;
  Value y = b.op("Col2Im",
                 {batched ? self : b.unsqueeze(self, {0}), b.shape_value(output_size),
                  b.i64s(pair(kernel_size))},
                 {{"dilations", pair(dilation)},
                  {"pads", Ints{pads[0], pads[1], pads[0], pads[1]}},
                  {"strides", pair(stride)}});
  return batched ? y : b.squeeze(y, {0});
}

}  // namespace

void register_grid(OpTable& ops) {
  ops.def({"aten::grid_sampler", "aten::grid_sampler_2d", "aten::grid_sampler_3d"}, grid_sampler);
  ops.def("aten::affine_grid_generator", affine_grid_generator);
  ops.def("aten::im2col", im2col);
  ops.def("aten::col2im", col2im);
}

}  // namespace onnx_native::ops
