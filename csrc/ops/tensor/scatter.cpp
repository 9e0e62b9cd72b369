// Writes by index: puts, scatters and their reductions, and replaced parts of a tensor.
#include "ops/formulas/scatter.h"

#include <algorithm>

#include "base/weight.h"
#include "ops/families.h"
#include "ops/formulas/index.h"
#include "ops/formulas/numeric.h"
#include "ops/formulas/positions.h"
#include "ops/formulas/view.h"

namespace onnx_native::ops {
namespace {

// Writes `src` into whole slices of `self` along `axis`, at the positions in the 1-d `index`.
Value scatter_slices(Builder& b, Value self, int64_t axis, Value index, Value src,
                     std::string_view reduction = "none") {
  Shape shape = self->known_shape();
  self = at_least_1d(b, self);
  axis = normalize_axis(axis, self->rank());
  index = at_least_1d(b, b.cast(index, DType::i64));
  src = at_least_1d(b, b.cast(src, self->dtype));
  if (axis == 0) {
    Value rows = b.unsqueeze(index, {1});
    return b.reshape(scatter_into(b, "ScatterND", self, rows, src, reduction), shape);
  }
  Shape along(self->rank(), 1);
  along[axis] = index->dim(0);
  Value everywhere = b.expand(b.reshape(index, along), src->known_shape());
  return b.reshape(scatter(b, self, axis, everywhere, src, reduction), shape);
}

Value index_reduce(Builder& b, Value self, int64_t dim, Value index, Value source,
                   const std::string& reduce, bool include_self) {
  Shape along(std::max<int64_t>(self->known_shape().size(), 1), 1);
  along[normalize_axis(dim, self->rank())] = numel(index->known_shape());
  Value everywhere =
      b.expand(b.reshape(b.cast(index, DType::i64), along), *at_least_1d(b, source)->shape);
  return scatter_reduce(b, self, dim, everywhere, source, reduce, include_self);
}

Value index_add(Builder& b, Value self, int64_t dim, Value index, Value source, Value alpha) {
  const bool one = has_elements(alpha->constant) && alpha->constant->number(0) == 1;
  if (self->dtype == DType::boolean) {
    const Value added = b.cast(one ? source : b.And(source, alpha), DType::i32);
    return b.cast(scatter_slices(b, b.cast(self, DType::i32), dim, index, added, "add"),
                  DType::boolean);
  }
  return scatter_slices(b, self, dim, index, one ? source : b.Mul(source, alpha), "add");
}

Value index_fill(Builder& b, Value self, int64_t dim, Value index, Value value) {
  Shape shape = *at_least_1d(b, self)->shape;
  if (numel(shape).equals(0)) return self;  // eager reads no index
  shape[normalize_axis(dim, self->rank())] = numel(index->known_shape());
  return scatter_slices(b, self, dim, index,
                        b.expand(b.cast(b.reshape(value, {}), self->dtype), shape));
}

// --- index_put.

// Handles a mask as the only index, with values that do not vary over the selected elements: no
// coordinates are needed. Returns nullptr in other cases.
Value put_where_mask(Builder& b, Value self, const OptionalValues& indices, Value values,
                     bool accumulate) {
  Value mask = nullptr;
  int64_t before = 0;
  for (const auto& index : indices) {
    if (index && mask) return nullptr;
    if (index) mask = *index;
    if (!mask) ++before;
  }
  if (!mask || !is_mask(mask)) return nullptr;
  int64_t mask_rank = mask->rank();
  int64_t after = self->rank() - before - mask_rank;
  int64_t value_rank = values->rank();
  if (value_rank > after) {
    int64_t selected = value_rank - after - 1;
    if (!values->dim(selected).equals(1)) return nullptr;
    Shape shape = values->known_shape();
    shape.insert(shape.begin() + selected, mask_rank - 1, 1);
    values = b.reshape(values, shape);
  }
  Shape mask_shape = mask->known_shape();
  mask_shape.insert(mask_shape.end(), after, 1);
  mask = b.reshape(b.cast(mask, DType::boolean), mask_shape);
  return b.where(mask, accumulate ? b.Add(self, values) : values, self);
}

Value index_put(Builder& b, Value self, OptionalValues indices, Value values, bool accumulate) {
  values = b.cast(values, self->dtype);
  const Ints added = spread_scalar_masks(b, self, indices);
  const Value result = on_numbers(b, self, [&](Value data) {
    Value updates = b.cast(values, data->dtype);
    if (Value result = put_where_mask(b, data, indices, updates, accumulate)) return result;
    return IndexPlan(b, data, indices).write(b, data, updates, accumulate ? "add" : "none");
  });
  return b.squeeze(result, added);
}

Value masked_index_put(Builder& b, Value self, Value mask, OptionalValues indices, Value values) {
  for (auto& index : indices) {
    if (index) index = b.where(mask, *index, b.like(*index, 0));
  }
  IndexPlan plan(b, self, indices);
  Value inside = mask;
  for (int64_t i = plan.place() + plan.index_rank();
       i < static_cast<int64_t>(plan.result_shape().size()); ++i)
    inside = b.unsqueeze(inside, {-1});
  return plan.write(b, self, b.where(inside, values, b.like(values, 0)), "add");
}

Value put(Builder& b, Value self, Value index, Value source, bool accumulate) {
  Shape shape = self->known_shape();
  Shape count{numel(index->known_shape())};
  return on_numbers(b, self, [&](Value data) {
    Value flat = b.reshape(data, {numel(shape)});
    return b.reshape(scatter_slices(b, flat, 0, b.reshape(index, count), b.reshape(source, count),
                                    accumulate ? "add" : "none"),
                     shape);
  });
}

Value masked_scatter(Builder& b, Value self, Value mask, Value source) {
  Values both = broadcast_all(b, {self, b.cast(mask, DType::boolean)});
  Value places = nonzero(b, at_least_1d(b, both[1]));
  Value flat = b.reshape(source, {numel(source->known_shape())});
  Value updates = b.slice(flat, 0, 0, places->dim(0));
  return b.reshape(b.op("ScatterND", {at_least_1d(b, both[0]), places, updates}),
                   both[0]->known_shape());
}

// --- Replaced parts.

Value select_scatter(Builder& b, Value self, Value src, int64_t dim, Dim index) {
  dim = normalize_axis(dim, self->rank());
  index = from_start(index, self->dim(dim));
  Value chosen = b.Equal(positions_along(b, self->dim(dim), dim, self->rank()), b.dim_value(index));
  return b.where(chosen, b.unsqueeze(b.cast(src, self->dtype), {dim}), self);
}

Value slice_scatter(Builder& b, Value self, Value src, int64_t dim, std::optional<Dim> from,
                    std::optional<Dim> to, int64_t step) {
  dim = normalize_axis(dim, self->rank());
  const Dim size = self->dim(dim);
  Dim start = clamp_bound(b, from.value_or(0), size);
  Dim end = clamp_bound(b, to.value_or(kToEnd), size);
  src = b.cast(src, self->dtype);
  if (step == 1 && start.equals(0) && end == size) return b.expand(src, self->known_shape());
  Dim count = src->known_shape().at(dim);
  if (count.equals(0)) return self;
  // The number of x[:3] is recorded as 3, and that of x[-2:3] may be recorded as 5 - n, even if x
  // may have fewer rows at run time.
  if (!count.is_symbol()) count = Dim::max(0, Dim::ceil_div(end - start, step));
  if (step == 1 && size.is_constant() && start.is_constant() && count.is_constant()) {
    return b.concat({b.slice(self, dim, 0, start), src, b.slice(self, dim, start + count, kToEnd)},
                    dim);
  }
  return scatter_slices(b, self, dim, positions(b, start, count, step), src);
}

Value diagonal_scatter(Builder& b, Value self, Value src, int64_t offset, int64_t dim1,
                       int64_t dim2) {
  int64_t rank = self->rank();
  dim1 = normalize_axis(dim1, rank);
  dim2 = normalize_axis(dim2, rank);
  Diagonal line(self->dim(dim1), self->dim(dim2), offset);
  Ints to_end = moving(rank, {dim1, dim2}, {-2, -1});
  Value moved = b.transpose(self, to_end);
  Shape shape = moved->known_shape();
  Value written = scatter_slices(b, b.flatten(moved, -2, -1), -1,
                                 positions(b, line.start, line.count, line.step), src);
  return b.transpose(b.reshape(written, shape), inverse(to_end));
}

// Fills the diagonal of a matrix, or of a tensor with equal dimensions. `wrap` restarts the
// diagonal of a tall matrix one row below its end.
Value fill_diagonal(Builder& b, Value self, Ignored, bool wrap, const Call& call) {
  const int64_t rank = self->rank();
  Value row = positions_along(b, self->dim(0), 0, rank);
  if (wrap && rank == 2) {
    row = b.op("Mod", {row, b.dim_value(self->dim(1) + 1)});
  }
  Value diagonal = nullptr;
  for (int64_t axis = 1; axis < rank; ++axis) {
    const Value equal = b.Equal(row, positions_along(b, self->dim(axis), axis, rank));
    diagonal = diagonal ? b.And(diagonal, equal) : equal;
  }
  return b.where(diagonal, argument_as(call, 1, self->dtype), self);
}

Value as_strided_scatter(Builder& b, Value self, Value src, Shape size, Shape stride,
                         std::optional<Dim> offset, const Call& call) {
  check_owns_memory(call);
  check_strides(b, self, size, stride, offset.value_or(0));
  Shape count{numel(size)};
  Value places = strided_positions(b, size, stride, offset.value_or(0));
  Value flat = b.reshape(self, {numel(self->known_shape())});
  return b.reshape(scatter_slices(b, flat, 0, b.reshape(places, count), b.reshape(src, count)),
                   self->known_shape());
}

}  // namespace

void register_scatter(OpTable& ops) {
  ops.def({"aten::index_put", "aten::_unsafe_index_put"}, index_put);
  ops.def("aten::_unsafe_masked_index_put_accumulate", masked_index_put);
  ops.def("aten::index_copy", [](Builder& b, Value self, int64_t dim, Value index, Value source) {
    return scatter_slices(b, self, dim, index, source);
  });
  ops.def("aten::index_add", [](Builder& b, Value self, int64_t dim, Value index, Value source,
                                Ignored, const Call& call) {
    return index_add(b, self, dim, index, source, call.tensor(4, self->dtype));
  });
  ops.def("aten::index_fill.int_Tensor", index_fill);
  ops.def("aten::index_fill.int_Scalar",
          [](Builder& b, Value self, int64_t dim, Value index, Ignored, const Call& call) {
            return index_fill(b, self, dim, index, call.tensor(3, self->dtype));
          });
  ops.def("aten::index_reduce", index_reduce);

  ops.def("aten::scatter.src", [](Builder& b, Value self, int64_t dim, Value index, Value src) {
    return scatter(b, self, dim, index, src);
  });
  ops.def("aten::scatter.value",
          [](Builder& b, Value self, int64_t dim, Value index, Ignored, const Call& call) {
            Value value = call.tensor(3, self->dtype);
            return scatter(b, self, dim, index, b.expand(value, index->known_shape()));
          });
  ops.def("aten::scatter.reduce",
          [](Builder& b, Value self, int64_t dim, Value index, Value src, std::string reduce) {
            return scatter_reduce(b, self, dim, index, src, reduce, /*include_self=*/true);
          });
  ops.def("aten::scatter.value_reduce", [](Builder& b, Value self, int64_t dim, Value index,
                                           Ignored, std::string reduce, const Call& call) {
    Value value = b.expand(call.tensor(3, self->dtype), index->known_shape());
    return scatter_reduce(b, self, dim, index, value, reduce, /*include_self=*/true);
  });
  ops.def("aten::scatter_add", [](Builder& b, Value self, int64_t dim, Value index, Value src) {
    return scatter_reduce(b, self, dim, index, src, "sum", /*include_self=*/true);
  });
  ops.def("aten::scatter_reduce.two", scatter_reduce);

  ops.def("aten::put", put);
  ops.def("aten::masked_scatter", masked_scatter);
  ops.def("aten::select_scatter", select_scatter);
  ops.def("aten::slice_scatter", slice_scatter);
  ops.def("aten::diagonal_scatter", diagonal_scatter);
  ops.def("onnx_native::fill_diagonal", fill_diagonal);
  ops.def("aten::as_strided_scatter", as_strided_scatter);
}

}  // namespace onnx_native::ops
