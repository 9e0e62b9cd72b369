#include "ops/loop.h"

#include <algorithm>

namespace onnx_native::ops {

Values loop(Builder& b, Value count, const Values& initial, const LoopStep& step) {
  return loop(b, count, initial, step, nullptr);
}

Values loop(Builder& b, Value count, const Values& initial, const LoopStep& step,
            const std::function<Value(const Values& states)>& again) {
  size_t results = 0;
  auto body = b.subgraph("step", [&] {
    const Value iteration = b.graph().add_input("", DType::i64, Shape{});
    const Value condition = b.graph().add_input("", DType::boolean, Shape{});
    Values states;
    for (const Value start : initial) {
      states.push_back(b.graph().add_input("", start->dtype, start->shape));
    }
    Values next = step(iteration, states);
    for (Value& value : next) {
      if (std::ranges::find(states, value) != states.end()) value = b.Identity(value);
    }
    results = next.size();
    const auto count = static_cast<std::ptrdiff_t>(initial.size());
    next.insert(next.begin(),
                again ? again(Values(next.begin(), next.begin() + count)) : b.Identity(condition));
    return next;
  });
  Values inputs{count, again || initial.empty() ? b.boolean(true) : nullptr};
  inputs.insert(inputs.end(), initial.begin(), initial.end());
  return b.ops("Loop", results, std::move(inputs), {{"body", std::move(body)}});
}

Value any_true(Builder& b, Value condition) {
  return b.Greater(b.reduce("ReduceSum", b.cast(condition, DType::i64), {}, false), b.i64(0));
}

}  // namespace onnx_native::ops
