// Running sums, products and extremes along one axis.
#include <algorithm>
#include <limits>

#include "ops/axes.h"
#include "ops/compositions.h"
#include "ops/families.h"
#include "ops/numeric.h"
#include "ops/view.h"

namespace onnx_native::ops {
namespace {

using Step = std::function<Values(const Values& state, Value element)>;

// A Scan along the axis: `step` makes the next state from the state and the next slice; the states
// after each step, stacked along the axis, are the result.
Values scan(Builder& b, Value x, int64_t axis, const Values& initial, const Step& step) {
  Shape slice = x->known_shape();
  const Dim length = slice[axis];
  if (!length.known_positive()) {  // ONNX Runtime does not scan nothing
    slice[axis] = 1;
    Values results = scan(b, b.concat({x, b.full(x->dtype, 0, slice)}, axis), axis, initial, step);
    for (Value& result : results) result = b.slice(result, axis, 0, length);
    return results;
  }
  slice.erase(slice.begin() + axis);
  // ONNX Runtime crashes when it stacks slices of no elements along another axis than the first.
  const bool transposes = !numel(slice).known_positive(/*inputs_positive=*/false);
  const auto body = b.subgraph("step", [&] {
    Values state;
    for (const Value start : initial) {
      state.push_back(b.graph().add_input("", start->dtype, slice));
    }
    const Value element = b.graph().add_input("", x->dtype, slice);
    const Values next = step(state, element);
    Values outputs = next;
    for (const Value value : next) outputs.push_back(b.Identity(value));
    return outputs;
  });
  Values inputs;
  for (const Value start : initial) inputs.push_back(b.expand(start, slice));
  inputs.push_back(x);
  const auto states = static_cast<int64_t>(initial.size());
  const Values results = b.ops("Scan", 2 * initial.size(), inputs,
                               {{"body", body},
                                {"num_scan_inputs", 1},
                                {"scan_input_axes", Ints{axis}},
                                {"scan_output_axes", Ints(states, transposes ? 0 : axis)}});
  Values stacked = {results.begin() + states, results.end()};
  if (transposes)
    for (Value& result : stacked) result = move_axis(b, result, 0, axis);
  return stacked;
}

Value for_sum(Builder& b, Value x, std::optional<DType> dtype) {
  return b.cast(x, dtype.value_or(is_floating(x->dtype) ? x->dtype : DType::i64));
}

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
  return running_product(b, x, normalize_axis(dim, x->rank()));
}

Value log_cumsum_exp(Builder& b, Value self, int64_t dim) {
  if (self->rank() == 0 || is_empty(self->known_shape())) return self;
  const Value x = b.cast(self, accumulation_dtype(self->dtype));
  const int64_t axis = normalize_axis(dim, x->rank());
  const Value start = b.like(x, -std::numeric_limits<double>::infinity());
  const Value result = scan(b, x, axis, {start}, [&](const Values& state, Value element) {
    return Values{log_add_exp(b, state[0], element)};
  })[0];
  return b.cast(result, self->dtype);
}

enum class Extreme { greatest, least };

// What no number of the dtype is less, or more, than.
Scalar least(DType dtype) {
  if (is_floating(dtype)) return -std::numeric_limits<double>::infinity();
  return Scalar(lowest_value(dtype)).to_int();
}
Scalar most(DType dtype) {
  if (is_floating(dtype)) return std::numeric_limits<double>::infinity();
  return Scalar(max_value(dtype)).to_int();
}

// The last index of the extreme so far; NaN is more extreme than any number.
std::array<Value, 2> cumulative_extreme(Builder& b, Value self, int64_t dim, Extreme extreme) {
  if (self->rank() == 0) return {self, b.i64(0)};
  const DType dtype = self->dtype;
  const Value x = dtype == DType::boolean ? b.cast(self, DType::i32) : self;
  const int64_t axis = normalize_axis(dim, x->rank());
  if (is_empty(x->known_shape())) return {self, b.full(DType::i64, 0, x->known_shape())};
  const Value start = b.like(x, extreme == Extreme::greatest ? least(x->dtype) : most(x->dtype));
  // State: value, its index, index of the next element.
  const Values results =
      scan(b, x, axis, {start, b.i64(0), b.i64(0)}, [&](const Values& state, Value element) {
        Value wins = extreme == Extreme::greatest ? b.GreaterOrEqual(element, state[0])
                                                  : b.LessOrEqual(element, state[0]);
        if (is_floating(x->dtype)) wins = b.Or(wins, b.IsNaN(element));
        return Values{b.where(wins, element, state[0]), b.where(wins, state[2], state[1]),
                      b.Add(state[2], b.i64(1))};
      });
  return {b.cast(results[0], dtype), results[1]};
}

}  // namespace

Value running_product(Builder& b, Value x, int64_t axis) {
  return scan(b, x, axis, {b.like(x, 1)}, [&](const Values& state, Value element) {
    return Values{b.Mul(state[0], element)};
  })[0];
}

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
