// Norms of vectors and matrices, and operators that scale by norms.
#include <algorithm>
#include <array>
#include <cmath>

#include "ops/families.h"
#include "ops/formulas/axes.h"
#include "ops/formulas/distance.h"
#include "ops/formulas/index.h"
#include "ops/formulas/jacobi.h"
#include "ops/formulas/linalg.h"
#include "ops/formulas/numeric.h"
#include "ops/formulas/rounding.h"
#include "ops/formulas/view.h"

namespace onnx_native::ops {
namespace {

using Axes = std::optional<Ints>;

Value vector_norm(Builder& b, Value self, const Number& order, const Axes& dim, bool keepdim,
                  std::optional<DType> dtype) {
  const Value given = b.cast(self, dtype);
  const Value x = b.cast(given, accumulation_dtype(given->dtype));
  const Ints axes = axes_of(self, dim);
  if (!order.is_constant())
    return b.cast(norm_of_computed_order(b, x, order, axes, keepdim), given->dtype);
  const double ord = order.to_double();
  const auto norm = [&]() -> Value {
    if (axes.empty()) {
      return ord == 0 ? b.cast(not_equal(b, x, b.like(x, 0)), x->dtype) : b.Abs(x);
    }
    if (ord == kInfinity) return extreme_over(b, "ReduceMax", b.Abs(x), axes, keepdim);
    if (ord == -kInfinity) return extreme_over(b, "ReduceMin", b.Abs(x), axes, keepdim);
    if (ord == 0) {
      const Value nonzero = b.cast(not_equal(b, x, b.like(x, 0)), x->dtype);
      return b.reduce("ReduceSum", nonzero, axes, keepdim);
    }
    if (ord == 1) return b.reduce("ReduceL1", x, axes, keepdim);
    if (ord == 2) return b.reduce("ReduceL2", x, axes, keepdim);
    const Value powers = b.Pow(b.Abs(x), b.like(x, ord));
    return b.Pow(b.reduce("ReduceSum", powers, axes, keepdim), b.like(x, 1 / ord));
  };
  return b.cast(norm(), given->dtype);
}

// Returns the greatest or smallest element along an axis; the greatest of no elements is 0.
Value extreme_along(Builder& b, Value x, int64_t axis, bool greatest, bool keepdim) {
  const Ints axes{normalize_axis(axis, x->rank())};
  if (greatest && x->dim(axis).equals(0)) return sum_over(b, x, axes, keepdim);
  return extreme_over(b, greatest ? "ReduceMax" : "ReduceMin", x, axes, keepdim);
}

// `of_values` reduces the last axis of the singular values.
template <class Reduce>
Value spectral_norm(Builder& b, Value x, const Ints& dim, bool keepdim, Reduce of_values) {
  const Value matrix = b.transpose(x, moving(x->rank(), dim, {-2, -1}));
  const Value norm = b.cast(of_values(singular_values(b, wide(b, matrix))), x->dtype);
  return keepdim ? b.unsqueeze(norm, dim) : norm;
}

Ints matrix_axes(Builder& b, Value x, const Ints& dim) {
  b.check(dim.size() == 2, "a matrix norm takes 2 dimensions, got ", dim.size());
  return {normalize_axis(dim[0], x->rank()), normalize_axis(dim[1], x->rank())};
}

Value matrix_norm(Builder& b, Value self, double ord, Ints dim, bool keepdim,
                  std::optional<DType> dtype) {
  dim = matrix_axes(b, self, dim);
  const bool greatest = ord > 0;
  if (std::abs(ord) == 2) {
    return spectral_norm(b, b.cast(self, dtype), dim, keepdim, [&](Value values) {
      return extreme_along(b, values, -1, greatest, /*keepdim=*/false);
    });
  }
  b.check(std::abs(ord) == 1 || std::isinf(ord),
          "the order of a matrix norm must be 1, 2, inf, -1, -2 or -inf, got ", ord);
  if (std::isinf(ord)) std::swap(dim[0], dim[1]);
  const Value sums = vector_norm(b, self, 1, Ints{dim[0]}, /*keepdim=*/true, dtype);
  const Value norm = extreme_along(b, sums, dim[1], greatest, /*keepdim=*/true);
  return keepdim ? norm : b.squeeze(norm, dim);
}

Value matrix_norm(Builder& b, Value self, const std::string& ord, Ints dim, bool keepdim,
                  std::optional<DType> dtype) {
  dim = matrix_axes(b, self, dim);
  if (ord == "fro") return vector_norm(b, self, 2, dim, keepdim, dtype);
  b.check(ord == "nuc", "the order of a matrix norm must be fro or nuc, got ", ord);
  return spectral_norm(b, b.cast(self, dtype), dim, keepdim, [&](Value values) {
    return b.reduce("ReduceSum", values, {-1}, /*keepdims=*/false);
  });
}

// torch.linalg.norm: a matrix norm if `ord` is given for two dimensions, else a vector norm.
Value norm(Builder& b, Value self, std::optional<Number> ord, Axes dim, bool keepdim,
           std::optional<DType> dtype) {
  const bool matrix = ord && (dim ? dim->size() == 2 : self->rank() == 2);
  if (!matrix) return vector_norm(b, self, ord.value_or(2), dim, keepdim, dtype);
  return matrix_norm(b, self, ord->to_double(), dim.value_or(Ints{0, 1}), keepdim, dtype);
}

Number order(const std::optional<Number>& p) { return p.value_or(2); }

// Returns all axes except `dim`; with -1, which here means no axis, all axes.
Ints axes_but(Value x, int64_t dim) {
  Ints axes;
  for (int64_t axis = 0; axis < x->rank(); ++axis) {
    if (axis != dim) axes.push_back(axis);
  }
  return axes;
}

// Returns the norms of the slices along `dim`, which stays.
Value norm_except(Builder& b, Value x, const Number& p, int64_t dim) {
  return vector_norm(b, x, p, axes_but(x, dim), /*keepdim=*/dim != -1, std::nullopt);
}

Value renorm(Builder& b, Value self, Number p, int64_t dim, Number maxnorm) {
  const Value x = b.cast(self, accumulation_dtype(self->dtype));
  const Value norm = norm_except(b, x, p, normalize_axis(dim, x->rank()));
  const Value limit = b.like(x, maxnorm);
  const Value factor = b.Div(limit, b.Add(norm, b.like(x, 1e-7)));
  const Value scale = b.where(b.Greater(norm, limit), factor, b.like(x, 1));
  return b.Mul(self, b.cast(scale, self->dtype));
}

Value weight_norm(Builder& b, Value v, Value g, int64_t dim) {
  return b.Mul(v, b.Div(g, norm_except(b, v, 2, dim)));
}

// Eager returns float32 norms of 16-bit weights; torch's decomposition narrows those of float16.
std::array<Value, 2> weight_norm_interface(Builder& b, Value v, Value g, int64_t dim,
                                           const Call& call) {
  const Value norms = norm_except(b, b.cast(v, accumulation_dtype(v->dtype)), 2, dim);
  const aten::Type& recorded = call.result_type(1);
  const bool narrow = recorded.kind == aten::Type::Kind::tensor && recorded.dtype == DType::f16;
  return {weight_norm(b, v, g, dim), narrow ? b.cast(norms, DType::f16) : norms};
}

void register_vector_norms(OpTable& ops) {
  ops.def("aten::linalg_vector_norm", [](Builder& b, Value self, Number ord, Axes dim, bool keepdim,
                                         std::optional<DType> dtype) {
    return vector_norm(b, self, ord, dim, keepdim, dtype);
  });
  ops.def("aten::norm.Scalar", [](Builder& b, Value self, Number p) {
    return vector_norm(b, self, p, std::nullopt, false, std::nullopt);
  });
  ops.def("aten::norm.ScalarOpt_dim",
          [](Builder& b, Value self, std::optional<Number> p, Ints dim, bool keepdim) {
            return vector_norm(b, self, order(p), dim, keepdim, std::nullopt);
          });
  ops.def("aten::norm.ScalarOpt_dim_dtype",
          [](Builder& b, Value self, std::optional<Number> p, Ints dim, bool keepdim, DType dtype) {
            return vector_norm(b, self, order(p), dim, keepdim, dtype);
          });
  ops.def("aten::norm.ScalarOpt_dtype",
          [](Builder& b, Value self, std::optional<Number> p, DType dtype) {
            return vector_norm(b, self, order(p), std::nullopt, false, dtype);
          });
  ops.def("aten::frobenius_norm.dim", [](Builder& b, Value self, Ints dim, bool keepdim) {
    return vector_norm(b, self, 2, dim, keepdim, std::nullopt);
  });
  ops.def("aten::linalg__powsum", [](Builder& b, Value self, Number ord, Axes dim, bool keepdim,
                                     std::optional<DType> dtype) {
    const Value x = b.cast(self, dtype);
    const Value powers = b.Pow(b.Abs(b.cast(x, accumulation_dtype(x->dtype))),
                               b.scalar(accumulation_dtype(x->dtype), ord));
    return b.cast(sum_over(b, powers, axes_of(x, dim), keepdim), x->dtype);
  });
  ops.def("aten::dist", Promote::standard, [](Builder& b, Value self, Value other, Number p) {
    return vector_norm(b, b.Sub(self, other), p, std::nullopt, false, std::nullopt);
  });
}

void register_matrix_norms(OpTable& ops) {
  ops.def("aten::linalg_norm", norm);
  ops.def("aten::linalg_norm.ord_str", [](Builder& b, Value self, std::string ord, Axes dim,
                                          bool keepdim, std::optional<DType> dtype) {
    return matrix_norm(b, self, ord, dim.value_or(Ints{0, 1}), keepdim, dtype);
  });
  ops.def("aten::linalg_matrix_norm", [](Builder& b, Value self, Number ord, Ints dim, bool keepdim,
                                         std::optional<DType> dtype) {
    return matrix_norm(b, self, ord.to_double(), dim, keepdim, dtype);
  });
  ops.def("aten::linalg_matrix_norm.str_ord", [](Builder& b, Value self, std::string ord, Ints dim,
                                                 bool keepdim, std::optional<DType> dtype) {
    return matrix_norm(b, self, ord, dim, keepdim, dtype);
  });
  ops.def("aten::nuclear_norm", [](Builder& b, Value self, bool keepdim) {
    return matrix_norm(b, self, "nuc", Ints{-2, -1}, keepdim, std::nullopt);
  });
  ops.def("aten::nuclear_norm.dim", [](Builder& b, Value self, Ints dim, bool keepdim) {
    return matrix_norm(b, self, "nuc", dim, keepdim, std::nullopt);
  });
}

}  // namespace

void register_linalg_norm(OpTable& ops) {
  register_vector_norms(ops);
  register_matrix_norms(ops);
  ops.def("aten::renorm", renorm);
  ops.def("aten::norm_except_dim", [](Builder& b, Value v, int64_t pow, int64_t dim) {
    return norm_except(b, v, static_cast<double>(pow), dim);
  });
  ops.def("aten::_weight_norm", rounded_once(weight_norm));
  ops.def("aten::_weight_norm_interface", weight_norm_interface);
}

}  // namespace onnx_native::ops
