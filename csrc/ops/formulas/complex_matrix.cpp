#include "ops/formulas/complex_matrix.h"

#include "ops/formulas/sort.h"

namespace onnx_native::ops {
namespace {

constexpr int64_t kMostSteps = 40;  // per eigenvalue

// Like absolute(), but without protection against overflow and underflow of the squares.
Value size_of(Builder& b, const Complex& z) {
  return b.Sqrt(b.Add(b.Mul(z.real, z.real), b.Mul(z.imaginary, z.imaginary)));
}

// Splits a stack [real; imaginary] of n rows each into its parts.
Complex parts(Builder& b, Value stack, const Dim& n) {
  const Values halves = b.split(stack, -2, {n, n});
  return {halves[0], halves[1]};
}

// Works on the doubled matrix H, optionally with the doubled Q stacked below it. Q H Q^H is
// invariant.
class Schur {
 public:
  Schur(Builder& b, const Dim& n)
      : n_(n),
        size_(b.unsqueeze(b.dim_value(n), {0})),
        last_(b.unsqueeze(b.dim_value(n - 1), {0})) {
    const Value numbers = b.op("Mod", {b.range(n * 2), size_});
    rows_ = b.unsqueeze(numbers, {1});
    columns_ = numbers;
    below_ = b.Equal(rows_, b.Add(columns_, b.i64(1)));
  }

  // Householder reduction (GVL 7.4.2): I - 2 v v^H / (v^H v) zeroes a column below the subdiagonal.
  // Updates H and, if present, Q.
  Values hessenberg(Builder& b, const Values& matrices) const {
    const Value zero = f64(b, 0), one = f64(b, 1);
    const Value low = b.GreaterOrEqual(b.unsqueeze(b.range(n_ * 2), {1}), size_);
    const Value unit = b.Equal(low, b.cast(b.i64s({0, 1}), DType::boolean));
    return iterate(b, n_, matrices, [&](Value k, const Values& carried) -> Values {
      const Value column = b.gather(carried[0], b.concat({k, b.Add(k, size_)}, 0), -1);
      const Value x = b.where(b.Greater(rows_, k), column, zero);
      const Value first = b.Equal(rows_, b.Add(k, b.i64(1)));
      // A doubled column contains each part twice.
      const auto length = [&](Value pairs) {
        const Value squares = b.reduce("ReduceSumSquare", pairs, {-2, -1}, /*keepdims=*/true);
        return b.Sqrt(b.Mul(squares, f64(b, 0.5)));
      };
      const Value norm = length(x);
      const Value head = length(b.where(first, x, zero));
      const Value headless = b.Equal(head, zero);
      const Value stretch = b.Add(b.Div(norm, b.where(headless, one, head)), one);
      const Value alone = b.where(b.And(first, unit), norm, x);
      const Value v = b.where(headless, alone, b.where(first, b.Mul(x, stretch), x));
      const Value square = b.Mul(b.reduce("ReduceSumSquare", v, {-2, -1}, true), f64(b, 0.25));
      const Value scale = b.where(b.Equal(square, zero), one, square);
      const Value row = transposed(b, b.Div(v, scale));
      Values next = carried;
      next[0] = b.Sub(next[0], b.matmul(v, b.matmul(row, next[0])));
      for (Value& x : next) x = b.Sub(x, b.matmul(b.matmul(x, v), row));
      return next;
    });
  }

  Value triangular(Builder& b, Value h, const Shape& batch) const {
    const Value norm = b.Sqrt(b.reduce("ReduceSumSquare", top(b, h), {-2, -1}, true));
    const Value negligible = b.Mul(norm, f64(b, 1e-15));
    Value result = iterate_while(b, n_ * kMostSteps, {h}, [&](Value k, const Values& carried) {
      const Value cleaned = deflated(b, carried[0], negligible);
      const Value active = active_size(b, cleaned);
      const Value most = greatest(b, active);
      const Value shift = shift_matrix(b, cleaned, active, k);
      const Value shifted = b.Sub(cleaned, shift);
      const Value turned = swept(b, shifted, active, b.dim_of(most, DimRange::size()), batch);
      return Values{b.Greater(most, b.i64(1)), b.Add(turned, shift)};
    })[0];
    return deflated(b, result, negligible);
  }

 private:
  struct Rotated {
    Value matrix, rotation;
  };

  // Returns the indices of rows p and p + 1 in both halves; p + 1 is clamped to the last row.
  Value quad(Builder& b, Value p) const {
    const Value q = b.Min(b.Add(p, b.i64(1)), last_);
    return b.concat({p, q, b.Add(p, size_), b.Add(q, size_)}, 0);
  }

  Value top(Builder& b, Value h) const { return b.slice(h, -2, 0, n_ * 2); }

  Value scattered(Builder& b, Value x, Value places, Value by, int64_t axis) const {
    const Value along = axis == -1 ? places : b.unsqueeze(places, {1});
    return b.op("ScatterElements", {x, b.expand(along, by->known_shape()), by}, {{"axis", axis}});
  }

  // Applies the rotation of rows p and p + 1 that zeroes the lower element of a column, in the
  // matrices where `active` is set.
  Rotated rotate_rows(Builder& b, Value x, Value p, Value column, Value active) const {
    static constexpr int64_t kPlaces[] = {0, 1, 2, 3, 1, 0, 3, 2, 2, 3, 0, 1, 3, 2, 1, 0};
    static constexpr double kSigns[] = {1, 1, 1, 1, -1, 1, 1, -1, -1, -1, 1, 1, -1, 1, -1, 1};
    const Value places = quad(b, p);
    const Value rows = b.gather(x, places, -2);
    const Value pair = b.squeeze(column_at(b, rows, column), {-1});
    const Value norm =
        b.unsqueeze(b.Sqrt(b.reduce("ReduceSumSquare", pair, {-1}, /*keepdims=*/true)), {-1});
    const Value elements =
        b.gather(pair, b.tensor(make_tensor(DType::i64, {4, 4}, std::span(kPlaces))), -1);
    const Value signs = b.tensor(make_tensor(DType::f64, {4, 4}, std::span(kSigns)));
    const Value turned = b.Div(b.Mul(elements, signs), norm);
    const Value turns = b.And(active, b.Greater(norm, f64(b, 0)));
    const Value rotation = b.where(turns, turned, identity(b, 4, 4));
    return {scattered(b, x, places, b.matmul(rotation, rows), -2), rotation};
  }

  // Applies the conjugate rotation to columns p and p + 1.
  Value rotate_columns(Builder& b, Value x, Value p, Value rotation) const {
    const Value places = quad(b, p);
    const Value columns = b.matmul(b.gather(x, places, -1), transposed(b, rotation));
    return scattered(b, x, places, columns, -1);
  }

  // Sets negligible subdiagonal elements to zero.
  Value deflated(Builder& b, Value x, Value negligible) const {
    const Value h = top(b, x);
    const Value small = b.Less(sizes_below(b, h), negligible);
    const Value drop = b.And(below_, b.concat({small, small}, -2));
    const Value cleaned = b.where(drop, f64(b, 0), h);
    if (x->dim(-2) == h->dim(-2)) return cleaned;
    return b.concat({cleaned, b.slice(x, -2, n_ * 2, n_ * 4)}, -2);
  }

  // Returns the magnitudes of the elements left of the diagonal, one per row; [*, n, 1].
  Value sizes_below(Builder& b, Value h) const {
    const Value left = b.slice(b.where(below_, h, f64(b, 0)), -1, 0, n_);
    const Complex z = parts(b, b.reduce("ReduceSum", left, {-1}, /*keepdims=*/true), n_);
    return size_of(b, z);
  }

  // Returns the number of rows up to the last nonzero subdiagonal element; [*, 1, 1].
  Value active_size(Builder& b, Value x) const {
    const Value counts = b.Greater(sizes_below(b, top(b, x)), f64(b, 0));
    const Value numbers = row_numbers(b, n_);
    const Value rows = b.where(counts, numbers, b.i64(0));
    const Value most = b.ops("TopK", 2, {rows, b.i64s({1})}, {{"axis", int64_t{-2}}})[0];
    return b.Add(most, b.i64(1));
  }

  // Returns the element h[active - r, active - c] of each matrix.
  Complex element(Builder& b, Value h, Value active, int64_t r, int64_t c) const {
    const Value row = b.Equal(rows_, b.Sub(active, b.i64(r)));
    const Value column = b.Equal(columns_, b.Sub(active, b.i64(c)));
    const Value only = b.where(b.And(row, column), h, f64(b, 0));
    const Value left = b.slice(only, -1, 0, n_);
    const Complex z = parts(b, b.reduce("ReduceSum", left, {-1}, true), n_);
    return {b.reduce("ReduceSum", z.real, {-2}, true),
            b.reduce("ReduceSum", z.imaginary, {-2}, true)};
  }

  // Returns the Wilkinson shift, the eigenvalue of the trailing active 2x2 block that is closer to
  // its last element. Every tenth step uses an exceptional shift to prevent cycles. The result is
  // the doubled matrix of the shift times the active identity.
  Value shift_matrix(Builder& b, Value x, Value active, Value k) const {
    const Value h = top(b, x), zero = f64(b, 0);
    const Complex d = element(b, h, active, 1, 1), lower = element(b, h, active, 1, 2);
    const Complex product = mul(b, element(b, h, active, 2, 1), lower);
    const Complex difference = sub(b, element(b, h, active, 2, 2), d);
    const Complex half = mul(b, difference, {f64(b, 0.5)});
    const Complex root = sqrt(b, add(b, mul(b, half, half), product));
    const Complex sum = add(b, half, root), other = sub(b, half, root);
    const Value longer = b.GreaterOrEqual(size_of(b, sum), size_of(b, other));
    const Complex divisor{b.where(longer, sum.real, other.real),
                          b.where(longer, sum.imaginary, other.imaginary)};
    const Value none = b.Equal(size_of(b, divisor), zero);
    const Complex safe{b.where(none, f64(b, 1), divisor.real), divisor.imaginary};
    const Complex wilkinson = sub(b, d, div(b, product, safe));
    const Value exceptional = b.Equal(b.op("Mod", {k, b.i64(10)}), b.i64(9));
    const Value away = b.Add(d.real, b.Mul(size_of(b, lower), f64(b, 0.75)));
    const Complex shift{b.where(exceptional, away, wilkinson.real),
                        b.where(exceptional, d.imaginary, wilkinson.imaginary)};
    const Value on = b.And(b.Equal(rows_, columns_), b.Less(rows_, active));
    const Complex unit{b.where(on, shift.real, zero), b.where(on, shift.imaginary, zero)};
    return placed(b, unit, x);
  }

  // Returns a doubled matrix with these parts, padded with zero rows to the height of x.
  Value placed(Builder& b, const Complex& whole, Value x) const {
    const Value position = b.range(n_ * 2);
    const Value low = b.GreaterOrEqual(b.unsqueeze(position, {1}), size_);
    const Value right = b.GreaterOrEqual(position, size_);
    const Value signed_part = b.where(low, whole.imaginary, b.Neg(whole.imaginary));
    const Value result = b.where(b.Xor(low, right), signed_part, whole.real);
    if (x->dim(-2) == n_ * 2) return result;
    std::vector<Dim> pads(2 * static_cast<size_t>(result->rank()), 0);
    pads[pads.size() - 2] = n_ * 2;
    const Value padded = b.pad(result, pads);
    b.refine(padded, x->known_shape());
    return padded;
  }

  // Returns R Q for the factorization Q R of the active part. Columns rotate one step after the
  // rows that need them.
  Value swept(Builder& b, Value x, Value active, const Dim& steps, const Shape& batch) const {
    const Value start = b.expand(identity(b, 4, 4), with_batch(batch, {4, 4}));
    return iterate(b, steps, {x, start}, [&](Value k, const Values& carried) -> Values {
      const Value turns = b.Less(b.Add(k, b.i64(1)), active);
      const Rotated rotated = rotate_rows(b, carried[0], k, k, turns);
      const Value before = b.Max(b.Sub(k, b.i64(1)), b.i64(0));
      return {rotate_columns(b, rotated.matrix, before, carried[1]), rotated.rotation};
    })[0];
  }

  Dim n_;
  Value size_, last_;
  Value rows_ = nullptr, columns_ = nullptr;  // modulo n
  Value below_ = nullptr;                     // in each quadrant, the elements left of the diagonal
};

// Returns the eigenvectors of the doubled triangular matrix, as columns [real; imaginary].
Value triangular_vectors(Builder& b, Value t, const Complex& values, const Dim& n) {
  const Value zero = f64(b, 0);
  const Value numbers = b.op("Mod", {b.range(n * 2), b.dim_value(n)});
  const Value columns = column_numbers(b, n);
  const Value right = b.where(b.Less(b.unsqueeze(numbers, {1}), numbers), t, zero);
  const Value norm = b.Sqrt(b.reduce("ReduceSumSquare", t, {-2, -1}, true));
  const Value smallest = b.Max(b.Mul(norm, f64(b, 1e-16)), f64(b, 1e-300));
  const Shape shape = with_batch(batch_of(t), {n * 2, n});
  const Value start = b.full(DType::f64, 0, shape);
  return iterate(b, n, {start}, [&](Value step, const Values& carried) -> Values {
    const Value i = b.Sub(b.dim_value(n - 1), step);
    const Value places = b.concat({i, b.Add(i, b.dim_value(n))}, 0);
    const Value known = b.matmul(b.gather(right, places, -2), carried[0]);
    const Complex own{column_at(b, values.real, i), column_at(b, values.imaginary, i)};
    const Complex gap = sub(b, values, own);
    const Value close = b.Less(size_of(b, gap), smallest);
    const Complex divisor{b.where(close, smallest, gap.real), b.where(close, zero, gap.imaginary)};
    const Complex x = div(b, parts(b, known, 1), divisor);
    const Value later = b.Greater(columns, i);
    const Value one = b.cast(b.Equal(columns, i), DType::f64);
    const Value real = b.where(later, x.real, one);
    const Value imaginary = b.where(later, x.imaginary, zero);
    const Value rows = b.concat({real, imaginary}, -2);
    const Value along = b.expand(b.unsqueeze(places, {1}), rows->known_shape());
    return {b.op("ScatterElements", {carried[0], along, rows}, {{"axis", int64_t{-2}}})};
  })[0];
}

// Scales columns to length one, with a real and positive greatest element.
Complex with_length_one(Builder& b, Value vectors, const Dim& n) {
  const Value norm = b.Sqrt(b.reduce("ReduceSumSquare", vectors, {-2}, /*keepdims=*/true));
  const Complex z = parts(b, b.Div(vectors, norm), n);
  const Value size = size_of(b, z);
  const Value place = b.ops("TopK", 2, {size, b.i64s({1})}, {{"axis", int64_t{-2}}})[1];
  const auto at_place = [&](Value x) {
    return b.op("GatherElements", {x, place}, {{"axis", int64_t{-2}}});
  };
  const Complex greatest{at_place(z.real), at_place(z.imaginary)};
  const Complex phase = div(b, greatest, {at_place(size)});
  return mul(b, z, conjugate(b, phase));
}

// T and, if requested, Q of A = Q T Q^H, doubled.
struct SchurForm {
  Value t, q;
};

SchurForm schur_form(Builder& b, const Complex& a, bool with_q) {
  const Dim n = a.real->dim(-1);
  const Shape batch = batch_of(a.real);
  Values matrices{doubled(b, a)};
  if (with_q) {
    const Shape shape = with_batch(batch, {n * 2, n * 2});
    matrices.push_back(b.expand(identity(b, n * 2, n * 2), shape));
  }
  const Schur schur(b, n);
  const Value start = b.concat(schur.hessenberg(b, matrices), -2);
  const Value h = schur.triangular(b, start, batch);
  if (!with_q) return {h, nullptr};
  return {b.slice(h, -2, 0, n * 2), b.slice(h, -2, n * 2, n * 4)};
}

Complex gathered(Builder& b, const Complex& z, Value places) {
  const auto along = [&](Value x) {
    const Value all = b.expand(places, x->known_shape());
    return b.op("GatherElements", {x, all}, {{"axis", int64_t{-1}}});
  };
  return {along(z.real), along(z.imaginary)};
}

}  // namespace

Value narrow(const Call& call, const Complex& z) {
  return call.builder().cast(join(call.builder(), z), part_dtype(call));
}

Value doubled(Builder& b, const Complex& z) {
  const Value imaginary = imaginary_part(b, z);
  return b.concat({b.concat({z.real, b.Neg(imaginary)}, -1), b.concat({imaginary, z.real}, -1)},
                  -2);
}

Complex halved(Builder& b, Value matrix, const Dim& rows, const Dim& columns) {
  const Value left = b.slice(matrix, -1, 0, columns);
  b.refine(left, -1, columns);
  const Complex z = parts(b, left, rows);
  return z;
}

ComplexEigen eigen(Builder& b, const Complex& a, bool with_vectors) {
  const Dim n = a.real->dim(-1);
  if (n.equals(0)) {
    const Value none = b.full(DType::f64, 0, with_batch(batch_of(a.real), {0}));
    return {{none, none}, {a.real, a.real}};
  }
  const SchurForm form = schur_form(b, a, with_vectors);
  const Complex triangle = halved(b, form.t, n, n);
  ComplexEigen result;
  result.values = {diagonals(b, triangle.real), diagonals(b, triangle.imaginary)};
  if (!a.imaginary) {
    // Remove the imaginary part that rounding adds to a real eigenvalue.
    const Value norm = b.Sqrt(b.reduce("ReduceSumSquare", a.real, {-2, -1}, true));
    const Value noise = b.squeeze(b.Mul(norm, f64(b, 1e-14)), {-1});
    const Value imaginary = result.values.imaginary;
    result.values.imaginary = b.where(b.Less(b.Abs(imaginary), noise), f64(b, 0), imaginary);
  }
  if (!with_vectors) return result;
  const Complex row{b.unsqueeze(result.values.real, {-2}),
                    b.unsqueeze(result.values.imaginary, {-2})};
  const Value vectors = b.matmul(form.q, triangular_vectors(b, form.t, row, n));
  result.vectors = with_length_one(b, vectors, n);
  return result;
}

Complex hermitian(Builder& b, const Complex& a, bool upper) {
  const Value strict =
      upper ? upper_triangle(b, a.imaginary, 1) : lower_triangle(b, a.imaginary, -1);
  return {symmetric(b, a.real, upper), b.Sub(strict, transposed(b, strict))};
}

// The Schur form of a normal matrix is diagonal.
ComplexEigen hermitian_eigen(Builder& b, const Complex& a, bool upper) {
  const Dim n = a.real->dim(-1);
  if (n.equals(0)) return eigen(b, a, /*with_vectors=*/true);
  const SchurForm form = schur_form(b, hermitian(b, a, upper), /*with_q=*/true);
  const Value values = diagonals(b, halved(b, form.t, n, n).real);
  const Pair sorted = sort(b, values, -1, /*descending=*/false);
  const Complex vectors = halved(b, form.q, n, n);
  return {{sorted[0]}, gathered(b, vectors, b.unsqueeze(sorted[1], {-2}))};
}

}  // namespace onnx_native::ops
