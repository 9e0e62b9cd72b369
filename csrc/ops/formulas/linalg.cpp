#include "ops/formulas/linalg.h"

#include "ops/formulas/axes.h"
#include "ops/formulas/loop.h"
#include "ops/formulas/positions.h"
#include "ops/formulas/view.h"

namespace onnx_native::ops {
namespace {

LoopStep with_vector(Builder& b, const Step& step) {
  return [&b, &step](Value k, const Values& carried) { return step(b.reshape(k, {1}), carried); };
}

// Returns k + 1 at the first failing step; 0 before it.
Value noted(Builder& b, Value info, Value fails, Value k) {
  const Value first = b.And(fails, b.Equal(info, b.i64(0)));
  return b.where(first, b.Add(k, b.i64(1)), info);
}

Value no_info(Builder& b, Value matrix) {
  return b.full(DType::i64, 0, with_batch(batch_of(matrix), {1, 1}));
}

Value trilu(Builder& b, Value matrix, int64_t offset, bool upper) {
  return b.op("Trilu", {matrix, offset == 0 ? nullptr : b.i64(offset)},
              {{"upper", int64_t{upper}}});
}

// Returns the vector of reflector k: zeros, a one in row k, then the stored elements.
Value reflector(Builder& b, Value column, Value rows, Value k) {
  return b.where(b.Greater(rows, k), column, b.cast(b.Equal(rows, k), DType::f64));
}

// Returns x - tau v v^T x.
Value reflect(Builder& b, Value x, Value v, Value tau) {
  return b.Sub(x, b.Mul(b.Mul(tau, v), b.matmul(transposed(b, v), x)));
}

}  // namespace

Values iterate(Builder& b, const Dim& count, const Values& carried, const Step& step) {
  if (count.equals(0)) return carried;
  if (count.equals(1)) return step(b.i64s({0}), carried);
  return loop(b, b.dim_value(count), carried, with_vector(b, step));
}

Values iterate_while(Builder& b, const Dim& most, const Values& carried, const Step& step) {
  if (most.equals(0)) return carried;
  return loop_while(b, b.dim_value(most), carried, with_vector(b, step));
}

Shape batch_of(Value matrix) { return part_of(matrix, 0, -2); }

Shape with_batch(const Shape& batch, const Shape& sizes) {
  Shape shape = batch;
  shape.insert(shape.end(), sizes.begin(), sizes.end());
  return shape;
}

Value transposed(Builder& b, Value matrix) { return b.swap_axes(matrix, -2, -1); }

Value swapped(Builder& b, Value numbers, Value i, Value j) {
  return b.where(b.Equal(numbers, i), j, b.where(b.Equal(numbers, j), i, numbers));
}

Value row_numbers(Builder& b, const Dim& count) { return positions_along(b, count, 0, 2); }

Value column_numbers(Builder& b, const Dim& count) { return positions_along(b, count, 1, 2); }

Value identity(Builder& b, const Dim& rows, const Dim& columns, DType dtype) {
  return b.cast(b.Equal(row_numbers(b, rows), column_numbers(b, columns)), dtype);
}

Value lower_triangle(Builder& b, Value matrix, int64_t offset) {
  return trilu(b, matrix, offset, false);
}

Value upper_triangle(Builder& b, Value matrix, int64_t offset) {
  return trilu(b, matrix, offset, true);
}

Value symmetric(Builder& b, Value matrix, bool upper) {
  const Value half = upper ? upper_triangle(b, matrix) : lower_triangle(b, matrix);
  const Value strict = upper ? upper_triangle(b, matrix, 1) : lower_triangle(b, matrix, -1);
  return b.Add(half, transposed(b, strict));
}

Value diagonals(Builder& b, Value matrix) {
  const Dim &m = matrix->dim(-2), &n = matrix->dim(-1);
  const Dim count = Dim::min(m, n);
  const Value square = b.slice(b.slice(matrix, -2, 0, count), -1, 0, count);
  const Value on = b.Equal(row_numbers(b, count), column_numbers(b, count));
  const Value diagonal =
      b.reduce("ReduceSum", b.where(on, square, b.like(square, 0)), {-1}, /*keepdims=*/false);
  b.refine(diagonal, -1, count);
  return diagonal;
}

Value greatest(Builder& b, Value x) {
  const Value all =
      b.concat({b.reshape(x, {numel(x->known_shape())}), b.full(x->dtype, 0, {1})}, 0);
  return b.reduce("ReduceMax", all, {}, /*keepdims=*/false);
}

Values with_common_batch(Builder& b, const Values& matrices) {
  Shape batch;
  for (const Value matrix : matrices) batch = onnx::broadcast(batch, batch_of(matrix));
  Values result;
  for (const Value matrix : matrices) {
    result.push_back(b.expand(matrix, with_batch(batch, {matrix->dim(-2), matrix->dim(-1)})));
  }
  return result;
}

Value first_flag(Builder& b, Value flags) {
  const Value seen = b.op("CumSum", {b.cast(flags, DType::i64), b.i64(-1)});
  const Value before = b.cast(b.Equal(seen, b.i64(0)), DType::i64);
  const Value count = b.reduce("ReduceSum", before, {-1}, /*keepdims=*/false);
  const Value none = b.Equal(count, b.dim_value(flags->dim(-1)));
  return b.cast(b.where(none, b.i64(0), b.Add(count, b.i64(1))), DType::i32);
}

Value pivot_row(Builder& b, Value column, Value rows, Value k) {
  const Value size = b.where(b.Less(rows, k), f64(b, -1), b.Abs(column));
  return b.ops("TopK", 2, {size, b.i64s({1})}, {{"axis", int64_t{-2}}})[1];
}

Lu lu_factor(Builder& b, Value a) {
  const Dim m = a->dim(-2), n = a->dim(-1), count = Dim::min(m, n);
  const Value rows = row_numbers(b, m), columns = column_numbers(b, n);
  const Value steps = row_numbers(b, count);
  const Shape batch = batch_of(a);
  const Values initial{a, b.full(DType::i64, 0, with_batch(batch, {count, 1})),
                       b.expand(rows, with_batch(batch, {m, 1}))};
  const Values result = iterate(b, count, initial, [&](Value k, const Values& carried) -> Values {
    const Value p = pivot_row(b, column_at(b, carried[0], k), rows, k);
    const Value swap = swapped(b, rows, k, p);
    const Value x = permuted_rows(b, carried[0], swap);
    const Value row = row_at(b, x, k), column = column_at(b, x, k);
    const Value pivot = column_at(b, row, k);
    const Value divisor = b.where(b.Equal(pivot, f64(b, 0)), f64(b, 1), pivot);
    const Value below = b.Greater(rows, k);
    const Value factor = b.where(below, b.Div(column, divisor), f64(b, 0));
    const Value done = b.where(b.And(below, b.Equal(columns, k)), factor, x);
    return {b.where(b.Greater(columns, k), b.Sub(x, b.Mul(factor, row)), done),
            b.where(b.Equal(steps, k), b.Add(p, b.i64(1)), carried[1]),
            permuted_rows(b, carried[2], swap)};
  });
  return {result[0], b.squeeze(result[1], {-1}), result[2]};
}

Value permutation_of(Builder& b, Value pivots, const Dim& m) {
  const Value rows = row_numbers(b, m);
  const Value targets = b.Sub(b.unsqueeze(b.cast(pivots, DType::i64), {-1}), b.i64(1));
  const Value start = b.expand(rows, with_batch(batch_of(targets), {m, 1}));
  return iterate(b, pivots->dim(-1), {start}, [&](Value k, const Values& carried) -> Values {
    const Value swap = swapped(b, rows, k, row_at(b, targets, k));
    return {permuted_rows(b, carried[0], swap)};
  })[0];
}

Value permuted_rows(Builder& b, Value x, Value permutation) {
  return b.op("GatherElements", {x, b.expand(permutation, x->known_shape())},
              {{"axis", int64_t{-2}}});
}

Value parity(Builder& b, Value pivots) {
  const Value stays = b.Add(b.range(pivots->dim(-1)), b.i64(1));
  const Value sign = b.where(b.Equal(pivots, stays), f64(b, 1), f64(b, -1));
  return b.reduce("ReduceProd", sign, {-1}, /*keepdims=*/false);
}

bool is_vector(Value a, Value rhs) {
  const Shape expected = part_of(a, 0, -1);
  return rhs->rank() == 1 || (a->rank() - 1 == rhs->rank() && rhs->known_shape() == expected);
}

// Gauss-Jordan elimination on [A, B] with partial pivoting.
Solution solve(Builder& b, Value a, Value rhs, bool with_info) {
  const Dim n = a->dim(-1), count = rhs->dim(-1);
  const Value rows = row_numbers(b, n);
  Values initial{b.concat({a, rhs}, -1)};
  if (with_info) initial.push_back(no_info(b, a));
  Values result = iterate(b, n, initial, [&](Value k, const Values& carried) -> Values {
    const Value p = pivot_row(b, column_at(b, carried[0], k), rows, k);
    const Value x = permuted_rows(b, carried[0], swapped(b, rows, k, p));
    const Value row = row_at(b, x, k);
    const Value pivot = column_at(b, row, k);
    const Value unit_row = b.Div(row, pivot);
    Values next{b.where(b.Equal(rows, k), unit_row, b.Sub(x, b.Mul(column_at(b, x, k), unit_row)))};
    if (with_info) next.push_back(noted(b, carried[1], b.Equal(pivot, f64(b, 0)), k));
    return next;
  });
  const Value x = b.slice(result[0], -1, n, n + count);
  b.refine(x, rhs->known_shape());
  return {x, with_info ? result[1] : nullptr};
}

Solution inverse(Builder& b, Value a, bool with_info) {
  const Value unit = b.expand(identity(b, a->dim(-1), a->dim(-1)), a->known_shape());
  return solve(b, a, unit, with_info);
}

// GVL 3.1.3 and 3.1.4, column-oriented.
Value solve_triangular(Builder& b, Value a, Value rhs, bool upper, bool unit) {
  const Dim n = a->dim(-1);
  const Value rows = row_numbers(b, n);
  const Shape batch = onnx::broadcast(batch_of(a), batch_of(rhs));
  const Value start = b.expand(rhs, with_batch(batch, {n, rhs->dim(-1)}));
  return iterate(b, n, {start}, [&](Value step, const Values& carried) -> Values {
    const Value k = upper ? b.Sub(b.dim_value(n - 1), step) : step;
    const Value x = carried[0];
    const Value column = column_at(b, a, k);
    Value known = row_at(b, x, k);
    if (!unit) known = b.Div(known, row_at(b, column, k));
    const Value next = b.Sub(x, b.Mul(column, known));
    const Value done = unit ? x : b.where(b.Equal(rows, k), known, x);
    return {b.where(upper ? b.Less(rows, k) : b.Greater(rows, k), next, done)};
  })[0];
}

// GVL 4.2.6, outer-product form.
Cholesky cholesky(Builder& b, Value a, bool with_info) {
  const Dim n = a->dim(-1);
  const Value rows = row_numbers(b, n), columns = column_numbers(b, n);
  Values initial{a};
  if (with_info) initial.push_back(no_info(b, a));
  Values result = iterate(b, n, initial, [&](Value k, const Values& carried) -> Values {
    const Value x = carried[0];
    const Value column = column_at(b, x, k);
    const Value square = row_at(b, column, k);
    const Value l = b.where(b.GreaterOrEqual(rows, k), b.Div(column, b.Sqrt(square)), f64(b, 0));
    const Value rest = b.Sub(x, b.Mul(l, transposed(b, l)));
    Values next{b.where(b.Greater(columns, k), rest, b.where(b.Equal(columns, k), l, x))};
    if (with_info) {
      const Value fails = b.Not(b.Greater(square, f64(b, 0)));
      next.push_back(noted(b, carried[1], fails, k));
    }
    return next;
  });
  return {lower_triangle(b, result[0]), with_info ? result[1] : nullptr};
}

// GVL 5.2.1 with the sign convention of LAPACK's larfg: beta has the opposite sign of alpha.
Reflectors qr_factor(Builder& b, Value a) {
  const Dim m = a->dim(-2), n = a->dim(-1), count = Dim::min(m, n);
  const Value rows = row_numbers(b, m), columns = column_numbers(b, n);
  const Value steps = row_numbers(b, count);
  const Values initial{a, b.full(DType::f64, 0, with_batch(batch_of(a), {count, 1}))};
  const Values result = iterate(b, count, initial, [&](Value k, const Values& carried) -> Values {
    const Value zero = f64(b, 0);
    const Value x = carried[0];
    const Value column = column_at(b, x, k);
    const Value alpha = row_at(b, column, k);
    const Value below = b.where(b.Greater(rows, k), column, zero);
    const Value square = b.reduce("ReduceSumSquare", below, {-2}, /*keepdims=*/true);
    const Value nothing = b.Equal(square, zero);
    const Value norm = b.Sqrt(b.Add(b.Mul(alpha, alpha), square));
    const Value beta = b.where(nothing, alpha, b.where(b.Less(alpha, zero), norm, b.Neg(norm)));
    const Value tau = b.where(nothing, zero, b.Div(b.Sub(beta, alpha), beta));
    const Value scale = b.where(nothing, f64(b, 1), b.Sub(alpha, beta));
    const Value scaled = b.Div(below, scale);
    const Value v = reflector(b, scaled, rows, k);
    const Value done = b.where(b.Greater(rows, k), scaled, b.where(b.Equal(rows, k), beta, column));
    return {b.where(b.Greater(columns, k), reflect(b, x, v, tau),
                    b.where(b.Equal(columns, k), done, x)),
            b.where(b.Equal(steps, k), tau, carried[1])};
  });
  return {result[0], b.squeeze(result[1], {-1})};
}

// Q is H_0 H_1 ..., so Q X applies the last reflector first.
Value reflected(Builder& b, const Reflectors& q, Value x, bool transpose) {
  const Dim count = q.tau->dim(-1);
  const Value rows = row_numbers(b, x->dim(-2));
  const Value factors = b.unsqueeze(q.tau, {-1});
  return iterate(b, count, {x}, [&](Value step, const Values& carried) -> Values {
    const Value k = transpose ? step : b.Sub(b.dim_value(count - 1), step);
    const Value v = reflector(b, column_at(b, q.matrix, k), rows, k);
    return {reflect(b, carried[0], v, row_at(b, factors, k))};
  })[0];
}

}  // namespace onnx_native::ops
