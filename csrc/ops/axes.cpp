#include "ops/axes.h"

#include <algorithm>

namespace onnx_native::ops {

Shape part_of(const Shape& shape, int64_t begin, int64_t end) {
  const auto rank = static_cast<int64_t>(shape.size());
  const auto place = [rank](int64_t axis) {
    if (axis < -rank || axis > rank) onnx::fail_out_of_range(axis, rank);
    return axis < 0 ? axis + rank : axis;
  };
  begin = place(begin);
  end = end == INT64_MAX ? rank : place(end);
  return begin < end ? Shape(shape.begin() + begin, shape.begin() + end) : Shape();
}

Shape part_of(Value x, int64_t begin, int64_t end) {
  if (!x->shape) onnx::fail_unknown_rank();
  return part_of(x->known_shape(), begin, end);
}

}  // namespace onnx_native::ops
