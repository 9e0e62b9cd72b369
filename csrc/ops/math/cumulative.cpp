// Running sums, products and extremes along one axis.
#include "ops/formulas/cumulative.h"

#include <array>
#include <limits>

#include "ops/families.h"
#include "ops/formulas/axes.h"
#include "ops/formulas/numeric.h"

namespace onnx_native::ops {
namespace {

Value cumsum(Builder& b, Value self, int64_t dim, std::optional<DType> dtype) {
  const Value x = for_sum(b, self, dtype);
  if (x->rank() == 0) return x;
  const bool narrow = is_integral(x->dtype) && item_size(x->dtype) < 4;
  const Value wide = narrow ? b.cast(x, DType::i32) : x;
  const int64_t axis = normalize_axis(dim, x->rank());
  return b.cast(b.op("CumSum", {wide, b.i64(axis)}), x->dtype);
}

Value cumprod(Builder& b, Value self, int64_t dim, std::optional<DType> dtype) {
  const Value x = for_sum(b, self, dtype);
  if (x->rank() == 0 || is_empty(x->known_shape())) return x;
  const Value wide = b.cast(x, accumulation_dtype(x->dtype));
  return b.cast(running_product(b, wide, normalize_axis(dim, x->rank())), x->dtype);
}

Value log_cumsum_exp(Builder& b, Value self, int64_t dim) {
  if (self->rank() == 0 || is_empty(self->known_shape())) return self;
  const Value x = b.cast(self, accumulation_dtype(self->dtype));
  const int64_t axis = normalize_axis(dim, x->rank());
  const Value start = b.like(x, -std::numeric_limits<double>::infinity());
  const Value result = running(b, x, axis, {start}, [&](const Values& state, Value element) {
    return Values{log_add_exp(b, state[0], element)};
  })[0];
  return b.cast(result, self->dtype);
}

enum class Extreme { greatest, least };

// The lowest and the highest number of a dtype, infinities included.
Scalar least(DType dtype) {
  if (is_floating(dtype)) return -std::numeric_limits<double>::infinity();
  return Scalar(lowest_value(dtype)).to_int();
}
Scalar most(DType dtype) {
  if (is_floating(dtype)) return std::numeric_limits<double>::infinity();
  return Scalar(max_value(dtype)).to_int();
}

// Returns the extreme so far and its last index. NaN is more extreme than any number.
std::array<Value, 2> cumulative_extreme(Builder& b, Value self, int64_t dim, Extreme extreme) {
  if (self->rank() == 0) return {self, b.i64(0)};
  const DType dtype = self->dtype;
  const Value x = dtype == DType::boolean ? b.cast(self, DType::i32) : self;
  const int64_t axis = normalize_axis(dim, x->rank());
  if (is_empty(x->known_shape())) return {self, b.full(DType::i64, 0, x->known_shape())};
  const Value start = b.like(x, extreme == Extreme::greatest ? least(x->dtype) : most(x->dtype));
  // State: the value, its index, the index of the next element.
  const Values results =
      running(b, x, axis, {start, b.i64(0), b.i64(0)}, [&](const Values& state, Value element) {
        Value wins = extreme == Extreme::greatest ? b.GreaterOrEqual(element, state[0])
                                                  : b.LessOrEqual(element, state[0]);
        if (is_floating(x->dtype)) wins = b.Or(wins, b.IsNaN(element));
        return Values{b.where(wins, element, state[0]), b.where(wins, state[2], state[1]),
                      b.Add(state[2], b.i64(1))};
      });
  return {b.cast(results[0], dtype), results[1]};
}

}  // namespace

void register_cumulative(OpTable& ops) {
  ops.def("aten::cumsum", cumsum);
  ops.def("aten::cumprod", cumprod);
  ops.def("aten::logcumsumexp", log_cumsum_exp);
  ops.def("aten::cummax", [](Builder& b, Value self, int64_t dim) {
    return cumulative_extreme(b, self, dim, Extreme::greatest);
  });
  ops.def("aten::cummin", [](Builder& b, Value self, int64_t dim) {
    return cumulative_extreme(b, self, dim, Extreme::least);
  });
}

}  // namespace onnx_native::ops
