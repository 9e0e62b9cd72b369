// torchvision's operators: non-maximum suppression, pooling of regions, deformable convolution.
#include <algorithm>
#include <array>
#include <limits>

#include "ops/families.h"
#include "ops/formulas/loop.h"
#include "ops/formulas/matrix_product.h"
#include "ops/formulas/numeric.h"
#include "ops/formulas/sort.h"
#include "ops/formulas/view.h"

namespace onnx_native::ops {
namespace {

// --- Boxes.

// Returns (n, n) bools: true if the intersection over union of two boxes is above the threshold.
Value overlaps(Builder& b, Value boxes, const Number& threshold) {
  const auto corner = [&](int64_t i) { return b.select(boxes, 1, i); };
  const auto pairs = [&](Value (Builder::*op)(Value, Value), int64_t i) {
    return (b.*op)(b.unsqueeze(corner(i), {1}), corner(i));
  };
  const Value area = b.Mul(b.Sub(corner(2), corner(0)), b.Sub(corner(3), corner(1)));
  const Value zero = b.like(boxes, 0.0);
  const Value width = b.Max(b.Sub(pairs(&Builder::Min, 2), pairs(&Builder::Max, 0)), zero);
  const Value height = b.Max(b.Sub(pairs(&Builder::Min, 3), pairs(&Builder::Max, 1)), zero);
  const Value inner = b.Mul(width, height);
  const Value both = b.Add(b.unsqueeze(area, {1}), area);
  const Value ratio = b.Div(inner, b.Sub(both, inner));
  return b.Greater(b.cast(ratio, DType::f64), b.scalar(DType::f64, threshold));
}

// Suppresses boxes in a loop, for inputs that NonMaxSuppression does not support.
Value suppress(Builder& b, Value boxes, Value scores, const Number& threshold) {
  const Dim& count = boxes->dim(0);
  const Value order = sort(b, scores, 0, /*descending=*/true)[1];
  const Value overlap = overlaps(b, b.gather(boxes, order, 0), threshold);
  const Value none = b.full(DType::boolean, false, {count});
  const Value suppressed =
      loop(b, b.dim_value(count), {none}, [&](Value i, const Values& states) -> Values {
        const Value later = b.Greater(b.range(count), i);
        const Value by_this =
            b.And(b.And(b.gather(overlap, i, 0), later), b.Not(b.gather(states[0], i, 0)));
        return {b.Or(states[0], by_this)};
      })[0];
  return b.op("Compress", {order, b.Not(suppressed)}, {{"axis", int64_t{0}}});
}

// Returns the indices of the boxes that are kept, by descending score.
Value nms(Builder& b, Value dets, Value scores, const Number& given) {
  if (dets->dtype != DType::f32 || !given.is_constant() || given.to_double() < 0) {
    return suppress(b, dets, scores, given);
  }
  const double iou_threshold = given.to_double();
  // The greatest float32 <= iou_threshold: a float32 ratio is above one if it is above the other.
  auto threshold = static_cast<float>(std::min(iou_threshold, 1.0));
  if (threshold > iou_threshold) threshold = std::nextafter(threshold, -1.0F);
  // Boxes with x1 > x2 or y1 > y2 overlap no others. NonMaxSuppression would swap their corners, so
  // they become empty.
  const Value low = b.slice(dets, 1, 0, 2);
  const Value boxes = b.concat({low, b.Max(low, b.slice(dets, 1, 2, 4))}, 1);
  const Value selected = b.op(
      "NonMaxSuppression",
      {b.unsqueeze(boxes, {0}), b.unsqueeze(scores, {0, 1}),
       b.i64s({std::numeric_limits<int64_t>::max()}),
       b.tensor(make_tensor(DType::f32, {1},
                            std::span<const double>(std::array{static_cast<double>(threshold)})))});
  return b.select(selected, 1, 2);
}

// --- Regions: rows (image, x1, y1, x2, y2); a scale maps their coordinates to the input's.

struct Pooling {
  double scale;
  int64_t height, width;  // size of the result
};

Value image_of(Builder& b, Value input, Value roi) {
  return b.gather(input, b.cast(b.select(roi, 0, 0), DType::i64), 0);
}

// The samples of a region's bins along one axis: bins * points positions.
struct Samples {
  Value low, high;  // neighbors
  Value weight;     // weight of `high`
  Value inside;
  Value points;  // per bin: 0-d, of the regions' dtype
  Dim points_size;
};

// Returns the number of points per bin; with `ratio` 0, points are at most one element apart.
Value points_of_bin(Builder& b, Value extent, int64_t bins, int64_t ratio) {
  if (ratio > 0) return b.like(extent, ratio);
  return b.Max(b.Ceil(b.Div(extent, b.like(extent, bins))), b.like(extent, 0));
}

Samples sample_axis(Builder& b, Value start, Value extent, int64_t bins, int64_t ratio,
                    const Dim& size) {
  const DType dtype = start->dtype;
  Samples s;
  s.points = points_of_bin(b, extent, bins, ratio);
  // A bin without points gets one that counts as outside.
  s.points_size =
      ratio > 0 ? Dim(ratio)
                : b.dim_of(b.Max(b.cast(s.points, DType::i64), b.i64(1)), DimRange::integer(1));
  const Value bin = b.Div(extent, b.like(extent, bins));
  const Value point = b.Add(b.cast(b.range(s.points_size), dtype), b.like(bin, 0.5));
  const Value within = b.Div(b.Mul(point, bin), s.points);
  const Value begin = b.Add(start, b.Mul(b.cast(b.range(bins), dtype), bin));
  Value at = b.reshape(b.Add(b.unsqueeze(begin, {1}), within), {Dim(bins) * s.points_size});
  const Value limit = b.cast(b.dim_value(size), dtype);
  const Value last = b.dim_value(size - 1);
  s.inside = b.And(b.GreaterOrEqual(at, b.like(at, -1.0)), b.LessOrEqual(at, limit));
  if (ratio == 0) s.inside = b.And(s.inside, b.Greater(s.points, b.like(s.points, 0.0)));
  at = b.where(s.inside, at, b.like(at, 0.0));
  at = b.Min(b.Max(at, b.like(at, 0.0)), b.cast(last, dtype));
  const Value floor = b.Floor(at);
  s.low = b.cast(floor, DType::i64);
  s.high = b.Min(b.Add(s.low, b.i64(1)), last);
  s.weight = b.Sub(at, floor);
  return s;
}

// Interpolates linearly at the samples of one axis.
Value interpolate(Builder& b, Value image, const Samples& s, int64_t axis) {
  const Value weight = axis == 1 ? b.unsqueeze(s.weight, {1}) : s.weight;
  const Value inverse = b.Sub(b.like(weight, 1.0), weight);
  return b.Add(b.Mul(b.gather(image, s.low, axis), inverse),
               b.Mul(b.gather(image, s.high, axis), weight));
}

// Aligns regions in a loop, for opsets whose RoiAlign has no kernel in ONNX Runtime.
Value align_each(Builder& b, Value input, Value rois, const Pooling& p, int64_t ratio,
                 bool aligned) {
  return loop(b, b.dim_value(rois->dim(0)), {}, [&](Value i, const Values&) -> Values {
    const Value roi = b.gather(rois, i, 0);
    const Value corners =
        b.Sub(b.Mul(b.slice(roi, 0, 1, 5), b.like(roi, p.scale)), b.like(roi, aligned ? 0.5 : 0.0));
    const auto axis = [&](int64_t from, int64_t bins, const Dim& size) {
      const Value start = b.select(corners, 0, from);
      Value extent = b.Sub(b.select(corners, 0, from + 2), start);
      if (!aligned) extent = b.Max(extent, b.like(extent, 1.0));
      return sample_axis(b, start, extent, bins, ratio, size);
    };
    const Samples y = axis(1, p.height, input->dim(2)), x = axis(0, p.width, input->dim(3));
    Value sampled = interpolate(b, interpolate(b, image_of(b, input, roi), y, 1), x, 2);
    sampled = b.where(b.And(b.unsqueeze(y.inside, {1}), x.inside), sampled, b.like(sampled, 0.0));
    sampled = b.reshape(sampled, {input->dim(1), p.height, y.points_size, p.width, x.points_size});
    const Value count = b.Max(b.Mul(y.points, x.points), b.like(y.points, 1.0));
    return {b.Div(b.reduce("ReduceSum", sampled, {2, 4}, false), count)};
  })[0];
}

Value roi_align(Builder& b, Value input, Value rois, const Pooling& p, int64_t ratio,
                bool aligned) {
  ratio = std::max<int64_t>(ratio, 0);
  if (b.opset() >= 22) {
    const DType compute = accumulation_dtype(input->dtype);
    return b.cast(align_each(b, b.cast(input, compute), b.cast(rois, compute), p, ratio, aligned),
                  input->dtype);
  }
  double scale = p.scale;
  if (input->dtype == DType::f64) {  // spatial_scale is a float32 attribute
    const std::array factors{1.0, scale, scale, scale, scale};
    rois = b.Mul(rois, b.tensor(make_tensor(DType::f64, {5}, std::span<const double>(factors))));
    scale = 1;
  }
  return b.op("RoiAlign", {input, b.slice(rois, 1, 1, 5), b.cast(b.select(rois, 1, 0), DType::i64)},
              {{"output_height", p.height},
               {"output_width", p.width},
               {"sampling_ratio", ratio},
               {"spatial_scale", scale},
               {"coordinate_transformation_mode",
                std::string(aligned ? "half_pixel" : "output_half_pixel")}});
}

// --- Position-sensitive pooling: each bin reads its own channels.

Dim channels_of_result(Value input, const Pooling& p) {
  return Dim::floor_div(input->dim(1), p.height * p.width);
}

Shape sensitive_shape(Value input, Value rois, const Pooling& p) {
  return {rois->dim(0), channels_of_result(input, p), p.height, p.width};
}

// Returns the input channel that each element of the result reads.
Value channel_mapping(Builder& b, Value input, Value rois, const Pooling& p) {
  const Shape shape = sensitive_shape(input, rois, p);
  const Value channels = b.cast(b.range(input->dim(1)), DType::i32);
  return b.expand(b.reshape(channels, Shape(shape.begin() + 1, shape.end())), shape);
}

std::array<Value, 2> ps_roi_align(Builder& b, Value input, Value rois, double spatial_scale,
                                  int64_t pooled_height, int64_t pooled_width,
                                  int64_t sampling_ratio) {
  const Pooling p{spatial_scale, pooled_height, pooled_width};
  const Value all = roi_align(b, input, rois, p, sampling_ratio, /*aligned=*/true);
  // Each bin keeps only its own channels.
  const Dim channels = channels_of_result(input, p);
  const int64_t bins = p.height * p.width;
  const Value by_channel = b.reshape(all, {rois->dim(0), channels, bins * bins});
  Value result = b.gather(by_channel, b.Mul(b.range(bins), b.i64(bins + 1)), 2);
  result = b.reshape(result, sensitive_shape(input, rois, p));
  if (sampling_ratio <= 0) {  // the mean of no points is NaN
    const auto points = [&](int64_t from, int64_t count) {
      const Value extent =
          b.Mul(b.Sub(b.select(rois, 1, from + 2), b.select(rois, 1, from)), b.like(rois, p.scale));
      return b.Ceil(b.Div(extent, b.like(extent, count)));
    };
    const Value count = b.Mul(points(1, p.width), points(2, p.height));
    const Value none = b.unsqueeze(b.Equal(count, b.like(count, 0)), {1, 2, 3});
    result = b.where(none, b.like(result, std::numeric_limits<double>::quiet_NaN()), result);
  }
  return {result, channel_mapping(b, input, rois, p)};
}

// --- Pooling of whole elements, without interpolation.

// Rounds halves away from zero, like C's round.
Value round_half_away(Builder& b, Value x) {
  const Value size = b.Abs(x), floor = b.Floor(size);
  const Value up = b.cast(b.GreaterOrEqual(b.Sub(size, floor), b.like(x, 0.5)), x->dtype);
  return b.Mul(b.Add(floor, up), b.Sign(x));
}

// The elements of an axis in each bin: [begin, end) per bin, and a (bins, size) mask.
struct Bins {
  Value begin, end, mask;
};

// `start` and `extent` are integral; positions are clamped to [0, limit].
Bins windows(Builder& b, Value start, Value extent, int64_t bins, const Dim& size,
             const Dim& limit) {
  const DType dtype = start->dtype;
  const Value bin = b.Div(extent, b.like(extent, bins));
  const auto edge = [&](Value v) {
    return b.Min(b.Max(b.cast(b.Add(v, start), DType::i64), b.i64(0)), b.dim_value(limit));
  };
  const auto multiples = [&](int64_t first) {
    return b.Mul(b.cast(b.range(first, first + bins, 1), dtype), bin);
  };
  Bins w;
  w.begin = edge(b.Floor(multiples(0)));
  w.end = edge(b.Ceil(multiples(1)));
  const Value at = b.range(size);
  w.mask =
      b.And(b.GreaterOrEqual(at, b.unsqueeze(w.begin, {1})), b.Less(at, b.unsqueeze(w.end, {1})));
  return w;
}

// Returns the windows of rows and of columns; `inclusive` regions contain their last element.
std::array<Bins, 2> region_windows(Builder& b, Value roi, Value input, const Pooling& p,
                                   bool inclusive) {
  const Value corners = round_half_away(b, b.Mul(b.slice(roi, 0, 1, 5), b.like(roi, p.scale)));
  const auto axis = [&](int64_t from, int64_t bins, const Dim& size) {
    const Value start = b.select(corners, 0, from);
    Value extent = b.Sub(b.select(corners, 0, from + 2), start);
    if (inclusive) extent = b.Add(extent, b.like(extent, 1.0));
    extent = b.Max(extent, b.like(extent, 1.0));
    return windows(b, start, extent, bins, size, inclusive ? size : size - 1);
  };
  return {axis(1, p.height, input->dim(2)), axis(0, p.width, input->dim(3))};
}

constexpr double kLowest = std::numeric_limits<float>::lowest();

// Replaces NaN, which torchvision never chooses as the maximum.
Value without_nan(Builder& b, Value x) { return b.where(is_nan(b, x), b.like(x, kLowest), x); }

// Returns the maximum of each bin and its position in the plane (-1: none).
Values max_of_each(Builder& b, Value input, Value rois, const Pooling& p) {
  return loop(b, b.dim_value(rois->dim(0)), {}, [&](Value i, const Values&) -> Values {
    const Value roi = b.gather(rois, i, 0);
    const auto [rows, columns] = region_windows(b, roi, input, p, /*inclusive=*/true);
    const Value image = without_nan(b, image_of(b, input, roi));
    const Value lowest = b.like(image, kLowest);
    // Reduces each row, (channels, rows, bins), then each column of bins.
    Value line = b.where(columns.mask, b.unsqueeze(image, {2}), lowest);
    const Value at = b.op("ArgMax", {line}, {{"axis", 3}, {"keepdims", 0}});
    line = b.reduce("ReduceMax", line, {3}, false);
    Value plane = b.where(b.unsqueeze(rows.mask, {2}), b.unsqueeze(line, {1}), lowest);
    const Value row = b.op("ArgMax", {plane}, {{"axis", 2}, {"keepdims", 0}});
    plane = b.Max(b.reduce("ReduceMax", plane, {2}, false), lowest);
    const Value place = b.Add(b.Mul(row, b.dim_value(input->dim(3))),
                              b.op("GatherElements", {at, row}, {{"axis", 1}}));
    const Value empty = b.Or(b.unsqueeze(b.LessOrEqual(rows.end, rows.begin), {1}),
                             b.LessOrEqual(columns.end, columns.begin));
    const Value found = b.And(b.Greater(plane, lowest), b.Not(empty));
    return {b.where(empty, b.like(plane, 0.0), plane),
            b.cast(b.where(found, place, b.i64(-1)), DType::i32)};
  });
}

std::array<Value, 2> roi_pool(Builder& b, Value input, Value rois, double spatial_scale,
                              int64_t pooled_height, int64_t pooled_width) {
  const Pooling p{spatial_scale, pooled_height, pooled_width};
  const DType dtype = input->dtype, compute = accumulation_dtype(dtype);
  const Values each = max_of_each(b, b.cast(input, compute), b.cast(rois, compute), p);
  if (compute == DType::f64 || b.opset() >= 22) return {b.cast(each[0], dtype), each[1]};
  const Value pooled =
      b.op("MaxRoiPool", {without_nan(b, b.cast(input, compute)), b.cast(rois, compute)},
           {{"pooled_shape", Ints{pooled_height, pooled_width}}, {"spatial_scale", spatial_scale}});
  return {b.cast(pooled, dtype), each[1]};
}

std::array<Value, 2> ps_roi_pool(Builder& b, Value input, Value rois, double spatial_scale,
                                 int64_t pooled_height, int64_t pooled_width) {
  const Pooling p{spatial_scale, pooled_height, pooled_width};
  const DType compute = accumulation_dtype(input->dtype);
  const Value image = b.cast(input, compute), regions = b.cast(rois, compute);
  const Value result =
      loop(b, b.dim_value(rois->dim(0)), {}, [&](Value i, const Values&) -> Values {
        const Value roi = b.gather(regions, i, 0);
        const auto [rows, columns] = region_windows(b, roi, image, p, /*inclusive=*/false);
        const Value own = b.reshape(
            image_of(b, image, roi),
            {channels_of_result(input, p), p.height, p.width, input->dim(2), input->dim(3)});
        const Value inside =
            b.And(b.unsqueeze(rows.mask, {1, 3}), b.unsqueeze(columns.mask, {0, 2}));
        const Value sum =
            b.reduce("ReduceSum", b.where(inside, own, b.like(own, 0.0)), {3, 4}, false);
        const Value height = b.Sub(rows.end, rows.begin), width = b.Sub(columns.end, columns.begin);
        const Value empty =
            b.Or(b.unsqueeze(b.LessOrEqual(height, b.i64(0)), {1}), b.LessOrEqual(width, b.i64(0)));
        const Value area = b.cast(b.Mul(b.unsqueeze(height, {1}), width), compute);
        return {b.where(empty, b.like(sum, 0.0), b.Div(sum, area))};
      })[0];
  return {b.cast(result, input->dtype), channel_mapping(b, input, rois, p)};
}

// --- Deformable convolution.

struct Deformable {
  Ints stride, padding, dilation;
  int64_t groups, offset_groups;
};

// Returns `weight` times the pixel at an integral position; 0 outside the image. Positions are
// (batch * offset groups, points); `pixels` is (batch * offset groups, height * width, channels).
Value corner(Builder& b, Value pixels, Value y, Value x, Value weight, const Dim& height,
             const Dim& width) {
  const auto within = [&](Value v, const Dim& size) {
    return b.And(b.GreaterOrEqual(v, b.i64(0)), b.Less(v, b.dim_value(size)));
  };
  const Value inside = b.And(within(y, height), within(x, width));
  const Value place = b.Add(b.Mul(y, b.dim_value(width)), x);
  const Value index = b.unsqueeze(b.where(inside, place, b.i64(0)), {2});
  const Value value = b.op("GatherND", {pixels, index}, {{"batch_dims", int64_t{1}}});
  return b.where(b.unsqueeze(inside, {2}), b.Mul(value, b.unsqueeze(weight, {2})),
                 b.like(value, 0.0));
}

// Gathers the samples and multiplies matrices, for opsets without DeformConv.
Value deform_by_gathering(Builder& b, Value input, Value weight, Value offset,
                          std::optional<Value> mask, Value bias, const Deformable& c) {
  const DType dtype = input->dtype;
  const Dim &batch = input->dim(0), &height = input->dim(2), &width = input->dim(3);
  const Dim &rows = offset->dim(2), &columns = offset->dim(3);
  const Dim kernel = weight->dim(2) * weight->dim(3);
  const Dim images = batch * Dim(c.offset_groups), points = kernel * rows * columns;
  const Dim channels = Dim::floor_div(input->dim(1), c.offset_groups);
  const Value moved = b.reshape(offset, {images, kernel, 2, rows, columns});
  const auto position = [&](int64_t i) {
    const int64_t other = 4 - i;  // axis in (1, kernel rows, kernel columns, rows, columns)
    const Value window =
        b.Sub(b.Mul(b.range(offset->dim(2 + i)), b.i64(c.stride[i])), b.i64(c.padding[i]));
    const Value within = b.Mul(b.range(weight->dim(2 + i)), b.i64(c.dilation[i]));
    const Value grid =
        b.Add(b.unsqueeze(window, {0, 1, 2, other}), b.unsqueeze(within, {0, 2 - i, 3, 4}));
    const Value whole =
        b.expand(b.cast(grid, dtype), {1, weight->dim(2), weight->dim(3), rows, columns});
    const Value regular = b.reshape(whole, {1, kernel, rows, columns});
    return b.reshape(b.Add(regular, b.select(moved, 2, i)), {images, points});
  };
  const Value y = position(0), x = position(1);
  const auto reaches = [&](Value v, const Dim& size) {
    return b.And(b.Greater(v, b.like(v, -1.0)), b.Less(v, b.cast(b.dim_value(size), dtype)));
  };
  const Value reached = b.And(reaches(y, height), reaches(x, width));
  const auto split = [&](Value v) {
    const Value at = b.where(reached, v, b.like(v, -2.0)), floor = b.Floor(at);
    const Value low = b.cast(floor, DType::i64), high_weight = b.Sub(at, floor);
    return std::array{low, b.Add(low, b.i64(1)), b.Sub(b.like(v, 1.0), high_weight), high_weight};
  };
  const auto ys = split(y), xs = split(x);
  const Value pixels = b.transpose(b.reshape(input, {images, channels, height * width}), {0, 2, 1});
  Value sampled = nullptr;
  for (int i = 0; i < 4; ++i) {
    const int v = i / 2, h = i % 2;
    const Value part = corner(b, pixels, ys[v], xs[h], b.Mul(ys[v + 2], xs[h + 2]), height, width);
    sampled = sampled ? b.Add(sampled, part) : part;
  }
  if (mask) sampled = b.Mul(sampled, b.reshape(*mask, {images, points, 1}));
  // `matrix` is (batch, groups, channels per group * kernel, rows * columns).
  const Dim plane = rows * columns;
  Value matrix = b.transpose(b.reshape(sampled, {images, kernel, plane, channels}), {0, 3, 1, 2});
  matrix = b.reshape(matrix, {batch, c.groups, weight->dim(1) * kernel, plane});
  const Value factors = b.reshape(
      weight, {c.groups, Dim::floor_div(weight->dim(0), c.groups), weight->dim(1) * kernel});
  const Value result =
      b.reshape(matrix_product(b, factors, matrix), {batch, weight->dim(0), rows, columns});
  return b.Add(result, b.unsqueeze(bias, {1, 2}));
}

Value deform_conv2d(Builder& b, Value input, Value weight, Value offset, Value mask, Value bias,
                    int64_t stride_h, int64_t stride_w, int64_t pad_h, int64_t pad_w,
                    int64_t dilation_h, int64_t dilation_w, int64_t groups, int64_t offset_groups,
                    bool use_mask) {
  const Deformable c{
      {stride_h, stride_w}, {pad_h, pad_w}, {dilation_h, dilation_w}, groups, offset_groups};
  const auto given = use_mask ? std::optional(mask) : std::nullopt;
  if (b.opset() < 19) return deform_by_gathering(b, input, weight, offset, given, bias, c);
  return b.op("DeformConv", {input, weight, offset, bias, given.value_or(nullptr)},
              {{"strides", c.stride},
               {"pads", Ints{pad_h, pad_w, pad_h, pad_w}},
               {"dilations", c.dilation},
               {"group", groups},
               {"offset_group", offset_groups}});
}

}  // namespace

void register_vision(OpTable& ops) {
  ops.def("torchvision::nms", nms);
  ops.def("torchvision::roi_align", [](Builder& b, Value input, Value rois, Ignored,
                                       int64_t pooled_height, int64_t pooled_width,
                                       int64_t sampling_ratio, bool aligned, const Call& call) {
    double scale = 1;
    if (call.argument(2).as_value()) {  // the model computes the scale
      const Value factor = b.cast(call.tensor(2), rois->dtype);
      rois = b.concat({b.slice(rois, 1, 0, 1), b.Mul(b.slice(rois, 1, 1, 5), factor)}, 1);
    } else {
      scale = call.number(2);
    }
    return roi_align(b, input, rois, {scale, pooled_height, pooled_width}, sampling_ratio, aligned);
  });
  ops.def("torchvision::roi_pool", roi_pool);
  ops.def("torchvision::ps_roi_align", ps_roi_align);
  ops.def("torchvision::ps_roi_pool", ps_roi_pool);
  ops.def("torchvision::deform_conv2d", deform_conv2d);
}

}  // namespace onnx_native::ops
