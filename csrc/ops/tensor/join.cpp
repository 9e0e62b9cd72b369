// Joins several tensors (concatenation, stacking, grids) and repeats one tensor.
#include <algorithm>

#include "ops/families.h"
#include "ops/formulas/numeric.h"
#include "ops/formulas/view.h"

namespace onnx_native::ops {
namespace {

// A 1-D tensor of no elements may appear among tensors of any rank; it is ignored.
Value cat(Builder& b, Values tensors, int64_t dim) {
  b.check(!tensors.empty(), "cannot concatenate an empty list of tensors");
  tensors = promote_all(b, tensors);
  Values parts;
  std::ranges::copy_if(tensors, std::back_inserter(parts),
                       [&](Value tensor) { return !(tensor->known_shape() == Shape{0}); });
  if (parts.empty()) return tensors[0];
  for (const Value part : parts)
    b.check(part->rank() == parts[0]->rank(), "cannot concatenate tensors of ", parts[0]->rank(),
            " and ", part->rank(), " dimensions");
  return b.concat(parts, dim);
}

Value stack(Builder& b, Values tensors, int64_t dim) {
  b.check(!tensors.empty(), "cannot stack an empty list of tensors");
  tensors = promote_all(b, tensors);
  dim = normalize_axis(dim, tensors[0]->rank() + 1);
  for (Value& tensor : tensors) tensor = b.unsqueeze(tensor, {dim});
  return b.concat(tensors, dim);
}

Value cat_at_least(Builder& b, Values tensors, int64_t rank, int64_t dim) {
  for (Value& tensor : tensors) tensor = at_least(b, tensor, rank);
  return cat(b, tensors, dim);
}

Value hstack(Builder& b, Values tensors) {
  bool flat = !tensors.empty() && tensors[0]->known_shape().size() <= 1;
  return cat_at_least(b, tensors, 1, flat ? 0 : 1);
}

Value column_stack(Builder& b, Values tensors) {
  for (Value& tensor : tensors) {
    if (tensor->known_shape().size() <= 1)
      tensor = b.reshape(tensor, {numel(tensor->known_shape()), 1});
  }
  return cat(b, tensors, 1);
}

Value block_diag(Builder& b, Values tensors) {
  b.check(!tensors.empty(), "block_diag requires at least one tensor");
  tensors = promote_all(b, tensors);
  Dim columns = 0;
  for (Value& tensor : tensors) {
    tensor = at_least(b, tensor, 2);
    columns = columns + tensor->dim(1);
  }
  Dim left = 0;
  for (Value& tensor : tensors) {
    Dim width = tensor->dim(1);
    tensor = b.pad(tensor, {0, left, 0, columns - left - width});
    left = left + width;
  }
  return b.concat(tensors, 0);
}

// Expands each 1-D tensor along its own dimension of the grid.
Values meshgrid(Builder& b, const Values& tensors) {
  Shape shape;
  for (Value tensor : tensors) shape.push_back(numel(tensor->known_shape()));
  Values grids;
  for (size_t i = 0; i < tensors.size(); ++i) {
    Shape along(shape.size(), 1);
    along[i] = shape[i];
    grids.push_back(b.expand(b.reshape(tensors[i], along), shape));
  }
  return grids;
}

Values meshgrid_indexing(Builder& b, Values tensors, const std::string& indexing) {
  b.check(indexing == "ij" || indexing == "xy", "indexing must be ij or xy, got ", indexing);
  bool swap = indexing == "xy" && tensors.size() >= 2;
  if (swap) std::swap(tensors[0], tensors[1]);
  Values grids = meshgrid(b, tensors);
  if (!swap) return grids;
  std::swap(grids[0], grids[1]);
  return grids;
}

Value cartesian_prod(Builder& b, Values tensors) {
  if (tensors.size() == 1) return tensors[0];
  Values grids = meshgrid(b, promote_all(b, tensors));
  for (Value& grid : grids) grid = b.reshape(grid, {numel(grid->known_shape())});
  return stack(b, grids, 1);
}

Value repeat_interleave(Builder& b, Value self, const Dim& repeats, std::optional<int64_t> dim) {
  if (!dim) self = b.reshape(self, {numel(self->known_shape())});
  self = at_least_1d(b, self);
  int64_t axis = normalize_axis(dim.value_or(0), self->rank());
  if (repeats.equals(1)) return self;
  Shape target = self->known_shape();
  Value spread = b.unsqueeze(self, {axis + 1});
  Shape wide = spread->known_shape();
  wide[axis + 1] = repeats;
  target[axis] = target[axis] * repeats;
  return b.reshape(b.expand(spread, wide), target);
}

// Returns, for each of `total` results, the index of the element that it repeats: the number of
// running totals of `repeats` up to its position. Takes linear time: marks the ends, then counts
// marks.
Value interleaved_positions(Builder& b, Value repeats, std::optional<Dim> output_size) {
  repeats = b.cast(repeats, DType::i64);
  Value ends = b.op("CumSum", {repeats, b.i64(0)});
  Dim total = output_size ? *output_size
                          : b.dim_of(b.reduce("ReduceSum", repeats, {}, /*keepdims=*/false),
                                     DimRange::size());
  Value none = b.full(DType::i64, 0, {total + 1});
  Value marks = b.op("ScatterElements", {none, ends, b.full(DType::i64, 1, repeats->known_shape())},
                     {{"axis", int64_t{0}}, {"reduction", std::string("add")}});
  Value passed = b.op("CumSum", {marks, b.i64(0)});
  Value result = b.slice(passed, 0, 0, total);
  b.refine(result, {total});
  return result;
}

Value repeat_interleave_tensor(Builder& b, Value self, Value repeats, std::optional<int64_t> dim,
                               std::optional<Dim> output_size) {
  if (!dim) self = b.reshape(self, {numel(self->known_shape())});
  self = at_least_1d(b, self);
  int64_t axis = normalize_axis(dim.value_or(0), self->rank());
  if (repeats->rank() == 0) repeats = b.reshape(repeats, {1});
  repeats = b.expand(repeats, {self->dim(axis)});  // a dynamic number of repeats may be 1
  return b.gather(self, interleaved_positions(b, repeats, output_size), axis);
}

// Pads the dimension of each tensor to a multiple of num_chunks and joins the chunks of all
// tensors.
Value chunk_cat(Builder& b, Values tensors, int64_t dim, int64_t num_chunks) {
  tensors = promote_all(b, tensors);
  for (Value& tensor : tensors) {
    Shape shape = tensor->known_shape();
    b.check(!shape.empty(), "cannot chunk a 0-D tensor");
    int64_t axis = normalize_axis(dim, tensor->rank());
    Dim size = Dim::ceil_div(shape[axis], num_chunks);
    std::vector<Dim> pads(2 * shape.size(), 0);
    pads[shape.size() + axis] = size * Dim(num_chunks) - shape[axis];
    tensor = b.pad(tensor, pads);
    Shape target(shape.begin(), shape.begin() + axis);
    target.insert(target.end(),
                  {num_chunks, size * numel(Shape(shape.begin() + axis + 1, shape.end()))});
    tensor = b.reshape(tensor, target);
  }
  return b.concat(tensors, -1);
}

// Returns all ascending rows of r positions below n in lexicographic order, concatenated.
std::vector<int64_t> rising_places(Builder& b, int64_t n, int64_t r, bool with_replacement) {
  const int64_t step = with_replacement ? 0 : 1;
  std::vector<int64_t> places;
  std::vector<int64_t> row(static_cast<size_t>(r));
  for (int64_t i = 0; i < r; ++i) row[static_cast<size_t>(i)] = i * step;
  if (n == 0 || row.back() >= n) return places;
  for (int64_t i = r - 1; i >= 0;) {
    places.insert(places.end(), row.begin(), row.end());
    b.constant_size(static_cast<double>(places.size()));
    i = r - 1;
    while (i >= 0 && row[static_cast<size_t>(i)] == n - 1 - (r - 1 - i) * step) --i;
    if (i < 0) break;
    ++row[static_cast<size_t>(i)];
    for (int64_t k = i + 1; k < r; ++k)
      row[static_cast<size_t>(k)] = row[static_cast<size_t>(k - 1)] + step;
  }
  return places;
}

// Returns rows of `r` elements with ascending positions, which are a constant if the size is known.
Value combinations(Builder& b, Value self, int64_t r, bool with_replacement) {
  b.check(self->rank() == 1, "expected a 1-D tensor, got a ", self->rank(), "-D one");
  if (r <= 1) return r == 1 ? b.unsqueeze(self, {1}) : b.full(self->dtype, 0, {0});
  if (const auto n = self->dim(0).constant()) {
    const std::vector<int64_t> places = rising_places(b, *n, r, with_replacement);
    const std::vector<int64_t> shape{static_cast<int64_t>(places.size()) / r, r};
    return b.gather(self, b.tensor(make_tensor(DType::i64, shape, places)), 0);
  }
  const std::string order = with_replacement ? "GreaterOrEqual" : "Greater";
  const Value index = b.range(self->dim(0));
  const auto along = [&](int64_t axis) {
    Shape shape(static_cast<size_t>(r), 1);
    shape[static_cast<size_t>(axis)] = self->dim(0);
    return b.reshape(index, shape);
  };
  Value rising = b.op(order, {along(1), along(0)});
  for (int64_t axis = 2; axis < r; ++axis)
    rising = b.op("And", {rising, b.op(order, {along(axis), along(axis - 1)})});
  const Value places = b.transpose(b.op("NonZero", {rising}), {1, 0});
  return b.gather(self, places, 0);
}

// Stacks sequences of different lengths; pads the shorter ones.
Value pad_sequence(Builder& b, Values sequences, bool batch_first, const Number& padding_value,
                   const std::string& padding_side) {
  b.check(!sequences.empty(), "pad_sequence requires at least one sequence");
  Dim longest = 0;
  for (const Value sequence : sequences) longest = Dim::max(longest, sequence->dim(0));
  for (Value& sequence : sequences) {
    const int64_t rank = sequence->rank();
    std::vector<Dim> amounts(2 * rank, 0);
    amounts[padding_side == "left" ? 0 : rank] = longest - sequence->dim(0);
    Shape shape = sequence->known_shape();
    shape[0] = longest;
    sequence = b.reshape(b.pad(sequence, amounts, b.like(sequence, padding_value)), shape);
  }
  return stack(b, sequences, batch_first ? 0 : 1);
}

// Returns the powers of each element, one row per element.
Value vander(Builder& b, Value x, std::optional<Dim> n, bool increasing) {
  if (!is_floating(x->dtype)) x = b.cast(x, DType::i64);
  const Dim count = n ? *n : x->dim(0);
  const Value powers = increasing ? b.range(count) : b.range(count - 1, -1, -1);
  x = b.unsqueeze(x, {1});
  return is_floating(x->dtype) ? b.Pow(x, b.cast(powers, x->dtype)) : integer_power(b, x, powers);
}

}  // namespace

void register_join(OpTable& ops) {
  ops.def({"aten::cat", "aten::concat", "aten::concatenate"}, cat);
  ops.def("aten::stack", stack);
  ops.def("aten::pad_sequence", pad_sequence);
  ops.def("aten::vander", vander);
  ops.def("aten::hstack", hstack);
  ops.def({"aten::vstack", "aten::row_stack"},
          [](Builder& b, Values tensors) { return cat_at_least(b, tensors, 2, 0); });
  ops.def("aten::dstack",
          [](Builder& b, Values tensors) { return cat_at_least(b, tensors, 3, 2); });
  ops.def("aten::column_stack", column_stack);
  ops.def("aten::_chunk_cat", chunk_cat);
  ops.def("aten::block_diag", block_diag);
  ops.def("aten::cartesian_prod", cartesian_prod);
  ops.def("aten::combinations", combinations);
  ops.def("aten::meshgrid", meshgrid);
  ops.def("aten::meshgrid.indexing", meshgrid_indexing);
  ops.def("aten::repeat_interleave.self_int",
          [](Builder& b, Value self, Dim repeats, std::optional<int64_t> dim, Ignored) {
            return repeat_interleave(b, self, repeats, dim);
          });
  ops.def("aten::repeat_interleave.Tensor", interleaved_positions);
  ops.def("aten::repeat_interleave.self_Tensor", repeat_interleave_tensor);
}

}  // namespace onnx_native::ops
