#include "ops/formulas/loop.h"

namespace onnx_native::ops {
namespace {

Values run(Builder& b, Value count, const Values& initial, bool conditional, const LoopStep& step,
           const std::vector<Shape>& changing = {}) {
  size_t results = 0;
  auto body = b.subgraph("step", [&] {
    const Value iteration = b.graph().add_input("", DType::i64, Shape{});
    const Value condition = b.graph().add_input("", DType::boolean, Shape{});
    Values states;
    for (size_t i = 0; i < initial.size(); ++i) {
      const std::optional<Shape>& kept = initial[i]->shape;
      states.push_back(
          b.graph().add_input("", initial[i]->dtype, changing.empty() ? kept : changing[i]));
    }
    Values next = step(iteration, states);
    if (!conditional) next.insert(next.begin(), condition);
    for (size_t i = 0; i < initial.size(); ++i) {
      if (initial[i]->shape && changing.empty()) b.refine(next[i + 1], *initial[i]->shape);
    }
    results = next.size() - 1;
    return next;
  });
  Values inputs{count, conditional || initial.empty() ? b.boolean(true) : nullptr};
  inputs.insert(inputs.end(), initial.begin(), initial.end());
  return b.ops("Loop", results, std::move(inputs), {{"body", std::move(body)}});
}

}  // namespace

Values loop(Builder& b, Value count, const Values& initial, const LoopStep& step,
            const std::vector<Shape>& changing) {
  return run(b, count, initial, /*conditional=*/false, step, changing);
}

Values loop_while(Builder& b, Value count, const Values& initial, const LoopStep& step) {
  return run(b, count, initial, /*conditional=*/true, step);
}

Scanned scan(Builder& b, const Values& initial, const Values& scanned, const ScanStep& step,
             const ScanOptions& options) {
  size_t count = 0;
  auto body = b.subgraph("step", [&] {
    Values states, slices;
    for (const Value start : initial) {
      states.push_back(b.graph().add_input("", start->dtype, start->shape));
    }
    for (const Value whole : scanned) {
      Shape slice = whole->known_shape();
      slice.erase(slice.begin() + options.axis);
      slices.push_back(b.graph().add_input("", whole->dtype, std::move(slice)));
    }
    Values results = step(states, slices);
    count = results.size();
    // A state and an output must be distinct results even if they are the same value.
    for (size_t i = initial.size(); i < count; ++i) results[i] = b.Identity(results[i]);
    return results;
  });
  Values inputs = initial;
  inputs.insert(inputs.end(), scanned.begin(), scanned.end());
  const size_t outputs = count - initial.size();
  std::vector<onnx::Attribute> attributes = {
      {"body", std::move(body)}, {"num_scan_inputs", static_cast<int64_t>(scanned.size())}};
  if (options.axis != 0)
    attributes.push_back({"scan_input_axes", Ints(scanned.size(), options.axis)});
  if (options.output_axis != 0) {
    attributes.push_back({"scan_output_axes", Ints(outputs, options.output_axis)});
  }
  if (options.backwards) {
    attributes.push_back({"scan_input_directions", Ints(scanned.size(), 1)});
    attributes.push_back({"scan_output_directions", Ints(outputs, 1)});
  }
  const Values results = b.ops("Scan", count, std::move(inputs), std::move(attributes));
  const auto states = static_cast<std::ptrdiff_t>(initial.size());
  return {{results.begin(), results.begin() + states}, {results.begin() + states, results.end()}};
}

Value any_true(Builder& b, Value condition) {
  return b.Greater(b.reduce("ReduceSum", b.cast(condition, DType::i64), {}, false), b.i64(0));
}

}  // namespace onnx_native::ops
