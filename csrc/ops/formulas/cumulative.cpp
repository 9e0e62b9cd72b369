#include "ops/formulas/cumulative.h"

#include "ops/formulas/loop.h"
#include "ops/formulas/view.h"

namespace onnx_native::ops {

namespace {

// Requires the axis to have at least one element.
Values scanned(Builder& b, Value x, int64_t axis, const Values& initial, const RunningStep& step) {
  Shape slice = x->known_shape();
  slice.erase(slice.begin() + axis);
  // ONNX Runtime crashes when it takes or stacks empty slices along any axis but the first.
  const bool transposes = !numel(slice).known_positive(/*inputs_positive=*/false);
  Values states;
  for (const Value start : initial) states.push_back(b.expand(start, slice));
  Values stacked = scan(b, states, {transposes ? move_axis(b, x, axis, 0) : x},
                        [&](const Values& state, const Values& slices) {
                          const Values next = step(state, slices[0]);
                          Values results = next;
                          results.insert(results.end(), next.begin(), next.end());
                          return results;
                        },
                        {.axis = transposes ? 0 : axis, .output_axis = transposes ? 0 : axis})
                       .outputs;
  if (transposes)
    for (Value& result : stacked) result = move_axis(b, result, 0, axis);
  return stacked;
}

}  // namespace

Values running(Builder& b, Value x, int64_t axis, const Values& initial, const RunningStep& step) {
  Shape slice = x->known_shape();
  const Dim length = slice[axis];
  if (length.known_positive(/*inputs_positive=*/false)) return scanned(b, x, axis, initial, step);
  // ONNX Runtime does not scan an empty axis, so add an element.
  slice[axis] = 1;
  Values results = scanned(b, b.concat({x, b.full(x->dtype, 0, slice)}, axis), axis, initial, step);
  for (Value& result : results) result = b.slice(result, axis, 0, length);
  return results;
}

Value running_product(Builder& b, Value x, int64_t axis) {
  return running(b, x, axis, {b.like(x, 1)}, [&](const Values& state, Value element) {
    return Values{b.Mul(state[0], element)};
  })[0];
}

}  // namespace onnx_native::ops
