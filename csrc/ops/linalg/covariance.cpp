// Covariances and correlations of variables, one per row.
#include "ops/families.h"
#include "ops/formulas/axes.h"
#include "ops/formulas/linalg.h"
#include "ops/formulas/matrix_product.h"
#include "ops/formulas/numeric.h"

namespace onnx_native::ops {
namespace {

constexpr int64_t kObservations = 1;  // the axis

// The variables as rows; one without an axis of variables is a single row.
Value rows_of(Builder& b, Value self) {
  b.check(self->rank() <= 2, "expected at most 2 dimensions, got ", self->rank());
  return self->rank() == 2 ? self : b.reshape(self, {Dim(1), numel(self->known_shape())});
}

// Returns [n, n] for n variables.
Value covariances(Builder& b, Value rows, const Number& correction, std::optional<Value> fweights,
                  std::optional<Value> aweights) {
  const DType dtype = float_dtype(rows->dtype);
  const Value x = b.cast(rows, accumulation_dtype(dtype));
  const Value importance = aweights ? b.cast(*aweights, x->dtype) : nullptr;
  Value weights = fweights ? b.cast(*fweights, x->dtype) : importance;  // [observations]
  if (fweights && aweights) weights = b.Mul(weights, importance);
  const auto total = [&](Value list) { return sum_over(b, list, {0}, /*keepdim=*/false); };
  const auto weighted = [&](Value values) { return weights ? b.Mul(values, weights) : values; };

  const Value count = weights ? total(weights) : count_like(b, x, count_over(x, {kObservations}));
  const Value mean = b.Div(sum_over(b, weighted(x), {kObservations}, /*keepdim=*/true), count);
  const Value centered = b.Sub(x, mean);
  const Value products = matrix_product(b, centered, transposed(b, weighted(centered)));

  Value bias = b.like(x, correction);
  if (importance) bias = b.Div(b.Mul(bias, total(b.Mul(weights, importance))), count);
  const Value freedom = b.Max(b.Sub(count, bias), b.like(x, 0));
  return b.cast(b.Div(products, freedom), dtype);
}

// A single variable has a number instead of a matrix. A recording holds for one or for several.
Value without_single(Builder& b, Value matrix) {
  return matrix->dim(0).equals(1) ? b.squeeze(matrix, {0, 1}) : matrix;
}

Value correlations(Builder& b, Value self) {
  const Value matrix = covariances(b, rows_of(b, self), 1, std::nullopt, std::nullopt);
  const Value deviation = b.Sqrt(diagonals(b, matrix));
  const Value by_rows = b.Div(matrix, b.unsqueeze(deviation, {1}));
  const Value scaled = b.Div(by_rows, b.unsqueeze(deviation, {0}));
  return without_single(b, clamped(b, scaled, -1, 1));
}

}  // namespace

void register_covariance(OpTable& ops) {
  ops.def("aten::cov", [](Builder& b, Value self, Number correction, std::optional<Value> fweights,
                          std::optional<Value> aweights) {
    return without_single(b, covariances(b, rows_of(b, self), correction, fweights, aweights));
  });
  ops.def("aten::corrcoef", correlations);
}

}  // namespace onnx_native::ops
