#include "ops/formulas/index.h"

#include <algorithm>
#include <numeric>

#include "ops/formulas/scatter.h"
#include "ops/formulas/view.h"

namespace onnx_native::ops {

Value nonzero_rows(Builder& b, Value self) {
  self = at_least_1d(b, self);
  switch (self->dtype) {
    case DType::boolean:
    case DType::f32:
    case DType::i32:
    case DType::i64:
    case DType::u8:
      return b.op("NonZero", {self});
    default:
      return b.op("NonZero", {b.cast(self, DType::boolean)});
  }
}

Value nonzero(Builder& b, Value self) {
  bool zero_dim = self->rank() == 0;
  Value rows = b.transpose(nonzero_rows(b, self), {1, 0});
  return zero_dim ? b.slice(rows, 1, 0, 0) : rows;
}

Values nonzero_numpy(Builder& b, Value self) {
  Value rows = nonzero_rows(b, self);
  Values coordinates;
  for (int64_t i = 0; i < std::max<int64_t>(self->rank(), 1); ++i)
    coordinates.push_back(b.select(rows, 0, i));
  return coordinates;
}

namespace {

// Returns the shape to which index tensors broadcast. If the model computes two sizes, either may
// be 1, so the choice happens at run time.
Shape joint_shape(Builder& b, const Shape& x, const Shape& y) {
  Shape result = onnx::broadcast(x, y);
  const size_t shared = std::min(x.size(), y.size());
  for (size_t i = 1; i <= shared; ++i) {
    const Dim& m = x[x.size() - i];
    const Dim& n = y[y.size() - i];
    if (m == n || m.is_constant() || n.is_constant()) continue;
    const Value first = b.dim_value(m);
    result[result.size() - i] = b.dim_of(b.where(b.Equal(first, b.i64(1)), b.dim_value(n), first));
  }
  return result;
}

}  // namespace

IndexPlan::IndexPlan(Builder& b, Value self, const OptionalValues& indices) {
  int64_t rank = self->rank();
  int64_t axis = 0;
  for (const auto& index : indices) {
    if (!index) {
      ++axis;
      continue;
    }
    bool is_mask = (*index)->dtype == DType::boolean || (*index)->dtype == DType::u8;
    if (!is_mask) {
      sources_.push_back({b.cast(*index, DType::i64)});
      index_shape_ = joint_shape(b, index_shape_, (*index)->known_shape());
      axes_.push_back(axis++);
      continue;
    }
    int64_t mask_rank = (*index)->rank();
    b.check(mask_rank > 0, "a mask used as an index must have at least 1 dimension");
    Value rows = nonzero_rows(b, *index);
    index_shape_ = joint_shape(b, index_shape_, {rows->dim(1)});
    for (int64_t row = 0; row < mask_rank; ++row) {
      sources_.push_back({rows, row});
      axes_.push_back(axis++);
    }
  }
  b.check(axis <= rank, "inconsistent arguments: got indices for ", axis, " dimensions of a ", rank,
          "-D tensor");
  b.check(!axes_.empty(), "expected at least one index tensor");
  bool adjacent = axes_.back() - axes_.front() + 1 == static_cast<int64_t>(axes_.size());
  place_ = adjacent ? axes_.front() : 0;
  Ints front(axes_.size());
  std::iota(front.begin(), front.end(), 0);
  to_front_ = moving(rank, axes_, front);

  const Shape& shape = self->known_shape();
  result_shape_ = Shape(shape.begin(), shape.begin() + place_);
  result_shape_.insert(result_shape_.end(), index_shape_.begin(), index_shape_.end());
  for (int64_t i = place_; i < rank; ++i) {
    if (std::ranges::find(axes_, i) == axes_.end()) result_shape_.push_back(shape[i]);
  }
}

Value IndexPlan::coordinate(Builder& b, size_t i) const {
  return sources_[i].row < 0 ? sources_[i].tensor
                             : b.select(sources_[i].tensor, 0, sources_[i].row);
}

Value IndexPlan::coordinates(Builder& b) const {
  Value first = sources_[0].tensor;
  bool one_mask = sources_[0].row == 0 && std::ranges::all_of(sources_, [&](const Source& source) {
                    return source.tensor == first;
                  });
  if (one_mask) return b.transpose(first, {1, 0});
  Values columns;
  for (size_t i = 0; i < sources_.size(); ++i)
    columns.push_back(b.unsqueeze(b.expand(coordinate(b, i), index_shape_), {-1}));
  return b.concat(columns, -1);
}

Ints IndexPlan::result_to_front() const {
  int64_t rank = static_cast<int64_t>(result_shape_.size());
  int64_t count = static_cast<int64_t>(index_shape_.size());
  Ints from(count), front(count);
  std::iota(from.begin(), from.end(), place_);
  std::iota(front.begin(), front.end(), 0);
  return moving(rank, from, front);
}

// Eager ignores the indices if the result is empty.
Value IndexPlan::read(Builder& b, Value self) const {
  if (numel(result_shape_).equals(0)) return b.full(self->dtype, 0, result_shape_);
  if (sources_.size() == 1) return b.gather(self, coordinate(b, 0), axes_[0]);
  Value result = b.op("GatherND", {b.transpose(self, to_front_), coordinates(b)});
  return b.transpose(result, inverse(result_to_front()));
}

Value IndexPlan::write(Builder& b, Value self, Value values, std::string_view reduction) const {
  if (numel(result_shape_).equals(0)) return self;
  Value updates = b.transpose(b.expand(values, result_shape_), result_to_front());
  Value result = scatter_into(b, "ScatterND", b.transpose(self, to_front_), coordinates(b), updates,
                              reduction);
  return b.transpose(result, inverse(to_front_));
}

Value index_tensor(Builder& b, Value self, const OptionalValues& indices) {
  return IndexPlan(b, self, indices).read(b, self);
}

Value masked_select(Builder& b, Value self, Value mask) {
  Values both = broadcast_all(b, {self, b.cast(mask, DType::boolean)});
  Shape flat{numel(both[0]->known_shape())};
  return b.op("Compress", {b.reshape(both[0], flat), b.reshape(both[1], flat)},
              {{"axis", int64_t{0}}});
}

Value gather_elements(Builder& b, Value self, int64_t dim, Value index) {
  if (numel(index->known_shape()).equals(0)) return b.full(self->dtype, 0, index->known_shape());
  bool zero_dim = index->rank() == 0;
  self = at_least_1d(b, self);
  index = at_least_1d(b, b.cast(index, DType::i64));
  Value result =
      b.op("GatherElements", {self, index}, {{"axis", normalize_axis(dim, self->rank())}});
  return zero_dim ? b.reshape(result, {}) : result;
}

}  // namespace onnx_native::ops
