// Differences, gradients and integrals along an axis, and shifts of spectra.
#include <array>

#include "ops/families.h"
#include "ops/formulas/axes.h"
#include "ops/formulas/numeric.h"
#include "ops/formulas/view.h"

namespace onnx_native::ops {
namespace {

// Returns the axes in the listed order; all axes if there is no list.
Ints in_order(Value x, const std::optional<Ints>& dim) {
  Ints axes;
  if (dim) {
    for (const int64_t axis : *dim) axes.push_back(normalize_axis(axis, x->rank()));
  } else {
    for (int64_t axis = 0; axis < x->rank(); ++axis) axes.push_back(axis);
  }
  return axes;
}

// Neighbors along an axis: all elements but the first, and all but the last.
struct Neighbors {
  Value next, previous;
};

Neighbors neighbors(Builder& b, Value x, int64_t axis) {
  const Dim& size = x->dim(axis);
  return {b.slice(x, axis, 1, size), b.slice(x, axis, 0, size - 1)};
}

Value difference(Builder& b, Value x, int64_t axis) {
  const auto [next, previous] = neighbors(b, x, axis);
  if (x->dtype == DType::boolean) return b.Xor(next, previous);
  return b.Sub(next, previous);
}

Value diff(Builder& b, Value self, int64_t n, int64_t dim, std::optional<Value> prepend,
           std::optional<Value> append) {
  if (n == 0) return self;  // without what would be put before and after it
  dim = normalize_axis(dim, self->rank());
  Values parts;
  if (prepend) parts.push_back(*prepend);
  parts.push_back(self);
  if (append) parts.push_back(*append);
  DType dtype = self->dtype;
  for (const Value part : parts) dtype = promote_types(dtype, part->dtype);
  for (Value& part : parts) part = b.cast(part, dtype);
  Value x = b.concat(parts, dim);
  for (int64_t i = 0; i < n; ++i) {
    if (x->dim(dim).equals(0)) return x;
    x = difference(b, x, dim);
  }
  return x;
}

// Returns the differences of the points `x` along an axis of `y`: a list of points lies along that
// axis, other points have leading dimensions of size 1.
Value steps_of(Builder& b, Value y, Value x, int64_t axis) {
  const auto rank = static_cast<size_t>(y->rank());
  Shape shape = x->known_shape();
  if (shape.size() == 1) {
    shape.assign(rank, 1);
    shape[static_cast<size_t>(axis)] = x->dim(0);
  } else if (shape.size() < rank) {
    shape.insert(shape.begin(), rank - shape.size(), 1);
  }
  return difference(b, b.reshape(x, shape), axis);
}

// Sums of integers wrap in the dtype of `y`.
Value sums_of_neighbors(Builder& b, Value y, int64_t axis) {
  const auto [next, previous] = neighbors(b, y, axis);
  return b.Add(next, previous);
}

// Returns x * factor, a float. 16-bit floats are rounded once.
Value times(Builder& b, Value x, const Number& factor) {
  const DType dtype = float_dtype(x->dtype);
  const Value wide = b.cast(x, accumulation_dtype(dtype));
  return b.cast(scaled(b, wide, factor), dtype);
}

Value sum_along(Builder& b, Value x, int64_t axis) {
  return sum_over(b, for_sum(b, x, std::nullopt), {axis}, false);
}

Value running_sum_along(Builder& b, Value x, int64_t axis) {
  return b.op("CumSum", {for_sum(b, x, std::nullopt), b.i64(axis)});
}

void check_numbers(Builder& b, std::initializer_list<Value> tensors) {
  for (const Value tensor : tensors) {
    b.check(tensor->dtype != DType::boolean, "integrals of bools are not supported by PyTorch");
  }
}

// Returns the products of the steps and of the sums of neighbors, in their common dtype.
Value doubled_areas(Builder& b, Value y, Value x, int64_t axis) {
  check_numbers(b, {y, x});
  const Values factors = promote_all(b, {sums_of_neighbors(b, y, axis), steps_of(b, y, x, axis)});
  return b.Mul(factors[0], factors[1]);
}

// The integral over an empty axis is 0 in the dtype of `y`.
Value empty_integral(Builder& b, Value y, int64_t axis) {
  Shape shape = y->known_shape();
  shape.erase(shape.begin() + axis);
  return b.full(y->dtype, 0, shape);
}

Value integral_over_points(Builder& b, Value y, Value x, int64_t dim) {
  dim = normalize_axis(dim, y->rank());
  if (y->dim(dim).equals(0)) return empty_integral(b, y, dim);
  return times(b, sum_along(b, doubled_areas(b, y, x, dim), dim), 0.5);
}

// Like ATen: (sum - (first + last) / 2) * dx. The sums of one element remove the axis, and are 0 if
// a dynamic axis is empty.
Value uniform_integral(Builder& b, Value y, const Number& dx, int64_t dim) {
  dim = normalize_axis(dim, y->rank());
  if (y->dim(dim).equals(0)) return empty_integral(b, y, dim);
  check_numbers(b, {y});
  const Dim& size = y->dim(dim);
  const Value ends = b.Add(b.slice(y, dim, 0, 1), b.slice(y, dim, size - 1, size));
  const Value half = times(b, b.reduce("ReduceSum", ends, {dim}, false), 0.5);
  return times(b, b.Sub(b.cast(sum_along(b, y, dim), half->dtype), half), dx);
}

Value running_integral_over_points(Builder& b, Value y, Value x, int64_t dim) {
  dim = normalize_axis(dim, y->rank());
  return times(b, running_sum_along(b, doubled_areas(b, y, x, dim), dim), 0.5);
}

Value uniform_running_integral(Builder& b, Value y, const Number& dx, int64_t dim) {
  check_numbers(b, {y});
  dim = normalize_axis(dim, y->rank());
  return running_sum_along(b, times(b, sums_of_neighbors(b, y, dim), dx / 2.0), dim);
}

void register_integrals(OpTable& ops) {
  ops.def({"aten::trapezoid.x", "aten::trapz.x"}, integral_over_points);
  ops.def({"aten::trapezoid.dx", "aten::trapz.dx"}, uniform_integral);
  ops.def("aten::cumulative_trapezoid.x", running_integral_over_points);
  ops.def("aten::cumulative_trapezoid.dx", uniform_running_integral);
}

// Moves the first `shift` elements of an axis to its end.
Value rotated(Builder& b, Value x, int64_t axis, const Dim& shift) {
  const Dim& size = x->dim(axis);
  return b.concat({b.slice(x, axis, shift, size), b.slice(x, axis, 0, shift)}, axis);
}

template <class Shift>
Value shifted_spectrum(Builder& b, Value self, std::optional<Ints> dim, Shift shift) {
  for (const int64_t axis : in_order(self, dim)) {
    self = rotated(b, self, axis, shift(self->dim(axis)));
  }
  return self;
}

// Returns elements [start, end) along an axis; a negative position and end 0 count from the end.
Value elements(Builder& b, Value x, int64_t axis, int64_t start, int64_t end) {
  const Dim& size = x->dim(axis);
  const auto place = [&](int64_t i) { return i < 0 ? size + i : Dim(i); };
  return b.slice(x, axis, place(start), end == 0 ? size : place(end));
}

// A neighbor and its factor in a sum.
struct Term {
  Value factor, x;
};

Value sum_of_terms(Builder& b, std::initializer_list<Term> terms) {
  Value sum = nullptr;
  for (const auto& [factor, x] : terms) {
    const Value product = b.Mul(factor, x);
    sum = sum ? b.Add(sum, product) : product;
  }
  return sum;
}

// torch.gradient along one axis with uniform spacing: central differences inside, one-sided
// differences of order 1 or 2 at the ends.
Value uniform_gradient(Builder& b, Value x, int64_t axis, const Number& spacing,
                       int64_t edge_order) {
  const Value step = b.like(x, spacing);
  const auto at = [&](int64_t start, int64_t end) { return elements(b, x, axis, start, end); };
  const auto number = [&](double value) { return b.like(x, value); };
  const Value inside = b.Div(b.Sub(at(2, 0), at(0, -2)), b.Mul(step, number(2)));
  Value first = nullptr;
  Value last = nullptr;
  if (edge_order == 1) {
    first = b.Sub(at(1, 2), at(0, 1));
    last = b.Sub(at(-1, 0), at(-2, -1));
  } else {
    first = sum_of_terms(
        b, {{number(-1.5), at(0, 1)}, {number(2), at(1, 2)}, {number(-0.5), at(2, 3)}});
    last = sum_of_terms(
        b, {{number(1.5), at(-1, 0)}, {number(-2), at(-2, -1)}, {number(0.5), at(-3, -2)}});
  }
  return b.concat({b.Div(first, step), inside, b.Div(last, step)}, axis);
}

// Returns the derivative of the parabola through three points at distances `left` and `right`, at
// the first, second or third point.
Value parabola_slope(Builder& b, Value left, Value right, const std::array<Value, 3>& y,
                     int point) {
  const Value both = b.Add(left, right);
  const Value outer_left = b.Mul(left, both);
  const Value outer_right = b.Mul(right, both);
  const Value product = b.Mul(left, right);
  const auto twice = [&](Value v) { return b.Add(v, v); };
  std::array<Value, 3> factors;
  if (point == 0) {
    factors = {b.Neg(b.Div(b.Add(twice(left), right), outer_left)), b.Div(both, product),
               b.Neg(b.Div(left, outer_right))};
  } else if (point == 1) {
    factors = {b.Neg(b.Div(right, outer_left)), b.Div(b.Sub(right, left), product),
               b.Div(left, outer_right)};
  } else {
    factors = {b.Div(right, outer_left), b.Neg(b.Div(both, product)),
               b.Div(b.Add(twice(right), left), outer_right)};
  }
  return sum_of_terms(b, {{factors[0], y[0]}, {factors[1], y[1]}, {factors[2], y[2]}});
}

Value gradient_at_points(Builder& b, Value x, int64_t axis, Value points, int64_t edge_order) {
  const Values both = promote_all(b, {x, points});
  const DType dtype = float_dtype(both[0]->dtype);
  x = b.cast(both[0], dtype);
  const Value steps = steps_of(b, x, b.cast(both[1], dtype), axis);
  const auto at = [&](int64_t start, int64_t end) { return elements(b, x, axis, start, end); };
  const auto step = [&](int64_t start, int64_t end) {
    return elements(b, steps, axis, start, end);
  };
  const Value inside =
      parabola_slope(b, step(0, -1), step(1, 0), {at(0, -2), at(1, -1), at(2, 0)}, 1);
  Value first = nullptr;
  Value last = nullptr;
  if (edge_order == 1) {
    first = b.Div(b.Sub(at(1, 2), at(0, 1)), step(0, 1));
    last = b.Div(b.Sub(at(-1, 0), at(-2, -1)), step(-1, 0));
  } else {
    first = parabola_slope(b, step(0, 1), step(1, 2), {at(0, 1), at(1, 2), at(2, 3)}, 0);
    last = parabola_slope(b, step(-2, -1), step(-1, 0), {at(-3, -2), at(-2, -1), at(-1, 0)}, 2);
  }
  return b.concat({first, inside, last}, axis);
}

// Calls `along` with each of the dims (or all dimensions) and its position in the list.
template <class Along>
Values gradients(Value self, const std::optional<Ints>& dim, Along along) {
  const Ints axes = in_order(self, dim);
  Values results;
  for (size_t i = 0; i < axes.size(); ++i) results.push_back(along(axes[i], i));
  return results;
}

std::optional<Ints> as_list(std::optional<int64_t> dim) {
  return dim ? std::optional(Ints{*dim}) : std::nullopt;
}

Values gradient_of_scalars(Builder& b, Value self, const std::vector<Number>& spacing,
                           std::optional<Ints> dim, int64_t edge_order) {
  return gradients(self, dim, [&](int64_t axis, size_t i) {
    return uniform_gradient(b, self, axis, spacing.size() == 1 ? spacing[0] : spacing.at(i),
                            edge_order);
  });
}

Values gradient_of_points(Builder& b, Value self, const Values& spacing, std::optional<Ints> dim,
                          int64_t edge_order) {
  return gradients(self, dim, [&](int64_t axis, size_t i) {
    return gradient_at_points(b, self, axis, spacing.at(i), edge_order);
  });
}

void register_gradient(OpTable& ops) {
  const auto to_float = Promote::int_to_float;
  using Scalars = std::vector<Number>;
  ops.def("aten::gradient.scalarint", [](Builder& b, Value self, std::optional<Number> spacing,
                                         std::optional<int64_t> dim, int64_t edge_order) {
    self = b.cast(self, float_dtype(self->dtype));
    return gradient_of_scalars(b, self, {spacing.value_or(1)}, as_list(dim), edge_order);
  });
  ops.def("aten::gradient.scalararray",
          [](Builder& b, Value self, Number spacing, Ints dim, int64_t edge_order) {
            self = b.cast(self, float_dtype(self->dtype));
            return gradient_of_scalars(b, self, {spacing}, dim, edge_order);
          });
  ops.def("aten::gradient.array", to_float,
          [](Builder& b, Value self, Ints dim, int64_t edge_order) {
            return gradient_of_scalars(b, self, {1}, dim, edge_order);
          });
  ops.def(
      "aten::gradient.scalarrayint", to_float,
      [](Builder& b, Value self, Scalars spacing, std::optional<int64_t> dim, int64_t edge_order) {
        return gradient_of_scalars(b, self, spacing, as_list(dim), edge_order);
      });
  ops.def("aten::gradient.scalarrayarray", to_float,
          [](Builder& b, Value self, Scalars spacing, Ints dim, int64_t edge_order) {
            return gradient_of_scalars(b, self, spacing, dim, edge_order);
          });
  ops.def("aten::gradient.tensorarrayint", [](Builder& b, Value self, Values spacing,
                                              std::optional<int64_t> dim, int64_t edge_order) {
    return gradient_of_points(b, self, spacing, as_list(dim), edge_order);
  });
  ops.def("aten::gradient.tensorarray",
          [](Builder& b, Value self, Values spacing, Ints dim, int64_t edge_order) {
            return gradient_of_points(b, self, spacing, dim, edge_order);
          });
}

}  // namespace

void register_calculus(OpTable& ops) {
  ops.def("aten::diff", diff);
  register_gradient(ops);
  register_integrals(ops);
  // fftshift moves the zero frequency to the middle; ifftshift moves it back.
  ops.def("aten::fft_fftshift", [](Builder& b, Value self, std::optional<Ints> dim) {
    return shifted_spectrum(b, self, dim, [](const Dim& n) { return Dim::ceil_div(n, 2); });
  });
  ops.def("aten::fft_ifftshift", [](Builder& b, Value self, std::optional<Ints> dim) {
    return shifted_spectrum(b, self, dim, [](const Dim& n) { return Dim::floor_div(n, 2); });
  });
}

}  // namespace onnx_native::ops
