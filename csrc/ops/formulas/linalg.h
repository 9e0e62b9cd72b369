// Dense factorisations and solutions, that the families of linear algebra build on. Matrices lie in
// the last two axes, the axes before them are a batch; sizes may be symbolic. All matrices here are
// float64: float32 results are then right to the last bits. Each algorithm is a Loop over columns
// that works on whole batches, so its number of nodes does not depend on sizes. (Golub, Van Loan:
// Matrix Computations, 4th edition, is cited as GVL.)
#pragma once

#include <functional>

#include "ops/engine/call.h"

namespace onnx_native::ops {

// The tensor in the dtype that the algorithms compute in.
inline Value wide(Builder& b, Value x) { return b.cast(x, DType::f64); }

inline Value f64(Builder& b, double value) { return b.scalar(DType::f64, value); }

// Runs `step` for k = 0, 1 ... count - 1, in one Loop: from k, an int64 tensor of one element, and
// the carried tensors to the next carried tensors, of the same shapes.
using Step = std::function<Values(Value k, const Values& carried)>;
Values iterate(Builder& b, const Dim& count, const Values& carried, const Step& step);
// The same, ending before `most` steps when the first result of `step`, a 0-d bool, says so.
Values iterate_while(Builder& b, const Dim& most, const Values& carried, const Step& step);

Shape batch_of(Value matrix);
// The batch followed by these sizes.
Shape with_batch(const Shape& batch, const Shape& sizes);
Value transposed(Builder& b, Value matrix);
// One row or one column of each matrix; the axis stays.
inline Value row_at(Builder& b, Value matrix, Value k) { return b.gather(matrix, k, -2); }
inline Value column_at(Builder& b, Value matrix, Value k) { return b.gather(matrix, k, -1); }
// Numbers of rows, [count, 1], and of columns, [1, count].
Value row_numbers(Builder& b, const Dim& count);
Value column_numbers(Builder& b, const Dim& count);
// These numbers with i and j in each other's place.
Value swapped(Builder& b, Value numbers, Value i, Value j);
// Ones where the row's number is the column's, [rows, columns].
Value identity(Builder& b, const Dim& rows, const Dim& columns, DType dtype = DType::f64);
// What is on one side of the main diagonal, and on it or from the offset on.
Value lower_triangle(Builder& b, Value matrix, int64_t offset = 0);
Value upper_triangle(Builder& b, Value matrix, int64_t offset = 0);
// The symmetric matrix that one triangle stands for.
Value symmetric(Builder& b, Value matrix, bool upper);
// The main diagonals, [*, min(m, n)].
Value diagonals(Builder& b, Value matrix);
// The greatest element, 0-d; 0 if there are none or all are negative.
Value greatest(Builder& b, Value x);
// Matrices that end in the same batch, broadcast.
Values with_common_batch(Builder& b, const Values& matrices);
// The first number of a flag along the last axis, counted from 1; 0 where there is none. int32.
Value first_flag(Builder& b, Value flags);

// The row, from row k on, of the greatest element of a column; [*, 1, 1]. `rows` are the row
// numbers. TopK, because ONNX Runtime's ArgMax of an empty batch has a wrong shape.
Value pivot_row(Builder& b, Value column, Value rows, Value k);

// A permuted by rows is L U, both in one matrix; pivots are LAPACK's: row k was swapped with row
// pivots[k] - 1. int64.
struct Lu {
  Value matrix;
  Value pivots;       // [*, min(m, n)]
  Value permutation;  // [*, m, 1]: row i of L U is row permutation[i] of A
};
Lu lu_factor(Builder& b, Value a);
// [*, m, 1]: the permutation that the swaps make.
Value permutation_of(Builder& b, Value pivots, const Dim& m);
// The rows of x that `permutation`, [*, m, 1], names.
Value permuted_rows(Builder& b, Value x, Value permutation);
// -1 where the swaps are odd, else 1; [*], float64.
Value parity(Builder& b, Value pivots);

// X with A X = B of square matrices, which share their batch. `info`, when asked for: the first
// pivot that is zero, counted from 1, or 0. int64, [*, 1, 1].
struct Solution {
  Value x;
  Value info;
};
Solution solve(Builder& b, Value a, Value rhs, bool with_info);
Solution inverse(Builder& b, Value a, bool with_info);
// X with A X = B of triangular matrices; batches broadcast.
Value solve_triangular(Builder& b, Value a, Value rhs, bool upper, bool unit = false);

// A = L L^T; reads the lower triangle. `info` as above, the first minor that is not positive.
struct Cholesky {
  Value l;
  Value info;
};
Cholesky cholesky(Builder& b, Value a, bool with_info);

// A = Q R as LAPACK's geqrf leaves it: R above, below the diagonal the reflectors' vectors.
struct Reflectors {
  Value matrix;
  Value tau;  // [*, min(m, n)]
};
Reflectors qr_factor(Builder& b, Value a);
// Q X, or Q^T X, of the product Q of reflectors; shares the batch.
Value reflected(Builder& b, const Reflectors& q, Value x, bool transpose);

}  // namespace onnx_native::ops
