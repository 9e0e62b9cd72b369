#include "ops/formulas/sort.h"

#include <limits>

#include "base/nan.h"
#include "ops/formulas/numeric.h"
#include "ops/formulas/view.h"

namespace onnx_native::ops {

namespace {

// Returns true if the elements are finite or NaN.
bool is_bounded(Value x) {
  const onnx::Node* node = x->producer;
  return node && node->is_any({"Sigmoid", "Softmax", "Tanh"});
}

// Returns keys in the order of the elements, in which NaN is the greatest: infinity. Half of each
// element makes room for it, so the greatest finite key is that of infinity. Only subnormal
// numbers lose a bit. 16-bit floats are widened instead.
Value keys_of(Builder& b, Value x) {
  const Value infinity = b.like(x, kInfinity);
  if (is_bounded(x)) return b.where(b.IsNaN(x), infinity, x);
  const DType dtype = accumulation_dtype(x->dtype);
  const Value smaller = dtype == x->dtype ? b.Mul(x, b.like(x, 0.5)) : b.cast(x, dtype);
  const double most =
      dtype == DType::f64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
  return b.where(b.IsNaN(x), b.scalar(dtype, kInfinity), b.Min(smaller, b.scalar(dtype, most)));
}

}  // namespace

Pair top_k(Builder& b, Value self, const Dim& k, int64_t dim, bool largest) {
  Shape shape = self->known_shape();
  Value data = at_least_1d(b, self);
  if (data->dtype == DType::boolean) data = b.cast(data, DType::u8);
  int64_t axis = normalize_axis(dim, data->rank());
  Values top = b.ops("TopK", 2, {data, b.shape_value({k})},
                     {{"axis", axis}, {"largest", int64_t{largest}}, {"sorted", int64_t{1}}});
  if (!shape.empty()) shape[axis] = k;
  return {b.reshape(b.cast(top[0], self->dtype), shape), b.reshape(top[1], shape)};
}

Pair sort(Builder& b, Value self, int64_t dim, bool descending) {
  const Shape& shape = self->known_shape();
  Dim size = shape.empty() ? Dim(1) : shape[normalize_axis(dim, self->rank())];
  return top_k(b, self, size, dim, descending);
}

Pair top_k_with_nan(Builder& b, Value self, const Dim& k, int64_t dim, bool largest) {
  if (!is_floating(self->dtype)) return top_k(b, self, k, dim, largest);
  if (nan_mode() == NanMode::ignore) {
    note_nan_difference("TopK");
    return top_k(b, self, k, dim, largest);
  }
  const Value data = at_least_1d(b, self);
  const int64_t axis = normalize_axis(dim, data->rank());
  const Value order = top_k(b, keys_of(b, data), k, axis, largest)[1];
  const Value values = b.op("GatherElements", {data, order}, {{"axis", axis}});
  Shape shape = self->known_shape();
  if (!shape.empty()) shape[axis] = k;
  return {b.reshape(values, shape), b.reshape(order, shape)};
}

Value any_along(Builder& b, Value flags, int64_t axis) {
  Value count = b.reduce("ReduceSum", b.cast(flags, DType::i32), {axis}, /*keepdims=*/true);
  return b.Greater(count, b.scalar(DType::i32, 0));
}

}  // namespace onnx_native::ops
