// Dense factorizations and solvers for the linear algebra families. Matrices occupy the last two
// axes, the leading axes are a batch, and sizes may be symbolic. All matrices here are float64, so
// that float32 results are accurate to the last bits. Each algorithm is a Loop over columns that
// handles whole batches, so its node count does not depend on sizes. (GVL: Golub and Van Loan,
// Matrix Computations, 4th edition.)
#pragma once

#include <functional>

#include "ops/engine/call.h"
#include "ops/formulas/numeric.h"

namespace onnx_native::ops {

// Casts the tensor to the dtype that the algorithms compute in.
inline Value wide(Builder& b, Value x) { return b.cast(x, DType::f64); }

// Runs `step` for k = 0, 1 ... count - 1 in one Loop. `step` maps k, an int64 tensor of one
// element, and the loop-carried tensors to the next ones, which keep their shapes.
using Step = std::function<Values(Value k, const Values& carried)>;
Values iterate(Builder& b, const Dim& count, const Values& carried, const Step& step);
// Runs at most `most` steps; ends early when the first result of `step`, a 0-d bool, is false.
Values iterate_while(Builder& b, const Dim& most, const Values& carried, const Step& step);

Shape batch_of(Value matrix);
// Returns the batch followed by these sizes.
Shape with_batch(const Shape& batch, const Shape& sizes);
Value transposed(Builder& b, Value matrix);
// Returns row or column k of each matrix; the axis stays with size 1.
inline Value row_at(Builder& b, Value matrix, Value k) { return b.gather(matrix, k, -2); }
inline Value column_at(Builder& b, Value matrix, Value k) { return b.gather(matrix, k, -1); }
// Returns row indices [count, 1] and column indices [1, count].
Value row_numbers(Builder& b, const Dim& count);
Value column_numbers(Builder& b, const Dim& count);
// Returns `numbers` with i and j swapped.
Value swapped(Builder& b, Value numbers, Value i, Value j);
// Returns ones where the row index equals the column index, [rows, columns].
Value identity(Builder& b, const Dim& rows, const Dim& columns, DType dtype = DType::f64);
// Returns the part of the matrix on one side of a diagonal, including that diagonal.
Value lower_triangle(Builder& b, Value matrix, int64_t offset = 0);
Value upper_triangle(Builder& b, Value matrix, int64_t offset = 0);
// Returns the symmetric matrix stored in one triangle.
Value symmetric(Builder& b, Value matrix, bool upper);
// Returns the main diagonals, [*, min(m, n)].
Value diagonals(Builder& b, Value matrix);
// Returns the greatest element, 0-d; 0 if there are no elements or all are negative.
Value greatest(Builder& b, Value x);
// Broadcasts the batch axes of the matrices to a common batch.
Values with_common_batch(Builder& b, const Values& matrices);
// Returns the 1-based int32 position of the first true flag along the last axis; 0 if none is true.
Value first_flag(Builder& b, Value flags);

// Returns the row, at or after row k, of the element of greatest magnitude in a column; [*, 1, 1].
// `rows` holds the row indices. Uses TopK because ONNX Runtime's ArgMax of an empty batch has a
// wrong shape.
Value pivot_row(Builder& b, Value column, Value rows, Value k);

// P A = L U with L and U in one matrix. Pivots (int64) follow LAPACK: row k was swapped with row
// pivots[k] - 1.
struct Lu {
  Value matrix;
  Value pivots;       // [*, min(m, n)]
  Value permutation;  // [*, m, 1]: row i of L U is row permutation[i] of A
};
Lu lu_factor(Builder& b, Value a);
// Returns the permutation that the swaps produce, [*, m, 1].
Value permutation_of(Builder& b, Value pivots, const Dim& m);
// Returns the rows of x in the order of `permutation`, [*, m, 1].
Value permuted_rows(Builder& b, Value x, Value permutation);
// Returns -1 for an odd number of swaps, else 1; [*], float64.
Value parity(Builder& b, Value pivots);

// X with A X = B for square matrices of the same batch. `info`, if requested, is the 1-based step
// of the first zero pivot, or 0; int64, [*, 1, 1].
struct Solution {
  Value x;
  Value info;
};
Solution solve(Builder& b, Value a, Value rhs, bool with_info);
// Returns true if B is a batch of vectors rather than of matrices, by torch.linalg.solve's rule.
bool is_vector(Value a, Value rhs);
Solution inverse(Builder& b, Value a, bool with_info);
// Returns X with A X = B for triangular matrices; batches broadcast.
Value solve_triangular(Builder& b, Value a, Value rhs, bool upper, bool unit = false);

// A = L L^T; reads the lower triangle. `info`, as above, is the first minor that is not positive.
struct Cholesky {
  Value l;
  Value info;
};
Cholesky cholesky(Builder& b, Value a, bool with_info);

// A = Q R in the layout of LAPACK's geqrf: R on and above the diagonal, reflector vectors below.
struct Reflectors {
  Value matrix;
  Value tau;  // [*, min(m, n)]
};
Reflectors qr_factor(Builder& b, Value a);
// Returns Q X or Q^T X for the product Q of the reflectors; x has the same batch.
Value reflected(Builder& b, const Reflectors& q, Value x, bool transpose);

}  // namespace onnx_native::ops
