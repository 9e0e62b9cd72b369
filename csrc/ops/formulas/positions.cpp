#include "ops/formulas/positions.h"

#include <algorithm>

namespace onnx_native::ops {

void check_strides(Builder& b, Value self, const Shape& size, const Shape& stride,
                   const Dim& offset) {
  b.check(size.size() == stride.size(), "as_strided needs a stride for each size, got ",
          stride.size(), " strides for ", size.size(), " sizes");
  const Dim elements = numel(size);
  if (!elements.constant() || elements.equals(0)) return;
  Dim last = offset;
  for (size_t i = 0; i < size.size(); ++i) last = last + (size[i] - 1) * stride[i];
  const auto place = last.constant(), count = numel(self->known_shape()).constant();
  b.check(!place || !count || *place < *count, "as_strided reads element ", place.value_or(0),
          " of a tensor of ", count.value_or(0), " elements");
}

Value positions(Builder& b, const Dim& start, const Dim& count, const Dim& step) {
  constexpr int64_t kLargestConstant = 4096;
  auto n = count.constant();
  auto first = start.constant();
  auto by = step.constant();
  if (n && first && by && *n <= kLargestConstant) {
    Ints numbers;
    for (int64_t i = 0; i < *n; ++i) numbers.push_back(*(start + Dim(i) * step).constant());
    return b.i64s(numbers);
  }
  Value result = b.range(count);
  if (!step.equals(1)) result = b.Mul(result, b.dim_value(step));
  if (!start.equals(0)) result = b.Add(result, b.dim_value(start));
  return result;
}

Value positions_along(Builder& b, const Dim& count, int64_t axis, int64_t rank) {
  Shape shape(rank, 1);
  shape[axis] = count;
  return b.reshape(positions(b, 0, count), shape);
}

namespace {

// Returns 1 for a negative number, else 0.
Dim is_negative(const Dim& number) { return Dim::min(1, Dim::max(0, -number)); }

}  // namespace

Dim clamp_bound(Builder& b, const Dim& bound, const Dim& size) {
  if (bound == size || bound.equals(0) || bound.equals(kToEnd))
    return bound.equals(kToEnd) ? size : bound;
  if (bound.known_non_negative()) return Dim::min(bound, size);
  if ((-1 - bound).known_non_negative()) return Dim::max(0, bound + size);
  b.check(!bound.symbols().empty(), "cannot determine the sign of the slice bound ", bound.str());
  return Dim::min(Dim::max(0, bound), size) +
         is_negative(bound) * Dim::max(0, size + Dim::min(0, bound));
}

Dim from_start(const Dim& index, const Dim& size) {
  if (index.known_non_negative()) return index;
  if ((-1 - index).known_non_negative()) return index + size;
  return index + is_negative(index) * size;
}

Diagonal::Diagonal(const Dim& rows, const Dim& columns, int64_t offset) {
  Dim right = std::max<int64_t>(offset, 0);
  Dim down = std::max<int64_t>(-offset, 0);
  Dim height = rows - down;
  Dim width = columns - right;
  count = height == width ? height : Dim::min(height, width);
  if (!count.known_non_negative()) count = Dim::max(0, count);
  start = down * columns + right;
  step = columns + 1;
}

Value strided_positions(Builder& b, const Shape& size, const Shape& stride, const Dim& offset) {
  int64_t rank = static_cast<int64_t>(size.size());
  Value result = b.dim_value(offset);
  for (int64_t i = 0; i < rank; ++i) {
    if (size[i].equals(1)) continue;
    Shape along(rank, 1);
    along[i] = size[i];
    result = b.Add(result, b.reshape(positions(b, 0, size[i], stride[i]), along));
  }
  return b.expand(
      b.reshape(result, result->rank() == rank ? result->known_shape() : Shape(rank, 1)), size);
}

void check_owns_memory(const Call& call) {
  const aten::Value* self = call.argument(0).as_value();
  const aten::Node* producer = self ? self->producer : nullptr;
  bool view = producer && producer->schema && producer->schema->is_view();
  call.builder().check(
      !view, "cannot read the memory of a view (the result of ", view ? producer->op : "",
      "): the program does not record its strides; apply the operator to the base tensor");
}

}  // namespace onnx_native::ops
