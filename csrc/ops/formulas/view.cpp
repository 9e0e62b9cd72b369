#include "ops/formulas/view.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "onnx/schema.h"

namespace onnx_native::ops {

bool may_be_open(const Dim& size) { return size.is_symbol() && !size.known_non_negative(); }

Shape solve_sizes(Builder& b, Value self, Shape sizes) {
  auto unknown = std::ranges::find_if(sizes, [](const Dim& d) { return d.equals(-1); });
  if (unknown == sizes.end()) return sizes;
  // Sizes that occur on both sides cancel, so the common case needs no simplification.
  Shape total = self->known_shape();
  Dim others = 1;
  for (auto it = sizes.begin(); it != sizes.end(); ++it) {
    if (it == unknown) continue;
    auto same = std::ranges::find(total, *it);
    if (same != total.end() && !it->equals(0))
      total.erase(same);
    else
      others = others * *it;
  }
  b.check(!others.equals(0), "cannot infer the size -1, because another size is 0");
  *unknown = others.equals(1) ? numel(total) : Dim::floor_div(numel(total), others);
  return sizes;
}

Value expand_to(Builder& b, Value self, Shape sizes) {
  const Shape& from = self->known_shape();
  b.check(sizes.size() >= from.size(), "cannot expand ", str(from), " to ", str(sizes));
  size_t added = sizes.size() - from.size();
  for (size_t i = added; i < sizes.size(); ++i) {
    Dim& size = sizes[i];
    if (size.equals(-1)) size = from[i - added];
    if (may_be_open(size)) size = size + Dim::min(1, Dim::max(0, -size)) * (from[i - added] + 1);
  }
  return b.expand(self, sizes);
}

Shape broadcast_shape(const Values& tensors) {
  Shape shape;
  for (Value tensor : tensors) shape = onnx::broadcast(shape, tensor->known_shape());
  return shape;
}

Values broadcast_all(Builder& b, const Values& tensors) {
  Shape shape = broadcast_shape(tensors);
  Values results;
  for (Value tensor : tensors) results.push_back(b.expand(tensor, shape));
  return results;
}

Values promote_all(Builder& b, const Values& tensors) {
  if (tensors.empty()) return {};
  DType dtype = tensors[0]->dtype;
  for (Value tensor : tensors) dtype = promote_types(dtype, tensor->dtype);
  Values results;
  for (Value tensor : tensors) results.push_back(b.cast(tensor, dtype));
  return results;
}

Value at_least(Builder& b, Value self, int64_t rank) {
  const Shape shape = self->known_shape();
  if (static_cast<int64_t>(shape.size()) >= rank) return self;
  if (rank == 1) return b.reshape(self, {1});
  if (rank == 2) return shape.empty() ? b.reshape(self, {1, 1}) : b.unsqueeze(self, {0});
  if (shape.empty()) return b.reshape(self, {1, 1, 1});
  return shape.size() == 1 ? b.unsqueeze(self, {0, 2}) : b.unsqueeze(self, {2});
}

Value at_least_1d(Builder& b, Value self) { return at_least(b, self, 1); }

Ints moving(int64_t rank, const Ints& sources, const Ints& destinations) {
  if (sources.size() != destinations.size())
    fail(ErrorKind::unsupported, "expected as many source as destination dimensions, got ",
         sources.size(), " and ", destinations.size());
  Ints permutation(rank, -1);
  std::vector<bool> placed(rank, false);
  for (size_t i = 0; i < sources.size(); ++i) {
    int64_t source = normalize_axis(sources[i], rank);
    permutation[normalize_axis(destinations[i], rank)] = source;
    placed[source] = true;
  }
  int64_t next = 0;
  for (int64_t& axis : permutation) {
    if (axis >= 0) continue;
    while (placed[next]) ++next;
    axis = next++;
  }
  return permutation;
}

Ints inverse(const Ints& permutation) {
  Ints result(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i) result[permutation[i]] = static_cast<int64_t>(i);
  return result;
}

Value move_axis(Builder& b, Value self, int64_t source, int64_t destination) {
  if (self->rank() == 0) return self;
  return b.transpose(self, moving(self->rank(), {source}, {destination}));
}

Value reverse(Builder& b, Value self, const Ints& axes) {
  if (axes.empty() || self->rank() == 0) return self;
  Ints positive;
  for (int64_t axis : axes) positive.push_back(normalize_axis(axis, self->rank()));
  Ints last(axes.size(), -1);
  Ints end(axes.size(), std::numeric_limits<int64_t>::min());
  Value result = b.op("Slice", {self, b.i64s(last), b.i64s(end), b.i64s(positive), b.i64s(last)});
  b.refine(result, self->known_shape());
  return result;
}

Value repeat(Builder& b, Value self, Shape repeats) {
  for (Dim& count : repeats) {  // eager accepts a negative number for no elements
    if (count.constant_or(0) < 0) count = 0;
  }
  int64_t rank = self->rank();
  int64_t added = static_cast<int64_t>(repeats.size()) - rank;
  b.check(added >= 0, "inconsistent arguments: got ", repeats.size(), " repeats for a ", rank,
          "-D tensor");
  Ints leading(added);
  std::iota(leading.begin(), leading.end(), 0);
  Value result = b.unsqueeze(self, leading);
  if (std::ranges::all_of(repeats, [](const Dim& d) { return d.equals(1); })) return result;
  return b.op("Tile", {result, b.shape_value(repeats)});
}

}  // namespace onnx_native::ops
