// Differences and integrals along an axis, distances, and shifts of spectra.
#include "ops/families.h"
#include "ops/numeric.h"

namespace onnx_native::ops {
namespace {

// Neighbours along an axis: all but the first element, and all but the last.
struct Neighbours {
  Value next, previous;
};

Neighbours neighbours(Builder& b, Value x, int64_t axis) {
  const Dim& size = x->dim(axis);
  return {b.slice(x, axis, 1, size), b.slice(x, axis, 0, size - 1)};
}

Value difference(Builder& b, Value x, int64_t axis) {
  const auto [next, previous] = neighbours(b, x, axis);
  if (x->dtype == DType::boolean) return b.Xor(next, previous);
  return b.Sub(next, previous);
}

Value diff(Builder& b, Value self, int64_t n, int64_t dim, std::optional<Value> prepend,
           std::optional<Value> append) {
  dim = normalize_axis(dim, self->rank());
  Values parts;
  if (prepend) parts.push_back(*prepend);
  parts.push_back(self);
  if (append) parts.push_back(*append);
  Value x = b.concat(parts, dim);
  for (int64_t i = 0; i < n; ++i) {
    if (x->dim(dim).equals(0)) return x;
    x = difference(b, x, dim);
  }
  return x;
}

// The areas between neighbours: means of y times the steps. `steps` broadcasts along the axis.
Value areas(Builder& b, Value y, Value steps, int64_t axis) {
  const auto [next, previous] = neighbours(b, y, axis);
  return b.Mul(b.Mul(b.Add(next, previous), b.like(y, 0.5)), steps);
}

// The distances of x along the axis, aligned with y's dimensions.
Value steps_of(Builder& b, Value y, Value x, int64_t axis) {
  if (x->rank() == 1 && y->rank() > 1)
    return steps_of(b, y,
                    b.reshape(x,
                              [&] {
                                Shape shape(static_cast<size_t>(y->rank()), 1);
                                shape[static_cast<size_t>(axis)] = x->dim(0);
                                return shape;
                              }()),
                    axis);
  return difference(b, x, axis - y->rank() + x->rank());
}

Value integral(Builder& b, Value pieces, int64_t axis) {
  return b.reduce("ReduceSum", pieces, {axis}, false);
}

Value running_integral(Builder& b, Value pieces, int64_t axis) {
  return b.op("CumSum", {pieces, b.i64(axis)});
}

template <class Integrate>
void register_integral(OpTable& ops, const std::string& name, Integrate integrate) {
  ops.def(name + ".x", Promote::int_to_float,
          [integrate](Builder& b, Value y, Value x, int64_t dim) {
            dim = normalize_axis(dim, y->rank());
            b.check(!y->dim(dim).equals(0), "integral over an empty dimension");
            return integrate(b, areas(b, y, steps_of(b, y, x, dim), dim), dim);
          });
  ops.def(name + ".dx", Promote::int_to_float,
          [integrate](Builder& b, Value y, Scalar dx, int64_t dim) {
            dim = normalize_axis(dim, y->rank());
            b.check(!y->dim(dim).equals(0), "integral over an empty dimension");
            return integrate(b, areas(b, y, b.like(y, dx), dim), dim);
          });
}

// Moves the first `shift` elements of an axis to its end.
Value rotated(Builder& b, Value x, int64_t axis, const Dim& shift) {
  const Dim& size = x->dim(axis);
  return b.concat({b.slice(x, axis, shift, size), b.slice(x, axis, 0, shift)}, axis);
}

template <class Shift>
Value shifted_spectrum(Builder& b, Value self, std::optional<Ints> dim, Shift shift) {
  Ints axes;
  if (dim) {
    axes = *dim;
  } else {
    for (int64_t axis = 0; axis < self->rank(); ++axis) axes.push_back(axis);
  }
  for (int64_t axis : axes) {
    axis = normalize_axis(axis, self->rank());
    self = rotated(b, self, axis, shift(self->dim(axis)));
  }
  return self;
}

}  // namespace

void register_calculus(OpTable& ops) {
  ops.def("aten::diff", diff);
  register_integral(ops, "aten::trapezoid", integral);
  register_integral(ops, "aten::trapz", integral);
  register_integral(ops, "aten::cumulative_trapezoid", running_integral);
  // The zero frequency goes to the middle, and back.
  ops.def("aten::fft_fftshift", [](Builder& b, Value self, std::optional<Ints> dim) {
    return shifted_spectrum(b, self, dim, [](const Dim& n) { return Dim::ceil_div(n, 2); });
  });
  ops.def("aten::fft_ifftshift", [](Builder& b, Value self, std::optional<Ints> dim) {
    return shifted_spectrum(b, self, dim, [](const Dim& n) { return Dim::floor_div(n, 2); });
  });
}

}  // namespace onnx_native::ops
