// Assertions that counts are equal. An output depends on them, so that the model fails with them.
#include <algorithm>
#include <utility>

#include "aten/visit.h"
#include "ops/engine/lower.h"

namespace onnx_native::ops {

bool Lowerer::are_equal(const Dim& a, const Dim& b) const {
  return std::ranges::any_of(equal_, [&](const auto& pair) {
    return (pair.first == a && pair.second == b) || (pair.first == b && pair.second == a);
  });
}

void Lowerer::assert_equal(const aten::Node& node) {
  const std::vector<aten::Argument>& sizes = node.arguments[0].as_value()->producer->arguments;
  const auto dim_of = [this](const aten::Argument& size) {
    const Lowered known = lowered(size);
    return known.dim ? *known.dim : builder_.dim_of(known.value);
  };
  const Dim a = dim_of(sizes[0]);
  const Dim b = dim_of(sizes[1]);
  if (a == b || are_equal(a, b)) return;
  builder_.set_location(node.location);
  asserted_.push_back(builder_.Equal(builder_.dim_value(a), builder_.dim_value(b)));
  equal_.emplace_back(a, b);
}

void Lowerer::check_assertions(const aten::Graph& graph) {
  if (asserted_.empty()) return;
  const aten::Value* output = nullptr;
  for (const aten::Argument& argument : graph.outputs)
    aten::for_each_value(argument, [&](const aten::Value* value) {
      const Lowered& known = environment_.at(value);
      if (!known.value || !known.value->shape || (output && known.value->rank() == 0)) return;
      if (!output || environment_.at(output).value->rank() == 0) output = value;
    });
  if (!output) return;
  Builder& b = builder_;
  Value all = asserted_[0];
  for (size_t i = 1; i < asserted_.size(); ++i) all = b.And(all, asserted_[i]);
  const Value fails = b.cast(b.Not(all), DType::i64);
  Value& value = environment_.at(output).value;
  const Shape shape = *value->shape;
  // The shape that the value really has: the program states it for equal sizes. No tensor has as
  // many elements if each size is larger by one. A scalar has no shape [2].
  const Value two = b.i64s({2});
  const Value target = shape.empty()
                           ? b.op("Slice", {two, b.i64s({0}), b.unsqueeze(fails, {0}), b.i64s({0})})
                           : b.Add(b.op("Shape", {value}), fails);
  const std::string name = value->producer ? std::exchange(value->name, "") : "";
  std::vector<onnx::Attribute> attributes;
  if (b.opset() >= 14) attributes.push_back({"allowzero", int64_t{1}});
  value = b.op("Reshape", {value, target}, std::move(attributes));
  b.refine(value, shape);
  value->name = name;
}

}  // namespace onnx_native::ops
