// Factorizations into triangular and orthogonal matrices, and operators that use the factors.
#include <array>

#include "ops/families.h"
#include "ops/formulas/linalg.h"

namespace onnx_native::ops {
namespace {

// Returns the empty tensor that stands for a result that the caller did not ask for.
Value not_computed(Builder& b, DType dtype) { return b.full(dtype, 0, {0}); }

// --- Cholesky.

// Returns L, or U = L^T if `upper`; `info` only if asked for.
Cholesky cholesky_factor(Builder& b, Value a, bool upper, bool with_info) {
  const Value lower = upper ? transposed(b, a) : a;
  Cholesky result = cholesky(b, wide(b, lower), with_info);
  if (upper) result.l = transposed(b, result.l);
  result.l = b.cast(result.l, a->dtype);
  if (with_info) result.info = b.cast(b.squeeze(result.info, {-2, -1}), DType::i32);
  return result;
}

Value cholesky_solve(Builder& b, Value rhs, Value factor, bool upper) {
  const Value given = wide(b, factor), other = transposed(b, given);
  const Value half = solve_triangular(b, upper ? other : given, wide(b, rhs), /*upper=*/false);
  const Value x = solve_triangular(b, upper ? given : other, half, /*upper=*/true);
  return b.cast(x, rhs->dtype);
}

void register_cholesky(OpTable& ops) {
  ops.def({"aten::linalg_cholesky", "aten::cholesky"}, [](Builder& b, Value self, bool upper) {
    return cholesky_factor(b, self, upper, /*with_info=*/false).l;
  });
  ops.def("aten::linalg_cholesky_ex", [](Builder& b, Value self, bool upper, Ignored) {
    const Cholesky result = cholesky_factor(b, self, upper, /*with_info=*/true);
    return std::array{result.l, result.info};
  });
  ops.def({"aten::cholesky_solve", "aten::_cholesky_solve_helper"}, cholesky_solve);
  ops.def("aten::cholesky_inverse", [](Builder& b, Value self, bool upper) {
    const Value unit = identity(b, self->dim(-1), self->dim(-1), self->dtype);
    return cholesky_solve(b, b.expand(unit, self->known_shape()), self, upper);
  });
}

// --- LU.

Lu factored(Builder& b, Value a, bool pivot) {
  b.check(pivot, "LU factorization without pivoting exists only on CUDA; use pivot=True");
  Lu lu = lu_factor(b, wide(b, a));
  lu.matrix = b.cast(lu.matrix, a->dtype);
  return lu;
}

// Returns P with a one in column i at row permutation[i].
Value permutation_matrix(Builder& b, Value permutation, DType dtype) {
  const Dim& m = permutation->dim(-2);
  return b.cast(b.Equal(row_numbers(b, m), transposed(b, permutation)), dtype);
}

Value unit_lower(Builder& b, Value lu) {
  const Dim m = lu->dim(-2), count = Dim::min(m, lu->dim(-1));
  const Value strict = lower_triangle(b, b.slice(lu, -1, 0, count), -1);
  return b.Add(strict, identity(b, m, count, lu->dtype));
}

Value upper_part(Builder& b, Value lu, const Dim& rows) {
  return upper_triangle(b, b.slice(lu, -2, 0, rows));
}

std::array<Value, 3> unpacked(Builder& b, Value lu, Value permutation) {
  return {permutation_matrix(b, permutation, lu->dtype), unit_lower(b, lu),
          upper_part(b, lu, Dim::min(lu->dim(-2), lu->dim(-1)))};
}

std::array<Value, 3> lu_unpack(Builder& b, Value data, Value pivots, bool unpack_data,
                               bool unpack_pivots) {
  const Value none = not_computed(b, data->dtype);
  const Dim count = Dim::min(data->dim(-2), data->dim(-1));
  Value p = none;
  if (unpack_pivots) {
    const Value permutation = permutation_of(b, pivots, data->dim(-2));
    p = permutation_matrix(b, permutation, data->dtype);
  }
  return {p, unpack_data ? unit_lower(b, data) : none,
          unpack_data ? upper_part(b, data, count) : none};
}

void register_lu(OpTable& ops) {
  ops.def("aten::linalg_lu", [](Builder& b, Value a, bool pivot) {
    const Lu lu = factored(b, a, pivot);
    return unpacked(b, lu.matrix, lu.permutation);
  });
  ops.def("aten::linalg_lu_factor", [](Builder& b, Value a, bool pivot) {
    const Lu lu = factored(b, a, pivot);
    return std::array{lu.matrix, b.cast(lu.pivots, DType::i32)};
  });
  ops.def({"aten::linalg_lu_factor_ex", "aten::_lu_with_info"},
          [](Builder& b, Value a, bool pivot, Ignored) {
            const Lu lu = factored(b, a, pivot);
            const Value diagonal = diagonals(b, lu.matrix);
            const Value info = first_flag(b, b.Equal(diagonal, b.like(diagonal, 0)));
            return std::array{lu.matrix, b.cast(lu.pivots, DType::i32), info};
          });
  ops.def("aten::lu_unpack", lu_unpack);
}

// --- QR.

// Returns the first columns of the product of the reflectors.
Value orthogonal(Builder& b, const Reflectors& q, const Dim& columns) {
  const Dim m = q.matrix->dim(-2);
  const Shape shape = with_batch(batch_of(q.matrix), {m, columns});
  return reflected(b, q, b.expand(identity(b, m, columns), shape), /*transpose=*/false);
}

std::array<Value, 2> qr(Builder& b, Value a, const std::string& mode) {
  const Reflectors factors = qr_factor(b, wide(b, a));
  const Dim m = a->dim(-2), count = Dim::min(m, a->dim(-1));
  const Dim rows = mode == "complete" ? m : count;
  const Value r = b.cast(upper_part(b, factors.matrix, rows), a->dtype);
  if (mode == "r") return {not_computed(b, a->dtype), r};
  return {b.cast(orthogonal(b, factors, rows), a->dtype), r};
}

Value householder_product(Builder& b, Value input, Value tau) {
  const Reflectors q{wide(b, input), wide(b, tau)};
  return b.cast(orthogonal(b, q, input->dim(-1)), input->dtype);
}

Value ormqr(Builder& b, Value self, Value tau, Value other, bool left, bool transpose) {
  const Reflectors q{wide(b, self), wide(b, tau)};
  const Value x = wide(b, other);
  const Value y = left ? reflected(b, q, x, transpose)
                       : transposed(b, reflected(b, q, transposed(b, x), !transpose));
  return b.cast(y, other->dtype);
}

void register_qr(OpTable& ops) {
  ops.def("aten::linalg_qr", qr);
  ops.def("aten::qr", [](Builder& b, Value self, bool some) {
    return qr(b, self, some ? "reduced" : "complete");
  });
  ops.def("aten::geqrf", [](Builder& b, Value self) {
    const Reflectors q = qr_factor(b, wide(b, self));
    return std::array{b.cast(q.matrix, self->dtype), b.cast(q.tau, self->dtype)};
  });
  ops.def({"aten::linalg_householder_product", "aten::orgqr"}, householder_product);
  ops.def("aten::ormqr", ormqr);
}

}  // namespace

void register_linalg_factor(OpTable& ops) {
  register_cholesky(ops);
  register_lu(ops);
  register_qr(ops);
}

}  // namespace onnx_native::ops
