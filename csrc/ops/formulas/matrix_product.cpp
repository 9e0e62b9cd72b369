#include "ops/formulas/matrix_product.h"

#include <algorithm>

#include "onnx/builder.h"

namespace onnx_native::ops {
namespace {

// The sizes in front of the last `count`.
Shape leading(Value factor, size_t count) {
  const Shape& shape = factor->known_shape();
  return {shape.begin(), shape.end() - static_cast<ptrdiff_t>(std::min(count, shape.size()))};
}

bool may_have_empty_batch(Value factor) { return may_be_empty(leading(factor, 2)); }

// Repeats a factor along axes of the other one's batch that may be empty.
Value in_batch_of(Builder& b, Value factor, Value other) {
  const Shape& wanted = other->known_shape();
  Shape shape = factor->known_shape();
  while (shape.size() < wanted.size()) shape.insert(shape.begin(), 1);
  const size_t first = shape.size() - wanted.size();
  for (size_t i = 0; i + 2 < wanted.size(); ++i) {
    if (shape[first + i].equals(1) && wanted[i].may_be_empty()) shape[first + i] = wanted[i];
  }
  return b.expand(factor, shape);
}

}  // namespace

Value matrix_product(Builder& b, Value x, Value y) {
  for (const Value factor : {x, y}) {
    if (!factor->shape || !is_empty(*factor->shape)) continue;
    // Eager compares no dtypes. It transposes the product of a matrix with a batch of matrices.
    const DType dtype = x->rank() < y->rank() ? y->dtype : x->dtype;
    const Value unused = b.matmul(b.cast(x, dtype), b.cast(y, dtype));
    return b.full(unused->dtype, 0, unused->known_shape());
  }
  const bool repeats_x = y->shape && may_have_empty_batch(y);
  const bool repeats_y = x->shape && may_have_empty_batch(x);
  const bool is_row = x->rank_or(-1) == 1 && repeats_x;
  const bool is_column = y->rank_or(-1) == 1 &&
                         ((x->shape && may_be_empty(leading(x, 1))) || !y->dim(0).known_positive());
  if (is_row) x = b.unsqueeze(x, {0});
  if (is_column) y = b.unsqueeze(y, {-1});
  if (repeats_x && x->rank_or(-1) > 1) x = in_batch_of(b, x, y);
  if (repeats_y && y->rank_or(-1) > 2) y = in_batch_of(b, y, x);
  Value result = b.matmul(x, y);
  if (is_row) result = b.squeeze(result, {-2});
  return is_column ? b.squeeze(result, {-1}) : result;
}

}  // namespace onnx_native::ops
