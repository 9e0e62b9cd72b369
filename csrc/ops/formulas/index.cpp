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

// Returns true if the index is 0, 1 ... for an axis of this size.
bool counts_all(const onnx::Value* index, const Dim& size) {
  const onnx::Node* node = index->producer;
  while (node && (node->is("Reshape") || node->is("Unsqueeze"))) {
    node = node->inputs[0]->producer;
  }
  if (!node || !node->is("Range")) return false;
  return node->inputs[0]->known_integers() == Ints{0} &&
         node->inputs[2]->known_integers() == Ints{1} && numel(index->known_shape()) == size;
}

}  // namespace

bool is_mask(Value index) { return index->dtype == DType::boolean || index->dtype == DType::u8; }

IndexPlan::IndexPlan(Builder& b, Value self, const OptionalValues& indices) {
  int64_t rank = self->rank();
  int64_t axis = 0;
  for (const auto& index : indices) {
    if (!index) {
      ++axis;
      continue;
    }
    if (!is_mask(*index)) {
      sources_.push_back({b.cast(*index, DType::i64)});
      index_shape_ = joint_shape(b, index_shape_, (*index)->known_shape());
      axes_.push_back(axis++);
      continue;
    }
    int64_t mask_rank = (*index)->rank();
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

// Returns, for each index, the only dimension of the joint shape along which it varies (-1: none);
// nullopt if an index varies along several or two along the same one. Then the result consists of
// whole rows and columns, like that of numpy.ix_. All sizes must be positive: eager ignores an
// index out of range if another one is empty.
std::optional<Ints> IndexPlan::mesh() const {
  const bool never_empty =
      std::ranges::all_of(index_shape_, [](const Dim& size) { return size.known_positive(); });
  if (!never_empty) return std::nullopt;
  Ints mesh;
  for (const Source& source : sources_) {
    if (source.row >= 0) return std::nullopt;
    const Shape& shape = source.tensor->known_shape();
    int64_t varying = -1;
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i].equals(1)) continue;
      if (varying >= 0) return std::nullopt;
      varying = static_cast<int64_t>(index_shape_.size() - shape.size() + i);
    }
    if (varying >= 0 && std::ranges::find(mesh, varying) != mesh.end()) return std::nullopt;
    mesh.push_back(varying);
  }
  return mesh;
}

// Selects along one axis after the other, and puts the axes in order.
Value IndexPlan::read_mesh(Builder& b, Value self, const Ints& mesh) const {
  for (size_t i = 0; i < mesh.size(); ++i) {
    Value index = sources_[i].tensor;
    index = b.reshape(index, {numel(index->known_shape())});
    if (!counts_all(index, self->dim(axes_[i]))) self = b.gather(self, index, axes_[i]);
  }
  Ints order, added, single;
  for (int64_t dim = 0; dim < index_rank(); ++dim) {
    const auto found = std::ranges::find(mesh, dim);
    if (found == mesh.end()) {
      added.push_back(place_ + dim);
    } else {
      order.push_back(axes_[static_cast<size_t>(found - mesh.begin())]);
    }
  }
  for (size_t i = 0; i < mesh.size(); ++i) {
    if (mesh[i] >= 0) continue;
    single.push_back(place_ + static_cast<int64_t>(order.size()));
    order.push_back(axes_[i]);
  }
  Ints places(order.size());
  std::iota(places.begin(), places.end(), place_);
  self = b.transpose(self, moving(self->rank(), order, places));
  return b.unsqueeze(b.squeeze(self, single), added);
}

// Eager ignores the indices if the result is empty.
Value IndexPlan::read(Builder& b, Value self) const {
  if (numel(result_shape_).equals(0)) return b.full(self->dtype, 0, result_shape_);
  if (sources_.size() == 1) return b.gather(self, coordinate(b, 0), axes_[0]);
  if (const auto found = mesh()) return read_mesh(b, self, *found);
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

Ints spread_scalar_masks(Builder& b, Value& self, OptionalValues& indices) {
  Ints added;
  int64_t axis = 0;
  for (auto& index : indices) {
    const bool mask = index && is_mask(*index);
    if (mask && (*index)->rank() == 0) {
      added.push_back(axis);
      index = b.unsqueeze(*index, {0});
    }
    axis += mask ? (*index)->rank() : 1;
  }
  self = b.unsqueeze(self, added);
  return added;
}

Value index_tensor(Builder& b, Value self, OptionalValues indices) {
  spread_scalar_masks(b, self, indices);
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
