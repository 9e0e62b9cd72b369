#include "ops/formulas/axes.h"

#include <algorithm>
#include <limits>

#include "ops/formulas/numeric.h"

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

Ints axes_of(Value x, const std::optional<Ints>& dim) {
  Ints axes;
  if (x->rank() == 0) return axes;
  if (!dim || dim->empty()) {
    for (int64_t axis = 0; axis < x->rank(); ++axis) axes.push_back(axis);
    return axes;
  }
  for (const int64_t axis : *dim) axes.push_back(normalize_axis(axis, x->rank()));
  std::sort(axes.begin(), axes.end());
  return axes;
}

Value reduced(Builder& b, std::string_view onnx_op, Value x, const Ints& axes, bool keepdim) {
  const DType dtype = x->dtype;
  if (dtype == DType::boolean || (is_integral(dtype) && item_size(dtype) < 4)) {
    x = b.cast(x, DType::i32);
  }
  return b.cast(axes.empty() ? x : b.reduce(onnx_op, x, axes, keepdim), dtype);
}

Value sum_over(Builder& b, Value x, const Ints& axes, bool keepdim) {
  return reduced(b, "ReduceSum", x, axes, keepdim);
}

Value extreme_over(Builder& b, std::string_view onnx_op, Value x, const Ints& axes, bool keepdim) {
  if (axes.empty()) return x;
  const Value extreme = reduced(b, onnx_op, x, axes, keepdim);
  if (!is_floating(x->dtype)) return extreme;
  // ONNX Runtime ignores NaN.
  const Value nan = b.reduce("ReduceMax", b.cast(b.IsNaN(x), DType::i32), axes, keepdim);
  return b.where(b.cast(nan, DType::boolean), b.like(x, std::numeric_limits<double>::quiet_NaN()),
                 extreme);
}

Dim count_over(Value x, const Ints& axes) {
  Dim count = 1;
  for (const int64_t axis : axes) count = count * x->dim(axis);
  return count;
}

Value count_like(Builder& b, Value x, const Dim& count) {
  if (const auto number = count.constant()) return b.like(x, *number);
  return b.cast(b.dim_value(count), x->dtype);
}

Value mean_over(Builder& b, Value x, const Ints& axes, bool keepdim) {
  if (count_over(x, axes).known_positive()) return reduced(b, "ReduceMean", x, axes, keepdim);
  // ONNX Runtime's mean of no elements is 0; ATen's is NaN.
  return b.Div(sum_over(b, x, axes, keepdim), count_like(b, x, count_over(x, axes)));
}

Value for_sum(Builder& b, Value x, std::optional<DType> dtype) {
  return b.cast(x, dtype.value_or(is_floating(x->dtype) ? x->dtype : DType::i64));
}

}  // namespace onnx_native::ops
