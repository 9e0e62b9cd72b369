// Changes of shape: sizes, axes, broadcasting.
#include "ops/formulas/view.h"

#include <algorithm>
#include <numeric>

#include "ops/families.h"
#include "ops/formulas/bits.h"

namespace onnx_native::ops {
namespace {

// Reshapes a tensor of unknown rank.
Value from_any_rank(Builder& b, Value self, Shape sizes) {
  const bool solved = std::ranges::none_of(sizes, [](const Dim& d) { return d.equals(-1); });
  std::vector<onnx::Attribute> attributes;
  if (solved) attributes.push_back({"allowzero", int64_t{1}});
  Value result = b.op("Reshape", {self, b.shape_value(sizes)}, std::move(attributes));
  for (Dim& size : sizes) {
    if (size.equals(-1) || may_be_open(size)) size = Dim::fresh();
  }
  b.refine(result, std::move(sizes));
  b.bind_sizes(result);
  return result;
}

// Reshapes to sizes from data, one of which may be -1 at run time.
Value solved_by_model(Builder& b, Value self, Shape sizes) {
  Value result = b.op("Reshape", {self, b.shape_value(sizes)}, {{"allowzero", int64_t{1}}});
  for (Dim& size : sizes) {
    if (may_be_open(size) || size.equals(-1)) size = Dim::fresh();
  }
  b.refine(result, std::move(sizes));
  b.bind_sizes(result);
  return result;
}

Value as_view(Builder& b, Value self, Shape sizes) {
  if (!self->shape) return from_any_rank(b, self, std::move(sizes));
  if (std::ranges::any_of(sizes, may_be_open)) return solved_by_model(b, self, std::move(sizes));
  sizes = solve_sizes(b, self, std::move(sizes));
  const auto given = numel(*self->shape).constant(), wanted = numel(sizes).constant();
  b.check(!given || !wanted || given == wanted, "the sizes ", str(sizes),
          " do not fit a tensor of ", given.value_or(0), " elements");
  return b.reshape(self, sizes);
}

Value flatten(Builder& b, Value self, int64_t start, int64_t end) {
  return b.flatten(self, start, end);
}

// Replaces dimension `dim` by `sizes`; a -1 is computed from that dimension alone.
Value unflatten(Builder& b, Value self, int64_t dim, const Shape& sizes) {
  const Shape& from = self->known_shape();
  dim = normalize_axis(dim, self->rank());
  b.check(!from.empty(), "cannot unflatten a 0-D tensor");
  Dim known = 1;
  for (const Dim& size : sizes) {
    if (!size.equals(-1)) known = known * size;
  }
  Shape target(from.begin(), from.begin() + dim);
  for (const Dim& size : sizes)
    target.push_back(size.equals(-1) ? Dim::floor_div(from[dim], known) : size);
  target.insert(target.end(), from.begin() + dim + 1, from.end());
  return b.reshape(self, target);
}

// Drops only sizes that are 1 in every run; torch.export guards other sizes to be at least 2.
Value squeeze(Builder& b, Value self, const Ints& dims) {
  Ints axes;
  for (int64_t dim : dims) {
    int64_t axis = normalize_axis(dim, self->rank());
    if (self->rank() > 0 && self->dim(axis).equals(1)) axes.push_back(axis);
  }
  return b.squeeze(self, axes);
}

Value squeeze_all(Builder& b, Value self) {
  Ints dims(self->known_shape().size());
  std::iota(dims.begin(), dims.end(), 0);
  return squeeze(b, self, dims);
}

Value permute(Builder& b, Value self, const Ints& dims) {
  b.check(dims.size() == self->known_shape().size(), "expected each of the ",
          self->known_shape().size(), " dimensions once, got ", dims.size());
  return b.transpose(self, dims);
}

Value swap(Builder& b, Value self, int64_t dim0, int64_t dim1) {
  return self->rank() == 0 ? self : b.swap_axes(self, dim0, dim1);
}

Value matrix_transpose(Builder& b, Value self) {
  return self->known_shape().size() < 2 ? self : b.swap_axes(self, -2, -1);
}

Value reverse_axes(Builder& b, Value self) {
  Ints perm(self->known_shape().size());
  std::iota(perm.rbegin(), perm.rend(), 0);
  return b.transpose(self, perm);
}

Value sum_to_size(Builder& b, Value self, const Shape& size) {
  const Shape from = self->known_shape();
  b.check(size.size() <= from.size(), "cannot sum ", str(from), " to ", str(size));
  size_t leading = from.size() - size.size();
  Ints summed;
  Shape parts;  // the shape of the operand, with an axis that may be summed in two parts
  for (size_t i = 0; i < from.size(); ++i) {
    const Dim to = i < leading ? Dim(1) : size[i - leading];
    const bool may_sum = from[i] != to && (to.equals(1) || !(to - 2).known_non_negative());
    if (i >= leading && !to.equals(1) && may_sum) {
      if (!is_floating(self->dtype))
        b.unsupported("whether ", name(self->dtype), " of size ", from[i].str(), " is summed to ",
                      to.str(), " depends on sizes, and so does the dtype; sum explicitly");
      parts.push_back(to);
      parts.push_back(Dim::floor_div(from[i], to.known_positive() ? to : Dim::max(to, 1)));
    } else {
      parts.push_back(from[i]);
    }
    if (i < leading || may_sum) summed.push_back(static_cast<int64_t>(parts.size()) - 1);
  }
  if (summed.empty() && !size.empty()) return self;
  if (!is_floating(self->dtype)) self = b.cast(self, DType::i64);
  if (parts.size() > from.size()) self = b.reshape(self, parts);
  if (!summed.empty()) self = b.reduce("ReduceSum", self, summed, /*keepdims=*/true);
  return b.reshape(self, size);
}

}  // namespace

void register_view(OpTable& ops) {
  ops.def({"aten::view", "aten::reshape", "aten::_unsafe_view", "aten::view_copy"}, as_view);
  ops.def({"aten::view_as", "aten::reshape_as"}, [](Builder& b, Value self, Value other) {
    return b.reshape(self, other->known_shape());
  });
  ops.def("aten::view.dtype", reinterpreted);
  ops.def("aten::_shape_as_tensor", [](Builder& b, Value self) {
    return self->shape ? b.shape_of(self) : b.op("Shape", {self});
  });
  ops.def("aten::flatten.using_ints", flatten);
  ops.def("aten::ravel", [](Builder& b, Value self) { return b.flatten(self, 0, -1); });
  ops.def("aten::unflatten.int", unflatten);
  ops.def({"aten::squeeze", "aten::squeeze_copy"}, squeeze_all);
  ops.def({"aten::squeeze.dim", "aten::squeeze_copy.dim"},
          [](Builder& b, Value self, int64_t dim) { return squeeze(b, self, {dim}); });
  ops.def({"aten::squeeze.dims", "aten::squeeze_copy.dims"}, squeeze);
  ops.def({"aten::unsqueeze", "aten::unsqueeze_copy"},
          [](Builder& b, Value self, int64_t dim) { return b.unsqueeze(self, {dim}); });

  ops.def({"aten::transpose.int", "aten::transpose_copy.int", "aten::swapaxes", "aten::swapdims"},
          swap);
  ops.def({"aten::t", "aten::t_copy", "aten::mT", "aten::mH", "aten::adjoint", "aten::matrix_H"},
          matrix_transpose);
  ops.def("aten::numpy_T", reverse_axes);
  ops.def({"aten::permute", "aten::permute_copy"}, permute);
  ops.def({"aten::movedim.intlist", "aten::moveaxis.intlist"},
          [](Builder& b, Value self, Ints source, Ints destination) {
            return b.transpose(self, moving(self->rank(), source, destination));
          });
  ops.def({"aten::movedim.int", "aten::moveaxis.int"}, move_axis);

  ops.def({"aten::expand", "aten::expand_copy", "aten::broadcast_to"}, expand_to);
  ops.def("aten::expand_as",
          [](Builder& b, Value self, Value other) { return b.expand(self, other->known_shape()); });
  ops.def("aten::broadcast_tensors", broadcast_all);
  ops.def({"aten::repeat"}, repeat);
  ops.def("aten::tile", [](Builder& b, Value self, Shape dims) {
    size_t rank = self->known_shape().size();
    if (dims.size() < rank) dims.insert(dims.begin(), rank - dims.size(), 1);
    return repeat(b, self, dims);
  });
  ops.def("aten::sum_to_size", sum_to_size);

  for (int64_t rank : {1, 2, 3}) {
    std::string name = "aten::atleast_" + std::to_string(rank) + "d";
    ops.def(name, [rank](Builder& b, Value self) { return at_least(b, self, rank); });
    ops.def(name + ".Sequence", [rank](Builder& b, Values tensors) {
      for (Value& tensor : tensors) tensor = at_least(b, tensor, rank);
      return tensors;
    });
  }

  ops.def({"aten::alias", "aten::alias_copy", "aten::resolve_conj", "aten::resolve_neg"},
          [](Builder&, Value self) { return self; });
  ops.def("aten::contiguous", [](Builder&, Value self) { return self; });
  ops.def("aten::copy", [](Builder& b, Value self, Value src) {
    return b.expand(b.cast(src, self->dtype), self->known_shape());
  });
  ops.def("aten::fill.Scalar", [](Builder& b, Value self, Ignored, const Call& call) {
    return b.expand(call.tensor(1, self->dtype), self->known_shape());
  });
  ops.def("aten::fill.Tensor", [](Builder& b, Value self, Value value) {
    return b.expand(b.cast(b.reshape(value, {}), self->dtype), self->known_shape());
  });
  ops.def("aten::zero",
          [](Builder& b, Value self) { return b.full(self->dtype, 0, self->known_shape()); });
}

}  // namespace onnx_native::ops
