// Eigenvalues and singular values, and functions of them: ranks, pseudoinverses, condition numbers.
// The signs of vectors may differ from LAPACK's.
#include <array>
#include <cmath>
#include <limits>

#include "ops/families.h"
#include "ops/formulas/index.h"
#include "ops/formulas/jacobi.h"
#include "ops/formulas/linalg.h"
#include "ops/formulas/matrix_product.h"
#include "ops/formulas/view.h"

namespace onnx_native::ops {
namespace {

bool reads_upper(const std::string& uplo) { return uplo == "U" || uplo == "u"; }

Eigen eigh(Builder& b, Value a, const std::string& uplo, bool with_vectors) {
  Eigen result = symmetric_eigen(b, symmetric(b, wide(b, a), reads_upper(uplo)), with_vectors);
  result.values = b.cast(result.values, a->dtype);
  result.vectors = with_vectors ? b.cast(result.vectors, a->dtype) : b.full(a->dtype, 0, {0});
  return result;
}

Value svdvals(Builder& b, Value a) { return b.cast(singular_values(b, wide(b, a)), a->dtype); }

std::array<Value, 3> svd_of(Builder& b, Value a, bool full_matrices) {
  const Svd result = svd(b, wide(b, a), full_matrices);
  return {b.cast(result.u, a->dtype), b.cast(result.s, a->dtype), b.cast(result.v, a->dtype)};
}

// Returns U, S, V^T.
std::array<Value, 3> linalg_svd(Builder& b, Value a, bool full_matrices) {
  std::array<Value, 3> result = svd_of(b, a, full_matrices);
  result[2] = transposed(b, result[2]);
  return result;
}

// torch.svd returns V itself; without `compute_uv`, U and V are zeros.
std::array<Value, 3> torch_svd(Builder& b, Value self, bool some, bool compute_uv) {
  if (compute_uv) return svd_of(b, self, !some);
  const auto zeros = [&](const Dim& n) {
    return b.full(self->dtype, 0, with_batch(batch_of(self), {n, n}));
  };
  return {zeros(self->dim(-2)), svdvals(b, self), zeros(self->dim(-1))};
}

// --- Tolerances.

// Singular values up to max(atol, rtol * greatest) count as zero. Without rtol and without a
// positive atol, rtol is the dtype's epsilon times the larger dimension.
struct Tolerance {
  Value atol = nullptr, rtol = nullptr;  // float64; the batch's shape, or 0-d

  // Returns the greatest value that counts as zero; [*, 1].
  Value limit(Builder& b, Value greatest) const {
    const auto column = [&](Value x) { return x->rank() == 0 ? x : b.unsqueeze(x, {-1}); };
    const Value relative = rtol ? b.Mul(column(rtol), greatest) : nullptr;
    if (!relative) return column(atol);
    return atol ? b.Max(column(atol), relative) : relative;
  }
};

double epsilon(DType dtype) {
  return dtype == DType::f64 ? std::numeric_limits<double>::epsilon()
                             : std::numeric_limits<float>::epsilon();
}

Value default_rtol(Builder& b, Value a) {
  const Dim size = Dim::max(a->dim(-2), a->dim(-1));
  const double eps = epsilon(a->dtype);
  if (const auto number = size.constant()) return f64(b, eps * static_cast<double>(*number));
  return b.Mul(b.cast(b.dim_value(size), DType::f64), f64(b, eps));
}

Tolerance tolerance_of(Builder& b, Value a, const std::optional<Number>& atol,
                       const std::optional<Number>& rtol) {
  Tolerance result;
  const bool open = atol && !atol->is_constant();
  if (atol && !is_zero(*atol)) result.atol = b.scalar(DType::f64, *atol);
  if (rtol) {
    result.rtol = b.scalar(DType::f64, *rtol);
  } else if (open) {
    const Value zero = f64(b, 0);
    result.rtol = b.where(b.Greater(result.atol, zero), zero, default_rtol(b, a));
  } else if (!atol || atol->to_double() <= 0) {
    result.rtol = default_rtol(b, a);
  }
  return result;
}

Tolerance tolerance_of(Builder& b, Value a, const std::optional<Value>& atol,
                       const std::optional<Value>& rtol) {
  Tolerance result;
  if (atol) result.atol = wide(b, *atol);
  if (rtol) {
    result.rtol = wide(b, *rtol);
  } else {
    result.rtol = default_rtol(b, a);
    const Value zero = f64(b, 0);
    if (atol) result.rtol = b.where(b.Greater(result.atol, zero), zero, result.rtol);
  }
  return result;
}

bool known_empty(Value a) { return a->dim(-2).equals(0) || a->dim(-1).equals(0); }

// A Hermitian matrix is read from its lower triangle; its singular values are |eigenvalues|.
Value as_given(Builder& b, Value a, bool hermitian) {
  return hermitian ? symmetric(b, wide(b, a), /*upper=*/false) : wide(b, a);
}

Value greatest_of(Builder& b, Value descending) { return b.slice(descending, -1, 0, 1); }

// Returns how many singular values of `a` count as more than zero.
Value rank_by(Builder& b, Value a, Value values, const Tolerance& tolerance) {
  const Value limit = known_empty(a) ? f64(b, 0) : tolerance.limit(b, greatest_of(b, values));
  const Value counted = b.cast(b.Greater(values, limit), DType::i64);
  return b.reduce("ReduceSum", counted, {-1}, /*keepdims=*/false);
}

Value rank_of(Builder& b, Value a, const Tolerance& tolerance, bool hermitian) {
  return rank_by(b, a, singular_values(b, as_given(b, a, hermitian)), tolerance);
}

// Returns V diag(1 / s^2) W^T, where W = U diag(s).
Value pseudoinverse(Builder& b, Value a, const Tolerance& tolerance, bool hermitian) {
  const Dim &m = a->dim(-2), &n = a->dim(-1);
  if (known_empty(a)) return b.full(a->dtype, 0, with_batch(batch_of(a), {n, m}));
  const bool wider = m.is_constant() && n.is_constant() && *m.constant() < *n.constant();
  const Value given = as_given(b, a, hermitian);
  const OrthogonalColumns columns =
      orthogonal_columns(b, wider ? transposed(b, given) : given, /*with_v=*/true);
  const Value values = b.Sqrt(columns.squares);
  const Value kept = b.Greater(values, tolerance.limit(b, greatest_of(b, values)));
  const Value weights = b.where(kept, b.Reciprocal(columns.squares), f64(b, 0));
  const Value weighted = b.Mul(columns.v, b.unsqueeze(weights, {-2}));
  const Value inverse = b.matmul(weighted, transposed(b, columns.w));
  return b.cast(wider ? transposed(b, inverse) : inverse, a->dtype);
}

// --- Condition numbers.

// Sums absolute values along one axis and returns the greatest or smallest sum; [*].
Value norm_by_sums(Builder& b, Value x, int64_t summed, bool greatest) {
  const Value sums = b.reduce("ReduceL1", x, {summed}, /*keepdims=*/true);
  return b.reduce(greatest ? "ReduceMax" : "ReduceMin", sums, {-2, -1}, /*keepdims=*/false);
}

// Returns the norm of A times the norm of its inverse; infinity if A is singular.
template <class Norm>
Value condition_by_inverse(Builder& b, Value a, Norm norm) {
  const Value x = wide(b, a);
  const Solution inverted = inverse(b, x, /*with_info=*/true);
  const Value singular = b.squeeze(b.cast(inverted.info, DType::boolean), {-2, -1});
  const Value infinity = f64(b, std::numeric_limits<double>::infinity());
  return b.cast(b.where(singular, infinity, b.Mul(norm(x), norm(inverted.x))), a->dtype);
}

Value condition(Builder& b, Value a, double p) {
  if (known_empty(a)) return b.full(a->dtype, 0, batch_of(a));
  if (std::abs(p) == 2) {
    const Value values = singular_values(b, wide(b, a));
    const Dim& count = values->dim(-1);
    const Value greatest = b.select(values, -1, 0), smallest = b.select(values, -1, count - 1);
    return b.cast(p > 0 ? b.Div(greatest, smallest) : b.Div(smallest, greatest), a->dtype);
  }
  b.check(std::abs(p) == 1 || std::isinf(p),
          "the order of a condition number must be 1, 2, inf, -1, -2 or -inf, got ", p);
  return condition_by_inverse(
      b, a, [&](Value x) { return norm_by_sums(b, x, std::isinf(p) ? -1 : -2, p > 0); });
}

Value condition(Builder& b, Value a, const std::string& p) {
  if (known_empty(a)) return b.full(a->dtype, 0, batch_of(a));
  if (p == "nuc") {
    const Value values = singular_values(b, wide(b, a));
    const Value of_inverse = b.reduce("ReduceSum", b.Reciprocal(values), {-1}, false);
    return b.cast(b.Mul(b.reduce("ReduceSum", values, {-1}, false), of_inverse), a->dtype);
  }
  b.check(p == "fro", "the order of a condition number must be fro or nuc, got ", p);
  return condition_by_inverse(b, a, [&](Value x) {
    return b.reduce("ReduceL2", x, {-2, -1}, /*keepdims=*/false);
  });
}

// --- Least squares.

constexpr double kLargestCut = 1e-4;

// The solution of least norm. The driver decides what else there is: "gels" takes the rank for
// full, and "gelsd" and "gelss" have the singular values.
Results least_squares(Builder& b, Value self, Value rhs, std::optional<Number> rcond,
                      std::optional<std::string> driver) {
  const std::string by = driver.value_or("gelsy");
  const bool cuts_values = by == "gelsd" || by == "gelss";
  b.check(!rcond || by != "gelsy" || rcond->to_double() <= kLargestCut,
          "an rcond of the driver \"gelsy\", which cuts by pivots, must be at most ", kLargestCut,
          "; use driver=\"gelsd\"");
  const bool vector = is_vector(self, rhs);
  const Value a = wide(b, self);
  const Value target = wide(b, vector ? b.unsqueeze(rhs, {-1}) : rhs);
  const Tolerance tolerance{.rtol = rcond ? b.scalar(DType::f64, *rcond) : default_rtol(b, self)};
  const Value x = matrix_product(b, pseudoinverse(b, a, tolerance, false), target);
  const Value values = singular_values(b, a);
  const Value rank = rank_by(b, self, values, tolerance);

  Value residuals = b.full(self->dtype, 0, {0});
  const Dim &rows = self->dim(-2), &columns = self->dim(-1);
  if (by != "gelsy" && Dim::min(rows, columns) != rows) {
    const Value rest = b.Sub(target, matrix_product(b, a, x));
    residuals = b.cast(b.reduce("ReduceSumSquare", rest, {-2}, /*keepdims=*/false), self->dtype);
    if (cuts_values) {
      b.check(self->rank() == 2, "the residuals of a batch by the driver \"", by,
              "\" exist only if all matrices have full rank; use driver=\"gels\"");
      residuals = masked_select(b, residuals, b.Equal(rank, b.dim_value(columns)));
    }
  }
  return {b.cast(vector ? b.squeeze(x, {-1}) : x, self->dtype), residuals,
          by == "gels" ? b.full(DType::i64, 0, {0}) : rank,
          cuts_values ? b.cast(values, self->dtype) : b.full(self->dtype, 0, {0})};
}

// Defines the overloads of an operator with tolerances: atol and rtol as numbers or tensors, and
// the older single tolerance, which is atol for ranks and rtol for pseudoinverses.
template <class Operation>
void define_with_tolerance(OpTable& ops, const std::string& name, const std::string& old_tensor,
                           bool single_is_atol, Operation operation) {
  using Optional = std::optional<Number>;
  using Tensor = std::optional<Value>;
  ops.def(name, [=](Builder& b, Value self, Number single, bool hermitian) {
    const Optional zero = 0;
    const Tolerance tolerance = single_is_atol ? tolerance_of(b, self, Optional(single), zero)
                                               : tolerance_of(b, self, zero, Optional(single));
    return operation(b, self, tolerance, hermitian);
  });
  ops.def(name + old_tensor, [=](Builder& b, Value input, Value single, bool hermitian) {
    const Tensor given = single, zero = f64(b, 0);
    const Tolerance tolerance =
        single_is_atol ? tolerance_of(b, input, given, zero) : tolerance_of(b, input, zero, given);
    return operation(b, input, tolerance, hermitian);
  });
  ops.def(name + ".atol_rtol_float",
          [=](Builder& b, Value self, Optional atol, Optional rtol, bool hermitian) {
            return operation(b, self, tolerance_of(b, self, atol, rtol), hermitian);
          });
  ops.def(name + ".atol_rtol_tensor",
          [=](Builder& b, Value self, Tensor atol, Tensor rtol, bool hermitian) {
            return operation(b, self, tolerance_of(b, self, atol, rtol), hermitian);
          });
}

}  // namespace

void register_linalg_spectral(OpTable& ops) {
  ops.def("aten::linalg_eigh", [](Builder& b, Value self, std::string uplo) {
    const Eigen result = eigh(b, self, uplo, /*with_vectors=*/true);
    return std::array{result.values, result.vectors};
  });
  ops.def("aten::linalg_eigvalsh", [](Builder& b, Value self, std::string uplo) {
    return eigh(b, self, uplo, /*with_vectors=*/false).values;
  });
  ops.def("aten::_linalg_eigh", [](Builder& b, Value a, std::string uplo, bool compute_v) {
    const Eigen result = eigh(b, a, uplo, compute_v);
    return std::array{result.values, result.vectors};
  });
  ops.def("aten::linalg_svd", [](Builder& b, Value a, bool full_matrices, Ignored) {
    return linalg_svd(b, a, full_matrices);
  });
  ops.def("aten::_linalg_svd",
          [](Builder& b, Value a, bool full_matrices, bool compute_uv, Ignored) {
            if (compute_uv) return linalg_svd(b, a, full_matrices);
            const Value none = b.full(a->dtype, 0, {0});
            return std::array<Value, 3>{none, svdvals(b, a), none};
          });
  ops.def("aten::svd", torch_svd);
  ops.def("aten::linalg_svdvals", [](Builder& b, Value a, Ignored) { return svdvals(b, a); });
  define_with_tolerance(ops, "aten::linalg_matrix_rank", ".tol_tensor", true, rank_of);
  define_with_tolerance(ops, "aten::linalg_pinv", ".rcond_tensor", false, pseudoinverse);
  ops.def("aten::pinverse", [](Builder& b, Value self, Number rcond) {
    return pseudoinverse(b, self, {.rtol = b.scalar(DType::f64, rcond)}, /*hermitian=*/false);
  });
  ops.def("aten::linalg_lstsq", least_squares);
  ops.def("aten::linalg_cond", [](Builder& b, Value self, std::optional<Number> p) {
    return condition(b, self, p ? p->to_double() : 2);
  });
  ops.def("aten::linalg_cond.p_str",
          [](Builder& b, Value self, std::string p) { return condition(b, self, p); });
}

}  // namespace onnx_native::ops
