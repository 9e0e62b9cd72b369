#include <array>

#include "onnx/builder.h"
#include "ops/families.h"
#include "ops/formulas/axes.h"

namespace onnx_native::ops {
namespace {

// Returns the window starts along one axis: (batch, channels, windows) for (batch, channels)
// samples.
Value starts(Builder& b, Value sample, const Dim& size, int64_t kernel, int64_t count) {
  const Dim last = size - Dim(kernel);
  if (count == 1) return b.expand(b.dim_value(last), {sample->dim(0), sample->dim(1), 1});
  const DType dtype = sample->dtype;
  const Value alpha =
      b.Div(b.cast(b.dim_value(last), dtype), b.scalar(dtype, static_cast<double>(count - 1)));
  const auto whole = [&](Value v) { return b.cast(b.Mul(v, alpha), DType::i64); };
  const Value u = b.unsqueeze(sample, {2});
  const Value i = b.range(count);
  const Value start = b.Sub(whole(b.Add(b.cast(i, dtype), u)), whole(u));
  return b.where(b.Equal(i, b.i64(count - 1)), b.dim_value(last), start);
}

// Returns the maxima and their positions in the flattened spatial dimensions. order[i] is the index
// of the sample for spatial axis i.
std::array<Value, 2> fractional_max_pool(Builder& b, Value self, Ints kernel, Ints count,
                                         Value samples, const Ints& order) {
  const auto axes = static_cast<int64_t>(order.size());
  kernel.resize(axes, kernel.at(0));
  count.resize(axes, count.at(0));
  const bool batched = self->rank() == axes + 2;
  for (int64_t i = 0; i < axes; ++i)
    b.check(kernel[i] > 0 && count[i] > 0, "a window and the output must have positive sizes, got ",
            kernel[i], " and ", count[i], " along spatial axis ", i);
  const Value x = batched ? self : b.unsqueeze(self, {0});
  // Eager ignores samples beyond the batch.
  if (!(samples->dim(0) == x->dim(0))) samples = b.slice(samples, 0, 0, x->dim(0));
  Value position = nullptr;  // (batch, channels, windows per axis, kernel per axis)
  Dim windows = 1, area = 1;
  for (int64_t i = 0; i < axes; ++i) {
    const Dim& size = x->dim(i + 2);
    const Value start = starts(b, b.select(samples, 2, order[i]), size, kernel[i], count[i]);
    Ints start_axes, within_axes;
    for (int64_t k = 0; k < 2 * axes; ++k) {
      if (k != i) start_axes.push_back(k + 2);
      if (k != axes + i) within_axes.push_back(k);
    }
    const Value at =
        b.Add(b.unsqueeze(start, start_axes), b.unsqueeze(b.range(kernel[i]), within_axes));
    position = position ? b.Add(b.Mul(position, b.dim_value(size)), at) : at;
    windows = windows * Dim(count[i]);
    area = area * Dim(kernel[i]);
  }
  const Dim &n = x->dim(0), &c = x->dim(1);
  const Value flat = b.reshape(position, {n, c, windows * area});
  const Value plane = b.reshape(x, {n, c, numel(part_of(x, 2))});
  const Value taken =
      b.reshape(b.op("GatherElements", {plane, flat}, {{"axis", 2}}), {n, c, windows, area});
  const Value best = b.op("ArgMax", {taken}, {{"axis", 3}, {"keepdims", 1}});
  Shape result{n, c};
  for (int64_t k : count) result.push_back(k);
  const auto chosen = [&](Value v) {
    const Value picked = b.reshape(b.op("GatherElements", {v, best}, {{"axis", 3}}), result);
    return batched ? picked : b.squeeze(picked, {0});
  };
  return {chosen(taken), chosen(b.reshape(flat, {n, c, windows, area}))};
}

// Scatters each element to its index in a plane of zeros.
Value max_unpool(Builder& b, Value self, Value indices, const Shape& output_size) {
  const int64_t axes = static_cast<int64_t>(output_size.size()), outer = self->rank() - axes;
  b.check(outer >= 0, "inconsistent arguments: got ", axes, " output sizes for a ", self->rank(),
          "-D tensor");
  Shape result = part_of(self, 0, outer);
  Shape plane = result;
  plane.push_back(numel(output_size));
  result.insert(result.end(), output_size.begin(), output_size.end());
  const Value y = b.op(
      "ScatterElements",
      {b.full(self->dtype, 0, plane), b.flatten(indices, outer, -1), b.flatten(self, outer, -1)},
      {{"axis", outer}});
  return b.reshape(y, result);
}

}  // namespace

void register_fractional_pool(OpTable& ops) {
  ops.def("aten::fractional_max_pool2d",
          [](Builder& b, Value self, Ints kernel_size, Ints output_size, Value random_samples) {
            return fractional_max_pool(b, self, kernel_size, output_size, random_samples, {1, 0});
          });
  ops.def("aten::fractional_max_pool3d", [](Builder& b, Value self, Ints kernel_size,
                                            Ints output_size, Value random_samples) {
    return fractional_max_pool(b, self, kernel_size, output_size, random_samples, {0, 1, 2});
  });
  ops.def("aten::max_unpool2d", max_unpool);
  ops.def("aten::max_unpool3d",
          [](Builder& b, Value self, Value indices, Shape output_size, Ignored, Ignored) {
            return max_unpool(b, self, indices, output_size);
          });
}

}  // namespace onnx_native::ops
