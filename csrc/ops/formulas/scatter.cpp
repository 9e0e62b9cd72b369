#include "ops/formulas/scatter.h"

#include <limits>

#include "ops/formulas/numeric.h"
#include "ops/formulas/view.h"

namespace onnx_native::ops {

Value scatter_into(Builder& b, std::string_view op_type, Value data, Value indices, Value updates,
                   std::string_view reduction, std::vector<onnx::Attribute> attributes) {
  if (reduction == "none") return b.op(op_type, {data, indices, updates}, std::move(attributes));
  attributes.push_back({"reduction", std::string(reduction)});
  DType dtype = data->dtype;
  DType compute = dtype == DType::f16 || dtype == DType::bf16 ? DType::f32 : dtype;
  return b.cast(b.op(op_type, {b.cast(data, compute), indices, b.cast(updates, compute)},
                     std::move(attributes)),
                dtype);
}

Value scatter(Builder& b, Value self, int64_t dim, Value index, Value src,
              std::string_view reduction) {
  if (numel(index->known_shape()).equals(0)) return self;
  Shape shape = self->known_shape();
  Value data = at_least_1d(b, self);
  index = at_least_1d(b, b.cast(index, DType::i64));
  src = at_least_1d(b, b.cast(src, self->dtype));
  const int64_t along = normalize_axis(dim, data->rank());
  for (int64_t axis = 0; axis < index->rank(); ++axis) {
    // ATen takes an index without elements whatever its sizes are; ONNX wants them to fit.
    const Dim size = data->dim(axis);
    if (axis != along && !(size - index->dim(axis)).known_non_negative())
      index = b.slice(index, axis, 0, size);
  }
  for (int64_t axis = 0; axis < index->rank(); ++axis) {
    if (!(src->dim(axis) == index->dim(axis))) src = b.slice(src, axis, 0, index->dim(axis));
  }
  return b.reshape(
      scatter_into(b, "ScatterElements", data, index, src, reduction, {{"axis", along}}), shape);
}

namespace {

// Returns the neutral element of a reduction.
Scalar identity_of(const std::string& reduce, DType dtype) {
  if (reduce == "prod" || reduce == "multiply") return 1;
  if (reduce != "amax" && reduce != "amin") return 0;
  bool lowest = reduce == "amax";
  if (is_floating(dtype)) {
    double infinity = std::numeric_limits<double>::infinity();
    return lowest ? -infinity : infinity;
  }
  if (dtype == DType::i64) {
    return lowest ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
  }
  return static_cast<int64_t>(lowest ? lowest_value(dtype) : max_value(dtype));
}

std::string_view onnx_reduction(Builder& b, const std::string& reduce) {
  if (reduce == "sum" || reduce == "add" || reduce == "mean") return "add";
  if (reduce == "prod" || reduce == "multiply") return "mul";
  if (reduce == "amax") return "max";
  if (reduce == "amin") return "min";
  b.unsupported("scatter with reduce=", reduce, " is not supported");
}

// ONNX Runtime's max and min ignore NaN; ATen's propagate it. `start` is the tensor that `src` is
// reduced into.
Value keep_nan(Builder& b, Value result, Value start, int64_t dim, Value index, Value src) {
  Value found = scatter(b, b.cast(b.IsNaN(start), DType::f32), dim, index,
                        b.cast(b.IsNaN(src), DType::f32), "add");
  return b.where(b.Greater(found, b.scalar(DType::f32, 0)),
                 b.like(result, std::numeric_limits<double>::quiet_NaN()), result);
}

}  // namespace

Value scatter_reduce(Builder& b, Value self, int64_t dim, Value index, Value src,
                     const std::string& reduce, bool include_self) {
  std::string_view reduction = onnx_reduction(b, reduce);
  if (numel(index->known_shape()).equals(0)) return self;
  return on_numbers(b, self, [&](Value data) {
    const Shape& index_shape = index->known_shape();
    const Shape& shape = data->known_shape();
    Value start = data;
    if (!include_self) {
      Value neutral = b.full(data->dtype, identity_of(reduce, data->dtype), index_shape);
      start = scatter(b, data, dim, index, neutral);
    }
    Value result = scatter(b, start, dim, index, src, reduction);
    if (is_floating(data->dtype) && (reduce == "amax" || reduce == "amin"))
      return keep_nan(b, result, start, dim, index, b.cast(src, data->dtype));
    if (reduce != "mean") return result;
    Value count = scatter(b, b.full(data->dtype, include_self ? 1 : 0, shape), dim, index,
                          b.full(data->dtype, 1, index_shape), "add");
    count = b.Max(count, b.like(count, 1));
    if (is_floating(data->dtype)) return b.Div(result, count);
    return b.Div(b.Sub(result, b.op("Mod", {result, count})), count);
  });
}

}  // namespace onnx_native::ops
