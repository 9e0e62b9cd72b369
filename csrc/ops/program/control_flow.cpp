// Control flow: torch.cond, while_loop, scan and map, and TorchScript's loops, as If, Loop and
// Scan.
#include <algorithm>

#include "ops/engine/lower.h"
#include "ops/families.h"
#include "ops/formulas/axes.h"
#include "ops/nn/flex_attention.h"

namespace onnx_native::ops {
namespace {

// Returns a number or tensor as a tensor.
Value as_value(Builder& b, const Lowered& lowered) {
  return lowered.value ? lowered.value : b.dim_value(*lowered.dim);
}

Values as_values(Builder& b, const Results& results) {
  Values values;
  for (const Lowered& result : results) values.push_back(as_value(b, result));
  return values;
}

// Adds an input to the graph that the Builder builds, with the type of the subgraph's input.
Value body_input(Builder& b, const aten::Value& input, Value initial) {
  const aten::Type type = lowered_type(input.type);
  Value value = type.is_tensor() ? b.graph().add_input("", type.dtype, type.shape)
                                 : b.graph().add_input("", initial->dtype, Shape{});
  b.bind_sizes(value);
  return value;
}

Results append(Results a, const Results& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Results cond(Builder& b, Value pred, const aten::Graph& true_fn, const aten::Graph& false_fn,
             Ignored, const Call& call) {
  Results operands = call.elements(3);
  auto branch = [&](const aten::Graph& body) {
    return [&] { return as_values(b, call.inline_body(body, operands)); };
  };
  Value condition = b.cast(b.reshape(pred, {}), DType::boolean);
  return binder::results(b.if_else(condition, branch(true_fn), branch(false_fn)));
}

Results while_loop(Builder& b, const aten::Graph& cond_fn, const aten::Graph& body_fn, Ignored,
                   Ignored, const Call& call) {
  Results initial = call.elements(2);
  Results additional = call.elements(3);
  auto condition = [&](const Results& carried) {
    Value value = nullptr;
    Results results = call.inline_body(cond_fn, append(carried, additional));
    value = b.cast(b.reshape(as_value(b, results.at(0)), {}), DType::boolean);
    return value;
  };
  Value first = nullptr;
  b.scoped([&] { first = condition(initial); });
  Values inputs{nullptr, first};
  Values initial_values = as_values(b, initial);
  inputs.insert(inputs.end(), initial_values.begin(), initial_values.end());
  auto body = b.subgraph("body", [&] {
    b.graph().add_input("", DType::i64, Shape{});
    b.graph().add_input("", DType::boolean, Shape{});
    Results carried;
    for (size_t i = 0; i < initial.size(); ++i)
      carried.emplace_back(body_input(b, *body_fn.inputs[i], initial_values[i]));
    Results next = call.inline_body(body_fn, append(carried, additional));
    for (size_t i = 0; i < next.size(); ++i) next[i] = as_value(b, next[i]);
    Value again = nullptr;
    b.scoped([&] { again = condition(next); });
    Values results = as_values(b, next);
    results.insert(results.begin(), again);
    return results;
  });
  return binder::results(
      b.ops("Loop", initial.size(), std::move(inputs), {{"body", std::move(body)}}));
}

// Emits Loop: at most `trip_count` iterations (None: no limit) while the condition holds. The body
// takes the iteration number, the loop-carried values and its captures; it returns the condition,
// the next loop-carried values, and the values to stack.
Results for_loop(Builder& b, Ignored, Ignored, const aten::Graph& body_fn, Ignored, Ignored,
                 const Call& call) {
  const Results initial = call.elements(3);
  const Results captured = call.elements(4);
  const Values states = as_values(b, initial);
  Values inputs{
      call.is_none(0) ? nullptr : b.dim_value(call.dim(0)),
      call.argument(1).get<bool>() ? b.boolean(call.boolean(1)) : call.tensor(1, DType::boolean)};
  inputs.insert(inputs.end(), states.begin(), states.end());
  const bool goes_on = body_fn.outputs.at(0).get<bool>() && *body_fn.outputs[0].get<bool>();
  size_t results = 0;
  auto body = b.subgraph("body", [&] {
    Results arguments{b.graph().add_input("", DType::i64, Shape{})};
    const Value condition = b.graph().add_input("", DType::boolean, Shape{});
    for (size_t i = 0; i < states.size(); ++i)
      arguments.emplace_back(body_input(b, *body_fn.inputs[i + 1], states[i]));
    Values outputs = as_values(b, call.inline_body(body_fn, append(arguments, captured)));
    outputs[0] = goes_on ? condition : b.cast(b.reshape(outputs[0], {}), DType::boolean);
    results = outputs.size() - 1;
    return outputs;
  });
  return binder::results(b.ops("Loop", results, std::move(inputs), {{"body", std::move(body)}}));
}

bool has_shape(const aten::Argument& result) {
  const aten::Value* value = result.as_value();
  return value && value->type.shape;
}

// Emits Scan over the first axis of `inputs`. The body takes the loop-carried values, which start
// as `initial`, the slices, and `additional`. ONNX Runtime's Scan needs a step: if there may be
// none, an If returns what it starts from, and empty results.
Values scan_over(Builder& b, const aten::Graph& body_fn, const Values& initial,
                 const Values& inputs, const Results& additional, const Call& call) {
  Values results;
  const auto with_steps = [&] {
    auto body = b.subgraph("body", [&] {
      Results arguments;
      for (size_t i = 0; i < initial.size(); ++i)
        arguments.emplace_back(body_input(b, *body_fn.inputs[i], initial[i]));
      for (Value input : inputs) {
        const Shape slice = part_of(input, 1);
        Value value = b.graph().add_input("", input->dtype, slice);
        b.bind_sizes(value);
        arguments.emplace_back(value);
      }
      results = as_values(b, call.inline_body(body_fn, append(arguments, additional)));
      return results;
    });
    Values operands = initial;
    operands.insert(operands.end(), inputs.begin(), inputs.end());
    return b.ops(
        "Scan", results.size(), std::move(operands),
        {{"body", std::move(body)}, {"num_scan_inputs", static_cast<int64_t>(inputs.size())}});
  };
  const auto without_steps = [&] {
    Values values = initial;
    for (size_t i = initial.size(); i < results.size(); ++i) {
      Shape shape = results[i]->known_shape();
      shape.insert(shape.begin(), Dim(0));
      values.push_back(b.full(results[i]->dtype, 0, shape));
    }
    return values;
  };
  const Dim steps = inputs[0]->dim(0);
  if (steps.known_positive() || !std::ranges::all_of(body_fn.outputs, has_shape))
    return with_steps();
  return b.if_else(b.Greater(b.dim_value(steps), b.i64(0)), with_steps, without_steps);
}

Results scan(Builder& b, const aten::Graph& combine_fn, Ignored, Ignored, Ignored,
             const Call& call) {
  Values initial = as_values(b, call.elements(1));
  return binder::results(
      scan_over(b, combine_fn, initial, as_values(b, call.elements(2)), call.elements(3), call));
}

// Emits Loop for a scan whose steps return pieces of different lengths, which the loop carries
// concatenated. `axes` has the axis for each result after the states; None for one that is stacked.
Results scan_pieces(Builder& b, const aten::Graph& body_fn, Ignored, Ignored, Ignored, Ignored,
                    const Call& call) {
  const Values initial = as_values(b, call.elements(1));
  const Values inputs = as_values(b, call.elements(2));
  const Results captured = call.elements(3);
  const aten::Argument::List& axes = *call.argument(4).get<aten::Argument::List>();
  Values carried = initial;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto* axis = axes[i].get<int64_t>();
    if (!axis) continue;
    const aten::Type type = lowered_type(body_fn.outputs.at(initial.size() + i).as_value()->type);
    Shape shape = *type.shape;
    shape[static_cast<size_t>(*axis)] = 0;
    carried.push_back(b.full(type.dtype, 0, shape));
  }
  size_t results = 0;
  auto body = b.subgraph("body", [&] {
    const Value step = b.graph().add_input("", DType::i64, Shape{});
    const Value condition = b.graph().add_input("", DType::boolean, Shape{});
    Results arguments;
    for (size_t i = 0; i < initial.size(); ++i)
      arguments.emplace_back(body_input(b, *body_fn.inputs[i], initial[i]));
    Values pieces;  // of the steps before
    for (size_t i = 0; i < axes.size(); ++i) {
      const auto* axis = axes[i].get<int64_t>();
      if (!axis) continue;
      const Value start = carried[initial.size() + pieces.size()];
      Shape shape = start->known_shape();
      shape[static_cast<size_t>(*axis)] = Dim::fresh();
      pieces.push_back(b.graph().add_input("", start->dtype, std::move(shape)));
    }
    for (const Value input : inputs) {
      const Value slice = b.gather(input, step, 0);
      b.bind_sizes(slice);
      arguments.emplace_back(slice);
    }
    const Values found = as_values(b, call.inline_body(body_fn, append(arguments, captured)));
    Values outputs{condition};
    outputs.insert(outputs.end(), found.begin(),
                   found.begin() + static_cast<std::ptrdiff_t>(initial.size()));
    Values stacked;
    auto before = pieces.begin();
    for (size_t i = 0; i < axes.size(); ++i) {
      const Value piece = found.at(initial.size() + i);
      if (const auto* axis = axes[i].get<int64_t>())
        outputs.push_back(b.op("Concat", {*before++, piece}, {{"axis", *axis}}));
      else
        stacked.push_back(piece);
    }
    outputs.insert(outputs.end(), stacked.begin(), stacked.end());
    results = outputs.size() - 1;
    return outputs;
  });
  Values operands{b.dim_value(inputs.at(0)->dim(0)), nullptr};
  operands.insert(operands.end(), carried.begin(), carried.end());
  const Values made = b.ops("Loop", results, std::move(operands), {{"body", std::move(body)}});
  // The loop returns what it carries first.
  Values ordered(made.begin(), made.begin() + static_cast<std::ptrdiff_t>(initial.size()));
  size_t piece = initial.size(), row = carried.size();
  for (const aten::Argument& axis : axes)
    ordered.push_back(made.at(axis.get<int64_t>() ? piece++ : row++));
  return binder::results(std::move(ordered));
}

Results map(Builder& b, const aten::Graph& f, Ignored, Ignored, const Call& call) {
  return binder::results(
      scan_over(b, f, {}, as_values(b, call.elements(1)), call.elements(2), call));
}

}  // namespace

void register_control_flow(OpTable& ops) {
  ops.def("higher_order::cond", cond);
  ops.def("higher_order::while_loop", while_loop);
  ops.def("higher_order::for_loop", for_loop);
  ops.def("higher_order::scan", scan);
  ops.def("higher_order::scan_pieces", scan_pieces);
  ops.def("higher_order::map_impl", map);
  def_flex_attention(ops);
}

}  // namespace onnx_native::ops
