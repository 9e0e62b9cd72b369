#include <array>
#include <cmath>

#include "ops/complex/real_call.h"
#include "ops/families.h"
#include "ops/formulas/axes.h"
#include "ops/formulas/complex_matrix.h"
#include "ops/formulas/jacobi.h"

namespace onnx_native::ops {
namespace {

// Returns matrix i; linear algebra, unlike arithmetic, does not mix real and complex matrices.
Complex matrix(const Call& call, size_t i) {
  call.builder().check(is_complex(call.argument(i)),
                       "cannot mix real and complex matrices; cast them to one dtype");
  return complex_argument(call, i, DType::f64);
}

Value doubled_pairs(Builder& b, Value pairs) { return doubled(b, split(b, pairs)); }

// Returns true if the matrix norm is a function of the singular values.
bool is_spectral(const Call& call, bool by_name, int64_t dimensions) {
  if (by_name) return call.string(1) == "nuc";
  return !call.is_none(1) && dimensions == 2 && std::abs(call.scalar(1).to_double()) == 2;
}

// Defines linalg_norm or linalg_matrix_norm. A doubled matrix has each singular value twice.
void define_matrix_norm(OpTable& ops, std::string_view op, bool by_name) {
  const Lowering& dense = dense_lowering(ops, op);
  const auto run = [dense, by_name](const Call& call) -> Results {
    Builder& b = call.builder();
    const int64_t rank = call.tensor(0)->rank() - 1;
    const Ints dim = call.is_none(2) ? Ints{} : call.integers(2);
    const auto dimensions = dim.empty() ? rank : static_cast<int64_t>(dim.size());
    if (!is_spectral(call, by_name, dimensions)) {
      return run_through(call, dense, [](Builder& b, Value pairs) { return absolute(b, pairs); });
    }
    const bool last = dim.empty() || (normalize_axis(dim[0], rank) == rank - 2 &&
                                      normalize_axis(dim[1], rank) == rank - 1);
    b.check(last, "this norm of complex matrices requires the matrices in the last two dimensions");
    const Value norm = run_through(call, dense, doubled_pairs)[0].value;
    return {by_name ? b.Mul(norm, b.like(norm, 0.5)) : norm};
  };
  ops.add(op, Key::complex, {.run = run, .parameters = dense.parameters});
}

// Defines an operator that consists of matrix products and inverses: it runs on the doubled matrix.
void define_doubled(OpTable& ops, std::string_view op) {
  const Lowering& dense = dense_lowering(ops, op);
  const auto run = [dense](const Call& call) -> Results {
    Builder& b = call.builder();
    const Value result = run_through(call, dense, doubled_pairs)[0].value;
    const Dim rows = Dim::floor_div(result->dim(-2), 2),
              columns = Dim::floor_div(result->dim(-1), 2);
    return {join(b, halved(b, result, rows, columns))};
  };
  ops.add(op, Key::complex, {.run = run, .parameters = dense.parameters});
}

bool is_complex_vector(const Complex& a, const Complex& rhs) {
  const Shape &matrix = a.real->known_shape(), &other = rhs.real->known_shape();
  return other.size() == 1 || (matrix.size() == other.size() + 1 &&
                               std::equal(other.begin(), other.end(), matrix.begin()));
}

Complex with_columns(Builder& b, const Complex& z, const Ints& axes) {
  return {b.unsqueeze(z.real, axes), b.unsqueeze(z.imaginary, axes)};
}

Value complex_solve(Builder& b, const Call& call, bool left) {
  const Complex a = matrix(call, 0);
  Complex rhs = matrix(call, 1);
  const bool vector = is_complex_vector(a, rhs);
  if (vector) rhs = with_columns(b, rhs, {-1});
  const Dim rows = rhs.real->dim(-2), columns = rhs.real->dim(-1);
  Values both = with_common_batch(b, {doubled(b, a), doubled(b, rhs)});
  if (!left) {
    for (Value& matrix : both) matrix = transposed(b, matrix);
  }
  Value x = solve(b, both[0], both[1], /*with_info=*/false).x;
  if (!left) x = transposed(b, x);
  Complex result = halved(b, x, rows, columns);
  if (vector) result = {b.squeeze(result.real, {-1}), b.squeeze(result.imaginary, {-1})};
  return narrow(call, result);
}

// Returns one triangle of A; with `unit`, its diagonal is not read but set to ones.
Complex triangle(Builder& b, const Complex& a, bool upper, bool unit) {
  const auto side = [&](Value x, int64_t offset) {
    return upper ? upper_triangle(b, x, offset) : lower_triangle(b, x, -offset);
  };
  if (!unit) return {side(a.real, 0), side(a.imaginary, 0)};
  const Dim n = a.real->dim(-1);
  return {b.Add(side(a.real, 1), identity(b, n, n)), side(a.imaginary, 1)};
}

Value solve_triangle(Builder& b, const Call& call, bool upper, bool left, bool unit) {
  const Complex a = triangle(b, matrix(call, 0), upper, unit);
  const Complex rhs = matrix(call, 1);
  Values both = with_common_batch(b, {doubled(b, a), doubled(b, rhs)});
  if (!left) {
    for (Value& matrix : both) matrix = transposed(b, matrix);
  }
  const Value x = solve(b, both[0], both[1], /*with_info=*/false).x;
  return narrow(call, halved(b, left ? x : transposed(b, x), rhs.real->dim(-2), rhs.real->dim(-1)));
}

// Computes the Cholesky factor. With each real row next to its imaginary row, the doubled L is
// triangular too, because its diagonal is real.
Value cholesky_of(Builder& b, const Call& call, bool upper) {
  const Complex a = hermitian(b, matrix(call, 0), upper);
  const Dim n = a.real->dim(-1);
  const Value position = b.range(n * 2);
  const Value two = b.i64(2);
  const Value size = b.dim_value(Dim::max(n, 1));  // avoids a division by 0
  const Value together = b.Add(b.Mul(b.op("Mod", {position, two}), size), b.Div(position, two));
  const Value apart = b.Add(b.Mul(b.op("Mod", {position, size}), two), b.Div(position, size));
  const auto reordered = [&](Value x, Value order) {
    return b.gather(b.gather(x, order, -2), order, -1);
  };
  const Value l = cholesky(b, reordered(doubled(b, a), together), /*with_info=*/false).l;
  Complex z = halved(b, reordered(l, apart), n, n);
  if (upper) z = {transposed(b, z.real), b.Neg(transposed(b, z.imaginary))};
  return narrow(call, z);
}

// --- Determinants.

Complex unit_of(Builder& b, const Complex& z, Value size) {
  const Value zero = b.Equal(size, b.like(size, 0));
  return div(b, z, {b.where(zero, b.like(size, 1), size)});
}

// Returns the product along the last axis.
Complex product_of_all(Builder& b, const Complex& z) {
  const Shape batch = part_of(z.real, 0, -1);
  const Shape shape = with_batch(batch, {1});
  const Values initial{b.full(DType::f64, 1, shape), b.full(DType::f64, 0, shape)};
  const Values result = iterate(b, z.real->dim(-1), initial, [&](Value k, const Values& carried) {
    const Complex factor{column_at(b, z.real, k), column_at(b, z.imaginary, k)};
    const Complex next = mul(b, {carried[0], carried[1]}, factor);
    return Values{next.real, next.imaginary};
  });
  return {b.squeeze(result[0], {-1}), b.squeeze(result[1], {-1})};
}

// The diagonal of U in P A = L U, and the sign of P.
struct Eliminated {
  Complex diagonal;  // [*, n]
  Value parity;      // [*]
};

// Runs Gaussian elimination with partial pivoting (GVL 3.4).
Eliminated eliminate_complex(Builder& b, const Complex& a) {
  const Dim n = a.real->dim(-1);
  const Value rows = row_numbers(b, n);
  const Values initial{a.real, a.imaginary,
                       b.full(DType::f64, 1, with_batch(batch_of(a.real), {1, 1}))};
  const auto of_both = [](const Complex& z, const auto& function) {
    return Complex{function(z.real), function(z.imaginary)};
  };
  const Values result = iterate(b, n, initial, [&](Value k, const Values& carried) -> Values {
    const Complex before{carried[0], carried[1]};
    const auto column_of = [&](Value x) { return column_at(b, x, k); };
    const Value p = pivot_row(b, absolute(b, of_both(before, column_of)), rows, k);
    const Value swap = swapped(b, rows, k, p);
    const Complex x = of_both(before, [&](Value part) { return permuted_rows(b, part, swap); });
    const Complex row = of_both(x, [&](Value part) { return row_at(b, part, k); });
    const Complex pivot = of_both(row, column_of);
    const Value is_zero = b.Equal(absolute(b, pivot), f64(b, 0));
    const Complex divisor{b.where(is_zero, f64(b, 1), pivot.real), pivot.imaginary};
    const Complex rest = sub(b, x, mul(b, div(b, of_both(x, column_of), divisor), row));
    const Value below = b.Greater(rows, k);
    return {b.where(below, rest.real, x.real), b.where(below, rest.imaginary, x.imaginary),
            b.Mul(carried[2], b.where(b.Equal(p, k), f64(b, 1), f64(b, -1)))};
  });
  return {{diagonals(b, result[0]), diagonals(b, result[1])}, b.squeeze(result[2], {-2, -1})};
}

Complex scaled_by(Builder& b, const Complex& z, Value factor) {
  return {b.Mul(z.real, factor), b.Mul(z.imaginary, factor)};
}

struct LogOfComplex {
  Complex sign;
  Value log_of_size;
};

LogOfComplex log_of_complex(Builder& b, const Call& call) {
  const Eliminated u = eliminate_complex(b, matrix(call, 0));
  const Value size = absolute(b, u.diagonal);
  const Value log = b.reduce("ReduceSum", b.Log(size), {-1}, /*keepdims=*/false);
  const Value zero = b.Equal(size, b.like(size, 0));
  const Complex unit = unit_of(b, u.diagonal, size);
  const Complex sign = product_of_all(b, {b.where(zero, size, unit.real), unit.imaginary});
  return {scaled_by(b, sign, u.parity), log};
}

Complex complex_determinant(Builder& b, const Call& call) {
  const Eliminated u = eliminate_complex(b, matrix(call, 0));
  return scaled_by(b, product_of_all(b, u.diagonal), u.parity);
}

// Returns every other one of sorted values that come in equal pairs.
Value every_other(Builder& b, const Call& call, Value values, const Dim& count) {
  const Value once = b.slice(values, -1, 0, count * 2, 2);
  b.refine(once, -1, count);
  return b.cast(once, part_dtype(call));
}

void register_values(OpTable& ops) {
  ops.def("aten::linalg_svdvals", Key::complex, [](Builder& b, Ignored, Ignored, const Call& call) {
    const Complex a = matrix(call, 0);
    const Dim count = Dim::min(a.real->dim(-2), a.real->dim(-1));
    return every_other(b, call, singular_values(b, doubled(b, a)), count);
  });
  ops.def("aten::linalg_eigvalsh", Key::complex,
          [](Builder& b, Ignored, std::string uplo, const Call& call) {
            const bool upper = uplo == "U" || uplo == "u";
            const Complex a = hermitian(b, matrix(call, 0), upper);
            const Value values = symmetric_eigen(b, doubled(b, a), false).values;
            return every_other(b, call, values, a.real->dim(-1));
          });
  ops.def("aten::linalg_eigh", Key::complex,
          [](Builder& b, Ignored, std::string uplo, const Call& call) {
            const bool upper = uplo == "U" || uplo == "u";
            const ComplexEigen result = hermitian_eigen(b, matrix(call, 0), upper);
            return std::array{b.cast(result.values.real, part_dtype(call)),
                              narrow(call, result.vectors)};
          });
  for (const auto* op : {"aten::linalg_det", "aten::det"}) {
    ops.def(op, Key::complex, [](Builder& b, Ignored, const Call& call) {
      return narrow(call, complex_determinant(b, call));
    });
  }
  for (const auto* op : {"aten::linalg_slogdet", "aten::slogdet"}) {
    ops.def(op, Key::complex, [](Builder& b, Ignored, const Call& call) {
      const LogOfComplex result = log_of_complex(b, call);
      return std::array{narrow(call, result.sign), b.cast(result.log_of_size, part_dtype(call))};
    });
  }
}

}  // namespace

void register_linalg_complex(OpTable& ops) {
  for (const auto* op : {"aten::linalg_norm", "aten::linalg_matrix_norm"}) {
    define_matrix_norm(ops, op, /*by_name=*/false);
  }
  for (const auto* op : {"aten::linalg_norm.ord_str", "aten::linalg_matrix_norm.str_ord"}) {
    define_matrix_norm(ops, op, /*by_name=*/true);
  }
  for (const auto* op : {"aten::linalg_inv", "aten::inverse", "aten::linalg_matrix_power",
                         "aten::matrix_power", "aten::linalg_matrix_exp", "aten::matrix_exp"}) {
    define_doubled(ops, op);
  }
  ops.def("aten::linalg_solve", Key::complex,
          [](Builder& b, Ignored, Ignored, bool left, const Call& call) {
            return complex_solve(b, call, left);
          });
  ops.def("aten::linalg_solve_triangular", Key::complex,
          [](Builder& b, Ignored, Ignored, bool upper, bool left, bool unitriangular,
             const Call& call) { return solve_triangle(b, call, upper, left, unitriangular); });
  for (const auto* op : {"aten::linalg_cholesky", "aten::cholesky"}) {
    ops.def(op, Key::complex, [](Builder& b, Ignored, bool upper, const Call& call) {
      return cholesky_of(b, call, upper);
    });
  }
  register_values(ops);
}

}  // namespace onnx_native::ops
