// A = P L D L^T P^T of symmetric matrices with Bunch-Kaufman pivoting (GVL 4.4.5), in the format of
// LAPACK's sytrf for the lower triangle: D has 1x1 and 2x2 blocks; pivots count from 1, and a 2x2
// block stores its negated pivot twice; later row swaps are not applied to the columns of L.
#include <array>
#include <cmath>

#include "ops/families.h"
#include "ops/formulas/linalg.h"
#include "ops/formulas/view.h"

namespace onnx_native::ops {
namespace {

// Returns column k, where k differs per matrix; zeros if k is out of range. [*, n, 1]
Value own_column(Builder& b, Value x, Value columns, Value k) {
  const Value only = b.where(b.Equal(columns, k), x, f64(b, 0));
  return b.reduce("ReduceSum", only, {-1}, /*keepdims=*/true);
}

// Returns the element in row k of a column; 0 if k is out of range. [*, 1, 1]
Value own_element(Builder& b, Value column, Value rows, Value k) {
  const Value only = b.where(b.Equal(rows, k), column, f64(b, 0));
  return b.reduce("ReduceSum", only, {-2}, /*keepdims=*/true);
}

// The greatest magnitude among the chosen elements of a column (0 if there are none), and its row.
struct Peak {
  Value size, row;
};

Peak peak(Builder& b, Value column, Value chosen) {
  const Value sizes = b.where(chosen, b.Abs(column), f64(b, 0));
  const Values top = b.ops("TopK", 2, {sizes, b.i64s({1})}, {{"axis", int64_t{-2}}});
  return {top[0], top[1]};
}

// The next pivot block of matrices in which the rows from k on remain.
struct Pivot {
  Value swapped;  // row to swap with the block's last row
  Value two;      // true if the block has two rows
  Value zero;     // true if there is nothing to eliminate
};

Pivot choose_pivot(Builder& b, Value x, Value k, Value rows, Value columns) {
  const double alpha = (1 + std::sqrt(17.0)) / 8;
  const Value column = own_column(b, x, columns, k);
  const Value diagonal = b.Abs(own_element(b, column, rows, k));
  const Peak below = peak(b, column, b.Greater(rows, k));
  const Value other = own_column(b, x, columns, below.row);
  const Value off_diagonal = b.And(b.GreaterOrEqual(rows, k), b.Not(b.Equal(rows, below.row)));
  const Value row_size = peak(b, other, off_diagonal).size;
  const Value other_diagonal = b.Abs(own_element(b, other, rows, below.row));
  const auto at_least = [&](Value size, Value bound) {
    return b.GreaterOrEqual(size, b.Mul(bound, f64(b, alpha)));
  };
  const Value zero = b.Equal(b.Max(diagonal, below.size), f64(b, 0));
  const Value stays = b.Or(at_least(diagonal, below.size),
                           at_least(b.Mul(diagonal, row_size), b.Mul(below.size, below.size)));
  const Value two = b.Not(b.Or(stays, at_least(other_diagonal, row_size)));
  return {b.where(stays, k, below.row), two, zero};
}

struct Ldl {
  Value matrix, pivots, info;
};

// Eliminates one block; takes and returns the carried tensors.
Values eliminate_block(Builder& b, const Values& carried, Value rows, Value columns) {
  const Value zero = f64(b, 0), one = b.i64(1);
  const Value k = carried[2];
  const Pivot pivot = choose_pivot(b, carried[0], k, rows, columns);
  const Value next = b.Add(k, one);
  const Value last = b.where(pivot.two, next, k);
  const Value swap = swapped(b, rows, last, pivot.swapped);
  const Value half = permuted_rows(b, carried[0], swap);
  const Value x = permuted_rows(b, transposed(b, half), swap);
  const Value first_column = own_column(b, x, columns, k);
  const Value second_column = own_column(b, x, columns, next);
  const Value d = own_element(b, first_column, rows, k);
  const Value e = own_element(b, first_column, rows, next);
  const Value f = own_element(b, second_column, rows, next);
  // L of this block: the columns times the inverse of [d] or of [d e; e f].
  const Value determinant = b.Sub(b.Mul(d, f), b.Mul(e, e));
  const auto combined = [&](Value p, Value u, Value q, Value v) {
    return b.Div(b.Sub(b.Mul(p, u), b.Mul(q, v)), determinant);
  };
  const Value below = b.Greater(rows, last);
  const Value with_two = b.And(below, pivot.two);
  const Value single = b.where(pivot.zero, zero, b.Div(first_column, d));
  const Value first =
      b.where(with_two, combined(f, first_column, e, second_column), b.where(below, single, zero));
  const Value second = b.where(with_two, combined(d, second_column, e, first_column), zero);
  const Value rest = b.Sub(b.Sub(x, b.Mul(first, transposed(b, first_column))),
                           b.Mul(second, transposed(b, second_column)));
  // The stored columns of L and D.
  const Value in_next = b.And(b.Equal(rows, next), pivot.two);
  const Value stored = b.where(b.Equal(rows, k), d, b.where(in_next, e, first));
  const Value stored_next = b.where(in_next, f, second);
  const Value is_next = b.And(b.Equal(columns, next), pivot.two);
  const Value matrix =
      b.where(b.Equal(columns, k), stored, b.where(is_next, stored_next, carried[1]));
  const Value number = b.Add(pivot.swapped, one);
  const Value mark = b.where(pivot.two, b.Neg(number), number);
  const Value marked = b.Or(b.Equal(rows, k), in_next);
  const Value fails =
      b.And(b.And(pivot.zero, b.Equal(carried[4], b.i64(0))), b.Less(k, b.dim_value(rows->dim(0))));
  return {rest, matrix, b.Add(last, one), b.where(marked, mark, carried[3]),
          b.where(fails, next, carried[4])};
}

Ldl ldl_factor(Builder& b, Value a) {
  const Dim n = a->dim(-1);
  const Shape batch = batch_of(a);
  const Value rows = row_numbers(b, n), columns = column_numbers(b, n);
  const auto zeros = [&](const Dim& height) {
    return b.full(DType::i64, 0, with_batch(batch, {height, 1}));
  };
  const Value x = symmetric(b, wide(b, a), /*upper=*/false);
  const Values initial{x, b.full(DType::f64, 0, a->known_shape()), zeros(1), zeros(n), zeros(1)};
  const Values result = iterate(b, n, initial, [&](Value, const Values& carried) {
    return eliminate_block(b, carried, rows, columns);
  });
  return {b.cast(result[1], a->dtype), b.cast(b.squeeze(result[3], {-1}), DType::i32),
          b.cast(b.squeeze(result[4], {-2, -1}), DType::i32)};
}

// Shifts the rows down by `by`, or up if it is negative; fills with zeros.
Value shifted_rows(Builder& b, Value x, int64_t by) {
  const auto rank = static_cast<size_t>(x->rank());
  std::vector<Dim> pads(2 * rank, 0);
  pads[rank - 2] = by;
  pads[2 * rank - 2] = -by;
  const Value shifted = b.pad(x, pads);
  b.refine(shifted, x->known_shape());
  return shifted;
}

Value ldl_solve(Builder& b, Value ld, Value pivots, Value rhs) {
  const Dim& n = ld->dim(-1);
  if (n.equals(0)) return b.Identity(rhs);
  const Value rows = row_numbers(b, n), columns = column_numbers(b, n);
  const Value zero = f64(b, 0), one = b.i64(1);
  const Value matrix = wide(b, ld);
  const Value marks = b.unsqueeze(b.cast(pivots, DType::i64), {-1});
  // Negative pivots come in pairs: an odd running count marks the first row of a 2x2 block.
  const Value negative = b.Less(marks, b.i64(0));
  const Value count = b.op("CumSum", {b.cast(negative, DType::i64), b.i64(-2)});
  const Value odd = b.Equal(b.op("Mod", {count, b.i64(2)}), one);
  const Value begins = b.And(negative, odd), ends = b.And(negative, b.Not(odd));
  const Value partner = b.where(begins, b.Add(rows, one), rows);
  const Value target = b.where(ends, rows, b.Sub(b.Abs(marks), one));
  const Value inside = b.And(transposed(b, begins), b.Equal(rows, b.Add(columns, one)));
  const Value l = b.where(b.And(b.Greater(rows, columns), b.Not(inside)), matrix, zero);
  const auto exchanged = [&](Value x, Value k) {
    const Value swap = swapped(b, rows, row_at(b, partner, k), row_at(b, target, k));
    return permuted_rows(b, x, swap);
  };
  const Shape batch = onnx::broadcast(batch_of(matrix), batch_of(rhs));
  Value x = b.expand(wide(b, rhs), with_batch(batch, {n, rhs->dim(-1)}));
  x = iterate(b, n, {x}, [&](Value k, const Values& carried) -> Values {
    const Value y = exchanged(carried[0], k);
    return {b.Sub(y, b.Mul(column_at(b, l, k), row_at(b, y, k)))};
  })[0];
  // Solves with D: d is its diagonal, e the off-diagonal element of each 2x2 block.
  const Value d = b.unsqueeze(diagonals(b, matrix), {-1});
  const Value beside = b.reduce("ReduceSum", b.where(inside, matrix, zero), {-2}, true);
  const Value e_first = transposed(b, beside);
  const Value e = b.Add(e_first, shifted_rows(b, e_first, 1));
  const auto of_partner = [&](Value y) {
    return b.where(begins, shifted_rows(b, y, -1), shifted_rows(b, y, 1));
  };
  const Value d_other = b.where(negative, of_partner(d), f64(b, 1));
  const Value scaled = b.Sub(b.Mul(d_other, x), b.Mul(e, of_partner(x)));
  x = b.Div(scaled, b.Sub(b.Mul(d, d_other), b.Mul(e, e)));
  x = iterate(b, n, {x}, [&](Value step, const Values& carried) -> Values {
    const Value k = b.Sub(b.dim_value(n - 1), step);
    const Value known = b.matmul(transposed(b, column_at(b, l, k)), carried[0]);
    const Value y = b.where(b.Equal(rows, k), b.Sub(carried[0], known), carried[0]);
    return {exchanged(y, k)};
  })[0];
  return b.cast(x, rhs->dtype);
}

}  // namespace

void register_linalg_ldl(OpTable& ops) {
  ops.def("aten::linalg_ldl_factor", [](Builder& b, Value self, Ignored) {
    const Ldl result = ldl_factor(b, self);
    return std::array{result.matrix, result.pivots};
  });
  ops.def("aten::linalg_ldl_factor_ex", [](Builder& b, Value self, Ignored, Ignored) {
    const Ldl result = ldl_factor(b, self);
    return std::array{result.matrix, result.pivots, result.info};
  });
  ops.def("aten::linalg_ldl_solve", [](Builder& b, Value ld, Value pivots, Value rhs, Ignored) {
    return ldl_solve(b, ld, pivots, rhs);
  });
}

}  // namespace onnx_native::ops
