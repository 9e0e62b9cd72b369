// Determinants, inverses and solutions of linear systems.
#include <array>
#include <limits>

#include "ops/families.h"
#include "ops/formulas/axes.h"
#include "ops/formulas/linalg.h"
#include "ops/formulas/view.h"

namespace onnx_native::ops {
namespace {

Value int32_info(Builder& b, Value info) { return b.cast(b.squeeze(info, {-2, -1}), DType::i32); }

// --- Determinants.

Value determinant(Builder& b, Value a) {
  if (a->dim(-1).equals(0)) return b.full(a->dtype, 1, batch_of(a));
  // ONNX Runtime implements Det only for float32.
  if (a->dtype == DType::f32) return b.op("Det", {a});
  const Lu lu = lu_factor(b, wide(b, a));
  const Value product = b.reduce("ReduceProd", diagonals(b, lu.matrix), {-1}, /*keepdims=*/false);
  return b.cast(b.Mul(product, parity(b, lu.pivots)), a->dtype);
}

struct LogDeterminant {
  Value sign, log_of_size;
};

LogDeterminant log_determinant(Builder& b, Value a) {
  const Lu lu = lu_factor(b, wide(b, a));
  const Value diagonal = diagonals(b, lu.matrix);
  const Value sign = b.reduce("ReduceProd", b.Sign(diagonal), {-1}, /*keepdims=*/false);
  const Value log = b.reduce("ReduceSum", b.Log(b.Abs(diagonal)), {-1}, /*keepdims=*/false);
  return {b.cast(b.Mul(sign, parity(b, lu.pivots)), a->dtype), b.cast(log, a->dtype)};
}

Value logdet(Builder& b, Value self) {
  const LogDeterminant result = log_determinant(b, self);
  const Value negative = b.Less(result.sign, b.like(result.sign, 0));
  const Value nan = b.like(self, std::numeric_limits<double>::quiet_NaN());
  return b.where(negative, nan, result.log_of_size);
}

// --- Solutions.

// Solves A X = B, or X A = B if not `left`.
Solution solve_linear(Builder& b, Value a, Value rhs, bool left, bool with_info) {
  const DType dtype = a->dtype;
  const bool vector = is_vector(a, rhs);
  b.check(left || !vector, "left=False requires `B` to be a matrix, got a vector");
  Value x = wide(b, vector ? b.unsqueeze(rhs, {-1}) : rhs);
  Value matrix = wide(b, a);
  if (!left) {
    x = transposed(b, x);
    matrix = transposed(b, matrix);
  }
  const Values both = with_common_batch(b, {matrix, x});
  Solution result = solve(b, both[0], both[1], with_info);
  result.x = b.cast(left ? result.x : transposed(b, result.x), dtype);
  if (vector) result.x = b.squeeze(result.x, {-1});
  if (with_info) {
    // `info` has A's batch, which may be smaller than the result's.
    Value info = result.info;
    const Shape batch = batch_of(a), common = batch_of(info);
    const size_t more = common.size() - batch.size();
    for (size_t i = 0; i < common.size(); ++i) {
      const bool spread = i < more || (batch[i - more].equals(1) && !common[i].equals(1));
      if (spread) info = b.slice(info, static_cast<int64_t>(i), 0, 1);
    }
    Ints leading;
    for (size_t i = 0; i < more; ++i) leading.push_back(static_cast<int64_t>(i));
    result.info = int32_info(b, b.squeeze(info, leading));
  }
  return result;
}

Value linalg_solve(Builder& b, Value a, Value rhs, bool left) {
  return solve_linear(b, a, rhs, left, /*with_info=*/false).x;
}

Value linalg_inv(Builder& b, Value a) {
  return b.cast(inverse(b, wide(b, a), /*with_info=*/false).x, a->dtype);
}

std::array<Value, 2> linalg_inv_ex(Builder& b, Value a, Ignored) {
  const Solution result = inverse(b, wide(b, a), /*with_info=*/true);
  return {b.cast(result.x, a->dtype), int32_info(b, result.info)};
}

Value linalg_solve_triangular(Builder& b, Value self, Value rhs, bool upper, bool left,
                              bool unitriangular) {
  Value a = wide(b, self), x = wide(b, rhs);
  if (left) return b.cast(solve_triangular(b, a, x, upper, unitriangular), self->dtype);
  x = solve_triangular(b, transposed(b, a), transposed(b, x), !upper, unitriangular);
  return b.cast(transposed(b, x), self->dtype);
}

// Returns the solution, and A broadcast to the common batch.
std::array<Value, 2> triangular_solve(Builder& b, Value self, Value a, bool upper, bool transpose,
                                      bool unitriangular) {
  const Values both = with_common_batch(b, {self, a});
  const Value matrix = wide(b, transpose ? transposed(b, both[1]) : both[1]);
  const Value x = solve_triangular(b, matrix, wide(b, both[0]), upper != transpose, unitriangular);
  return {b.cast(x, self->dtype), b.Identity(both[1])};
}

// Solves (P L U) X = B, or X (P L U) = B if not `left`; with `adjoint`, for the transpose of P L U.
Value solve_factored(Builder& b, Value lu, Value pivots, Value rhs, bool left, bool adjoint) {
  const Value matrix = wide(b, lu);
  Value x = wide(b, left ? rhs : transposed(b, rhs));
  const Dim& n = lu->dim(-1);
  const Value permutation = permutation_of(b, pivots, n);
  const Shape batch = onnx::broadcast(batch_of(lu), batch_of(x));
  x = b.expand(x, with_batch(batch, {n, x->dim(-1)}));
  if (left != adjoint) {
    x = permuted_rows(b, x, permutation);
    x = solve_triangular(b, matrix, x, /*upper=*/false, /*unit=*/true);
    x = solve_triangular(b, matrix, x, /*upper=*/true);
  } else {
    const Value flipped = transposed(b, matrix);
    x = solve_triangular(b, flipped, x, /*upper=*/false);
    x = solve_triangular(b, flipped, x, /*upper=*/true, /*unit=*/true);
    const Value places = b.expand(permutation, with_batch(batch, {n, x->dim(-1)}));
    x = b.op("ScatterElements", {x, places, x}, {{"axis", int64_t{-2}}});
  }
  return b.cast(left ? x : transposed(b, x), rhs->dtype);
}

// --- Tensors as matrices.

Value tensorinv(Builder& b, Value self, int64_t ind) {
  const Shape& shape = self->known_shape();
  const Shape first = part_of(shape, 0, ind), last = part_of(shape, ind);
  const Value matrix = b.reshape(self, {numel(first), numel(last)});
  return b.reshape(linalg_inv(b, matrix), with_batch(last, first));
}

Value tensorsolve(Builder& b, Value self, Value other, std::optional<Ints> dims) {
  if (dims) {
    Ints last;
    const auto count = static_cast<int64_t>(dims->size());
    for (int64_t i = 0; i < count; ++i) last.push_back(i - count);
    self = b.transpose(self, moving(self->rank(), *dims, last));
  }
  const Shape result = part_of(self, other->rank());
  const Dim size = numel(result);
  const Value x = linalg_solve(b, b.reshape(self, {size, size}), b.reshape(other, {size}), true);
  return b.reshape(x, result);
}

}  // namespace

void register_linalg_solve(OpTable& ops) {
  ops.def({"aten::linalg_det", "aten::det"}, determinant);
  // The other results are used only by the backward pass.
  ops.def("aten::_linalg_det", [](Builder& b, Value a) {
    return Results{determinant(b, a), Lowered(), Lowered()};
  });
  ops.def({"aten::linalg_slogdet", "aten::slogdet"}, [](Builder& b, Value a) {
    const LogDeterminant result = log_determinant(b, a);
    return std::array{result.sign, result.log_of_size};
  });
  ops.def("aten::_linalg_slogdet", [](Builder& b, Value a) {
    const LogDeterminant result = log_determinant(b, a);
    return Results{result.sign, result.log_of_size, Lowered(), Lowered()};
  });
  ops.def("aten::logdet", logdet);
  ops.def({"aten::linalg_inv", "aten::inverse"}, linalg_inv);
  ops.def("aten::linalg_inv_ex", linalg_inv_ex);
  ops.def("aten::linalg_solve", linalg_solve);
  ops.def("aten::linalg_solve_ex", [](Builder& b, Value a, Value rhs, bool left, Ignored) {
    const Solution result = solve_linear(b, a, rhs, left, /*with_info=*/true);
    return std::array{result.x, result.info};
  });
  ops.def("aten::_linalg_solve_ex", [](Builder& b, Value a, Value rhs, bool left, Ignored) {
    const Solution result = solve_linear(b, a, rhs, left, /*with_info=*/true);
    return Results{result.x, Lowered(), Lowered(), result.info};
  });
  ops.def("aten::linalg_solve_triangular", linalg_solve_triangular);
  ops.def("aten::triangular_solve", triangular_solve);
  ops.def("aten::lu_solve", [](Builder& b, Value self, Value lu, Value pivots) {
    return solve_factored(b, lu, pivots, self, /*left=*/true, /*adjoint=*/false);
  });
  ops.def("aten::linalg_lu_solve",
          [](Builder& b, Value lu, Value pivots, Value rhs, bool left, bool adjoint) {
            return solve_factored(b, lu, pivots, rhs, left, adjoint);
          });
  ops.def("aten::linalg_tensorinv", tensorinv);
  ops.def("aten::linalg_tensorsolve", tensorsolve);
}

}  // namespace onnx_native::ops
