// A test fixture that runs a pass on a small graph and compares the result as ONNX text.
#pragma once

#include <gtest/gtest.h>

#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "onnx/graph.h"
#include "onnx/typing.h"
#include "passes/passes.h"

namespace onnx_native::passes {

class PassTest : public testing::Test {
 protected:
  using Value = onnx::Value;
  using Values = std::vector<Value*>;
  using Ints = std::vector<int64_t>;
  using Attributes = std::vector<onnx::Attribute>;

  Value* input(std::string_view name, Shape shape, DType dtype = DType::f32) {
    return graph_.add_input(name, dtype, std::move(shape));
  }
  Value* weight(std::string_view name, const Ints& shape) {
    std::vector<double> numbers(1, 0.5);
    for (const int64_t size : shape)
      numbers.resize(numbers.size() * static_cast<size_t>(size), 0.5);
    return graph_.add_initializer(name, make_tensor(DType::f32, shape, numbers));
  }
  Value* ints(const Ints& values, DType dtype = DType::i64) {
    return graph_.add_initializer(
        "", make_tensor(dtype, {static_cast<int64_t>(values.size())}, values));
  }
  Value* number(double value, DType dtype = DType::f32) {
    return graph_.add_initializer("", make_tensor(dtype, {}, std::span<const double>(&value, 1)));
  }
  Value* op(std::string_view op_type, Values inputs, Shape shape, Attributes attributes = {},
            DType dtype = DType::f32, onnx::Graph* graph = nullptr) {
    onnx::Node* node =
        (graph ? *graph : graph_).add_node(op_type, std::move(inputs), 1, std::move(attributes));
    onnx::Typing::set(*node->outputs[0], dtype, std::move(shape));
    return node->outputs[0];
  }
  const TensorData& initializer(std::string_view name) const {
    for (const Value* value : graph_.initializers) {
      if (value->name == name) return *value->constant;
    }
    throw std::out_of_range(std::string(name));
  }
  void result(Value* value, std::string_view name) {
    value->name = name;
    value->named = true;
    graph_.outputs.push_back(value);
  }
  // Runs the pass and dead code elimination; returns the main graph's nodes as text, one per line.
  std::string after(int64_t (*pass)(onnx::Model&)) {
    onnx::verify(model_, "building the test");
    changed_ = pass(model_) != 0;
    onnx::verify(model_, "the pass");
    eliminate_dead_code(model_);
    onnx::verify(model_, "dead code elimination");
    return nodes();
  }
  std::string nodes() const {
    const std::string text = onnx::print(graph_);
    const size_t begin = text.find(" {\n", text.find(") => (")) + 3;
    std::string body = text.substr(begin, text.rfind('}') - begin);
    for (size_t at = 0; (at = body.find("  ", at)) != std::string::npos;) body.erase(at, 2);
    return body;
  }
  // Returns the elements of an input of the value's producer; {-999} if it is not constant.
  static Ints constant_input(const Value* value, size_t index) {
    const Value* input = value->producer->inputs[index];
    return input->is_constant() ? input->constant->integers() : Ints{-999};
  }

  onnx::Model model_;
  onnx::Graph& graph_ = *model_.graph;
  bool changed_ = false;
  const Dim batch_ = Dim::symbol("batch");
  const Dim seq_ = Dim::symbol("seq");
};

}  // namespace onnx_native::passes
