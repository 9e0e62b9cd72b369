#include "ops/loop.h"

namespace onnx_native::ops {

namespace {

Values run(Builder& b, Value count, const Values& initial, bool conditional, const LoopStep& step) {
  size_t results = 0;
  auto body = b.subgraph("step", [&] {
    const Value iteration = b.graph().add_input("", DType::i64, Shape{});
    const Value condition = b.graph().add_input("", DType::boolean, Shape{});
    Values states;
    for (const Value start : initial) {
      states.push_back(b.graph().add_input("", start->dtype, start->shape));
    }
    Values next = step(iteration, states);
    if (!conditional) next.insert(next.begin(), condition);
    for (size_t i = 0; i < initial.size(); ++i) {
      if (initial[i]->shape) next[i + 1]->shape = initial[i]->shape;
    }
    results = next.size() - 1;
    return next;
  });
  Values inputs{count, conditional || initial.empty() ? b.boolean(true) : nullptr};
  inputs.insert(inputs.end(), initial.begin(), initial.end());
  return b.ops("Loop", results, std::move(inputs), {{"body", std::move(body)}});
}

}  // namespace

Values loop(Builder& b, Value count, const Values& initial, const LoopStep& step) {
  return run(b, count, initial, /*conditional=*/false, step);
}

Values loop_while(Builder& b, Value count, const Values& initial, const LoopStep& step) {
  return run(b, count, initial, /*conditional=*/true, step);
}

Value any_true(Builder& b, Value condition) {
  return b.Greater(b.reduce("ReduceSum", b.cast(condition, DType::i64), {}, false), b.i64(0));
}

}  // namespace onnx_native::ops
