// Reads by index: NumPy's advanced indexing, gathers, masks and nonzero elements.
#include "ops/formulas/index.h"

#include "ops/families.h"
#include "ops/formulas/view.h"

namespace onnx_native::ops {
namespace {

Value index_select(Builder& b, Value self, int64_t dim, Value index) {
  if (self->rank() == 0) return self;
  return b.gather(self, at_least_1d(b, index), normalize_axis(dim, self->rank()));
}

Value take(Builder& b, Value self, Value index) {
  return b.gather(b.reshape(self, {numel(self->known_shape())}), index, 0);
}

Value take_along_dim(Builder& b, Value self, Value indices, std::optional<int64_t> dim) {
  if (!dim) {
    return gather_elements(b, b.reshape(self, {numel(self->known_shape())}), 0,
                           b.reshape(indices, {numel(indices->known_shape())}));
  }
  int64_t axis = normalize_axis(*dim, self->rank());
  Shape self_shape = self->known_shape();
  Shape index_shape = indices->known_shape();
  Dim self_size = std::exchange(self_shape[axis], 1);
  Dim index_size = std::exchange(index_shape[axis], 1);
  self_shape = index_shape = onnx::broadcast(self_shape, index_shape);
  self_shape[axis] = self_size;
  index_shape[axis] = index_size;
  return gather_elements(b, b.expand(self, self_shape), axis, b.expand(indices, index_shape));
}

// Returns exactly `size` rows of indices: truncated, or padded with `fill_value`.
Value nonzero_static(Builder& b, Value self, const Dim& size, const Dim& fill_value) {
  Value rows = nonzero(b, self);
  Shape shape{size, rows->dim(1)};
  Value fill = b.expand(b.dim_value(fill_value), shape);
  Value result = b.slice(b.concat({rows, fill}, 0), 0, 0, size);
  b.refine(result, shape);
  return result;
}

// Elements outside the mask read as `fill`, whatever their index.
Value masked_index(Builder& b, Value self, Value mask, const OptionalValues& indices,
                   const Number& fill) {
  OptionalValues inside;
  for (const auto& index : indices) {
    inside.push_back(index ? std::optional(b.where(mask, *index, b.like(*index, 0)))
                           : std::nullopt);
  }
  Value read = index_tensor(b, self, inside);
  while (mask->rank() < read->rank()) mask = b.unsqueeze(mask, {-1});
  return b.where(mask, read, b.like(self, fill));
}

}  // namespace

void register_index(OpTable& ops) {
  ops.def({"aten::index.Tensor", "aten::_unsafe_index.Tensor"}, index_tensor);
  ops.def("aten::_unsafe_masked_index", masked_index);
  ops.def("aten::index_select", index_select);
  ops.def("aten::gather", [](Builder& b, Value self, int64_t dim, Value index, Ignored) {
    return gather_elements(b, self, dim, index);
  });
  ops.def("aten::take", take);
  ops.def("aten::take_along_dim", take_along_dim);
  ops.def("aten::masked_select", masked_select);
  ops.def({"aten::nonzero", "aten::argwhere"}, nonzero);
  ops.def({"aten::nonzero_numpy", "aten::where"}, nonzero_numpy);
  ops.def("aten::nonzero_static", nonzero_static);
}

}  // namespace onnx_native::ops
