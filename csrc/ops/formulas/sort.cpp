#include "ops/formulas/sort.h"

#include "ops/formulas/view.h"

namespace onnx_native::ops {

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

Value any_along(Builder& b, Value flags, int64_t axis) {
  Value count = b.reduce("ReduceSum", b.cast(flags, DType::i32), {axis}, /*keepdims=*/true);
  return b.Greater(count, b.scalar(DType::i32, 0));
}

}  // namespace onnx_native::ops
