// Parts of a tensor (slices, splits, diagonals, windows) and reordered elements.
#include <algorithm>

#include "ops/families.h"
#include "ops/formulas/axes.h"
#include "ops/formulas/positions.h"
#include "ops/formulas/view.h"

namespace onnx_native::ops {
namespace {

Value select(Builder& b, Value self, int64_t dim, const Dim& index) {
  dim = normalize_axis(dim, self->rank());
  if (index.constant_or(0) < 0) {
    Dim from_end = index + self->dim(dim);
    if (from_end.is_constant()) return b.select(self, dim, from_end);
  }
  // Gather counts negative indices from the end, like ATen.
  return b.select(self, dim, index);
}

Value slice(Builder& b, Value self, int64_t dim, std::optional<Dim> start, std::optional<Dim> end,
            const Dim& step) {
  const Dim from = start.value_or(0), to = end.value_or(kToEnd);
  if (step.is_constant()) return b.slice(self, dim, from, to, *step.constant());
  const int64_t axis = normalize_axis(dim, self->rank());
  return b.op("Slice", {self, b.shape_value({from}), b.shape_value({to}), b.i64s({axis}),
                        b.shape_value({step})});
}

Value narrow(Builder& b, Value self, int64_t dim, Dim start, const Dim& length) {
  dim = normalize_axis(dim, self->rank());
  start = from_start(start, self->dim(dim));
  Shape shape = self->known_shape();
  shape[dim] = length;
  Value result = b.slice(self, dim, start, start + length);
  if (result != self) b.refine(result, std::move(shape));
  return result;
}

Value diagonal(Builder& b, Value self, int64_t offset, int64_t dim1, int64_t dim2) {
  int64_t rank = self->rank();
  dim1 = normalize_axis(dim1, rank);
  dim2 = normalize_axis(dim2, rank);
  b.check(dim1 != dim2, "a diagonal requires two different dimensions");
  Diagonal line(self->dim(dim1), self->dim(dim2), offset);
  Value moved = b.transpose(self, moving(rank, {dim1, dim2}, {-2, -1}));
  return b.gather(b.flatten(moved, -2, -1), positions(b, line.start, line.count, line.step),
                  rank - 2);
}

Value diag_embed(Builder& b, Value self, int64_t offset, int64_t dim1, int64_t dim2) {
  int64_t rank = self->rank() + 1;
  int64_t right = std::max<int64_t>(offset, 0);
  int64_t down = std::max<int64_t>(-offset, 0);
  Dim size = self->dim(-1) + (right + down);
  // Row i holds element i - down, at column i + offset.
  std::vector<Dim> pads(2 * (rank - 1), 0);
  pads[rank - 2] = down;
  pads[2 * rank - 3] = right;
  Value rows = b.unsqueeze(b.pad(self, pads), {-1});
  Value on_diagonal =
      b.Equal(b.reshape(positions(b, offset, size), {size, 1}), positions(b, 0, size));
  Value matrix = b.where(on_diagonal, rows, b.like(self, 0));
  return b.transpose(matrix, inverse(moving(rank, {dim1, dim2}, {-2, -1})));
}

Value diag(Builder& b, Value self, int64_t offset) {
  size_t rank = self->known_shape().size();
  b.check(rank == 1 || rank == 2, "expected a 1-D or 2-D tensor, got a ", rank, "-D one");
  return rank == 1 ? diag_embed(b, self, offset, 0, 1) : diagonal(b, self, offset, 0, 1);
}

Value trace(Builder& b, Value self) {
  Value line = diagonal(b, self, 0, 0, 1);
  return b.reduce("ReduceSum", is_floating(self->dtype) ? line : b.cast(line, DType::i64), {},
                  /*keepdims=*/false);
}

// --- Splits. The captured program fixes the number of parts.

void check_pieces(const Builder& b, int64_t count) {
  constexpr int64_t kMost = 1 << 16;
  b.check(count <= kMost, "the result has ", count, " pieces; the limit is ", kMost);
}

Values unbind(Builder& b, Value self, int64_t dim) {
  dim = normalize_axis(dim, self->rank());
  auto count = self->dim(dim).constant();
  b.check(count.has_value(), "cannot unbind a dimension whose size is not constant");
  check_pieces(b, *count);
  Values parts;
  for (int64_t i = 0; i < *count; ++i) parts.push_back(b.select(self, dim, i));
  return parts;
}

// Splits into parts of one size; the last part takes the rest.
Values split_evenly(Builder& b, Value self, const Dim& size, int64_t dim, size_t count) {
  self->known_shape();
  std::vector<Dim> sizes(count, size);
  sizes.back() = self->dim(normalize_axis(dim, self->rank())) - size * Dim(int64_t(count) - 1);
  return b.split(self, dim, sizes);
}

// Returns the number of outputs that the program has; if it has none, the number that the size
// gives.
size_t count_pieces(const Call& call, const Dim& size, const Dim& piece) {
  if (!call.node().outputs.empty()) return call.node().outputs.size();
  const std::optional<int64_t> count = Dim::ceil_div(size, piece).constant();
  call.builder().check(count && *count > 0, "cannot split size ", size.str(), " into pieces of ",
                       piece.str(), ": the number of pieces must be constant");
  check_pieces(call.builder(), *count);
  return static_cast<size_t>(*count);
}

Values split(Builder& b, Value self, Dim split_size, int64_t dim, const Call& call) {
  const Dim& size = self->known_shape().at(normalize_axis(dim, self->rank()));
  return split_evenly(b, self, split_size, dim, count_pieces(call, size, split_size));
}

Values chunk(Builder& b, Value self, int64_t chunks, int64_t dim, const Call& call) {
  const Dim& size = self->known_shape().at(normalize_axis(dim, self->rank()));
  const Dim piece = Dim::ceil_div(size, chunks);
  return split_evenly(b, self, piece, dim, count_pieces(call, size, piece));
}

Values split_with_sizes(Builder& b, Value self, Shape split_sizes, int64_t dim) {
  return b.split(self, dim, split_sizes);
}

Values split_sections(Builder& b, Value self, int64_t sections, int64_t dim) {
  const Dim& size = self->known_shape().at(normalize_axis(dim, self->rank()));
  check_pieces(b, sections);
  std::vector<Dim> sizes;
  for (int64_t i = 0; i < sections; ++i)
    sizes.push_back(Dim::floor_div(size + (sections - 1 - i), sections));
  return b.split(self, dim, sizes);
}

Values split_at(Builder& b, Value self, const Shape& indices, int64_t dim) {
  Values parts;
  Dim start = 0;
  for (const Dim& index : indices) {
    parts.push_back(b.slice(self, dim, start, index));
    start = index;
  }
  parts.push_back(b.slice(self, dim, start, kToEnd));
  return parts;
}

Values split_by_tensor(Builder& b, Value self, Value where, int64_t dim, const Call& call) {
  if (where->rank() == 0)
    return split_sections(b, self, static_cast<int64_t>(call.node().outputs.size()), dim);
  Shape indices;
  for (size_t i = 0; i + 1 < call.node().outputs.size(); ++i)
    indices.push_back(b.dim_of(b.select(where, 0, static_cast<int64_t>(i))));
  return split_at(b, self, indices, dim);
}

int64_t horizontal_axis(Value self) { return self->rank() == 1 ? 0 : 1; }

// --- Reordered elements.

Value roll(Builder& b, Value self, const Shape& shifts, const Ints& dims) {
  const Shape shape = self->known_shape();
  if (dims.empty()) {
    Value flat = b.reshape(self, {numel(shape)});
    return b.reshape(roll(b, flat, shifts, {0}), shape);
  }
  b.check(shifts.size() == dims.size(), "expected a shift for each dimension, got ", shifts.size(),
          " shifts for ", dims.size(), " dimensions");
  for (size_t i = 0; i < dims.size(); ++i) {
    if (shape.empty()) break;
    int64_t dim = normalize_axis(dims[i], self->rank());
    auto size = shape[dim].constant();
    auto shift = shifts[i].constant();
    if (size && shift) {
      if (*size == 0) continue;
      const int64_t moved = *shift % *size;
      if (moved == 0) continue;
      const int64_t start = moved > 0 ? *size - moved : -moved;
      self = b.concat({b.slice(self, dim, start, kToEnd), b.slice(self, dim, 0, start)}, dim);
    } else if (!shifts[i].equals(0)) {
      Value from = positions(b, -shifts[i], shape[dim]);
      const bool has_elements = shape[dim].known_positive();
      const Dim divisor = has_elements ? shape[dim] : Dim::max(1, shape[dim]);
      self = b.gather(self, b.op("Mod", {from, b.dim_value(divisor)}), dim);
    }
  }
  return self;
}

Value rot90(Builder& b, Value self, int64_t k, const Ints& dims) {
  b.check(dims.size() == 2, "rot90 takes 2 dimensions, got ", dims.size());
  switch (((k % 4) + 4) % 4) {
    case 1:
      return b.swap_axes(reverse(b, self, {dims[1]}), dims[0], dims[1]);
    case 2:
      return reverse(b, self, dims);
    case 3:
      return b.swap_axes(reverse(b, self, {dims[0]}), dims[0], dims[1]);
    default:
      return self;
  }
}

Value unfold(Builder& b, Value self, int64_t dimension, const Dim& size, const Dim& step) {
  if (self->rank() == 0) return b.slice(b.reshape(self, {1}), 0, 0, size);
  dimension = normalize_axis(dimension, self->rank());
  Dim count = Dim::floor_div(self->dim(dimension) - size, step) + 1;
  Value windows = b.Add(b.reshape(positions(b, 0, count, step), {count, 1}), positions(b, 0, size));
  Value result = b.gather(self, windows, dimension);
  return move_axis(b, result, dimension + 1, -1);
}

// The functional graph passes the storage itself, not a view.
Value as_strided(Builder& b, Value self, Shape size, Shape stride, std::optional<Dim> offset) {
  const Dim start = offset.value_or(0);
  check_strides(b, self, size, stride, start);
  Shape packed(size.size(), 1);
  for (size_t i = size.size(); i-- > 1;) packed[i - 1] = packed[i] * size[i];
  bool contiguous = true;
  for (size_t i = 0; i < size.size(); ++i)
    contiguous &= size[i].equals(1) || packed[i] == stride[i];
  Value flat = b.reshape(self, {numel(self->known_shape())});
  if (!contiguous) return b.gather(flat, strided_positions(b, size, stride, start), 0);
  if (!start.equals(0) || !(flat->dim(0) == numel(size)))
    flat = narrow(b, flat, 0, start, numel(size));
  return b.reshape(flat, size);
}

Value pixel_shuffle(Builder& b, Value self, const Dim& factor) {
  const Shape shape = self->known_shape();
  size_t rank = shape.size();
  if (rank == 4 && is_floating(self->dtype) && factor.is_constant()) {
    return b.op("DepthToSpace", {self},
                {{"blocksize", *factor.constant()}, {"mode", std::string("CRD")}});
  }
  Shape batch = part_of(shape, 0, -3);
  Dim channels = Dim::floor_div(shape[rank - 3], factor * factor);
  const Dim& height = shape[rank - 2];
  const Dim& width = shape[rank - 1];
  Value blocks = b.reshape(self, {numel(batch) * channels, factor, factor, height, width});
  Shape target = batch;
  target.insert(target.end(), {channels, height * factor, width * factor});
  return b.reshape(b.transpose(blocks, {0, 3, 1, 4, 2}), target);
}

Value pixel_unshuffle(Builder& b, Value self, const Dim& factor) {
  const Shape& shape = self->known_shape();
  size_t rank = shape.size();
  Shape batch = part_of(shape, 0, -3);
  const Dim& channels = shape[rank - 3];
  Dim height = Dim::floor_div(shape[rank - 2], factor);
  Dim width = Dim::floor_div(shape[rank - 1], factor);
  Value blocks = b.reshape(self, {numel(batch) * channels, height, factor, width, factor});
  Shape target = batch;
  target.insert(target.end(), {channels * (factor * factor), height, width});
  return b.reshape(b.transpose(blocks, {0, 2, 4, 1, 3}), target);
}

Value channel_shuffle(Builder& b, Value self, const Dim& groups) {
  const Shape& shape = self->known_shape();
  b.check(shape.size() >= 2, "expected at least 2 dimensions, got ", shape.size());
  Value grouped = b.reshape(
      self, {shape[0], groups, Dim::floor_div(shape[1], groups), numel(part_of(shape, 2))});
  return b.reshape(b.swap_axes(grouped, 1, 2), shape);
}

}  // namespace

void register_slice(OpTable& ops) {
  ops.def({"aten::select.int", "aten::select_copy.int"}, select);
  ops.def({"aten::slice.Tensor", "aten::slice_copy.Tensor"}, slice);
  ops.def({"aten::narrow", "aten::narrow_copy"}, narrow);
  ops.def({"aten::diagonal", "aten::diagonal_copy", "aten::linalg_diagonal"}, diagonal);
  ops.def("aten::diag_embed", diag_embed);
  ops.def("aten::diag", diag);
  ops.def("aten::diagflat", [](Builder& b, Value self, int64_t offset) {
    return diag_embed(b, b.reshape(self, {numel(self->known_shape())}), offset, 0, 1);
  });
  ops.def("aten::trace", trace);

  ops.def({"aten::unbind.int", "aten::unbind_copy.int"}, unbind);
  ops.def({"aten::split.Tensor", "aten::split_copy.Tensor", "aten::unsafe_split.Tensor"}, split);
  ops.def({"aten::chunk", "aten::unsafe_chunk"}, chunk);
  ops.def({"aten::split_with_sizes", "aten::split_with_sizes_copy", "aten::split.sizes",
           "aten::unsafe_split_with_sizes"},
          split_with_sizes);
  ops.def("aten::tensor_split.sections", split_sections);
  ops.def("aten::tensor_split.indices", split_at);
  ops.def("aten::tensor_split.tensor_indices_or_sections", split_by_tensor);
  ops.def("aten::hsplit.int", [](Builder& b, Value self, int64_t sections) {
    return split_sections(b, self, sections, horizontal_axis(self));
  });
  ops.def("aten::hsplit.array", [](Builder& b, Value self, Shape indices) {
    return split_at(b, self, indices, horizontal_axis(self));
  });
  for (int64_t axis : {0, 2}) {
    std::string name = axis == 0 ? "aten::vsplit" : "aten::dsplit";
    ops.def(name + ".int", [axis](Builder& b, Value self, int64_t sections) {
      return split_sections(b, self, sections, axis);
    });
    ops.def(name + ".array", [axis](Builder& b, Value self, Shape indices) {
      return split_at(b, self, indices, axis);
    });
  }

  ops.def("aten::flip", reverse);
  ops.def("aten::fliplr", [](Builder& b, Value self) { return reverse(b, self, {1}); });
  ops.def("aten::flipud", [](Builder& b, Value self) { return reverse(b, self, {0}); });
  ops.def("aten::roll", roll);
  ops.def("aten::rot90", rot90);
  ops.def({"aten::unfold", "aten::unfold_copy"}, unfold);
  ops.def("aten::as_strided", as_strided);
  ops.def("aten::as_strided_copy", [](Builder& b, Value self, Shape size, Shape stride,
                                      std::optional<Dim> offset, const Call& call) {
    check_owns_memory(call);
    return as_strided(b, self, std::move(size), std::move(stride), std::move(offset));
  });
  ops.def("aten::pixel_shuffle", pixel_shuffle);
  ops.def("aten::pixel_unshuffle", pixel_unshuffle);
  ops.def({"aten::channel_shuffle", "aten::native_channel_shuffle"}, channel_shuffle);
}

}  // namespace onnx_native::ops
