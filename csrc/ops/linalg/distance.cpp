#include "ops/formulas/distance.h"

#include "onnx/builder.h"
#include "ops/families.h"
#include "ops/formulas/rounding.h"

namespace onnx_native::ops {
namespace {

Value cdist(Builder& b, Value x1, Value x2, const Number& p, Ignored) {
  return p_norm(b, b.Sub(b.unsqueeze(x1, {-2}), b.unsqueeze(x2, {-3})), p, -1, false);
}

// Returns the distances between the rows of a matrix, one for each pair.
Value pdist(Builder& b, Value self, const Number& p) {
  const Dim n = self->dim(0), pairs = Dim::floor_div(n * (n - 1), 2);
  const Value position = b.range(n);
  const Value above = b.Less(b.unsqueeze(position, {1}), b.unsqueeze(position, {0}));
  const Value coordinates = b.op("NonZero", {above});
  const auto rows = [&](int64_t i) {
    return b.gather(self, b.reshape(b.select(coordinates, 0, i), {pairs}), 0);
  };
  return p_norm(b, b.Sub(rows(0), rows(1)), p, -1, false);
}

}  // namespace

void register_distance(OpTable& ops) {
  ops.def({"aten::cdist", "aten::_cdist_forward"}, Promote::standard, cdist);
  ops.def("aten::_euclidean_dist",
          [](Builder& b, Value x1, Value x2) { return cdist(b, x1, x2, 2, {}); });
  ops.def({"aten::pdist", "aten::_pdist_forward"}, pdist);
  // ATen promotes by the dtypes alone, also those of numbers.
  ops.def("aten::cosine_similarity", [](Builder& b, Value x1, Value x2, int64_t dim,
                                        const Number& eps) {
    const DType dtype = float_dtype(promote_types(x1->dtype, x2->dtype));
    return rounded_once(cosine_similarity)(b, b.cast(x1, dtype), b.cast(x2, dtype), dim, eps);
  });
  ops.def("aten::pairwise_distance", Promote::standard, pairwise_distance);
}

}  // namespace onnx_native::ops
