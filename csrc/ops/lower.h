// The driver: aten::Graph in, onnx::Model out, one call at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "aten/graph.h"
#include "onnx/builder.h"
#include "ops/op_table.h"

namespace onnx_native::ops {

// Lowers ATen calls into a Builder's graph, one at a time: results' types are known before the next
// call.
class Lowerer {
 public:
  Lowerer(Builder& builder, const OpTable& table) : builder_(builder), table_(table) {}

  Environment& environment() { return environment_; }
  // Lowers one call; its results enter the environment. Checks results against the types that the
  // reader recorded. Throws ExportError with the node, its arguments' types and the user's source
  // line.
  void lower(const aten::Node& node);
  // Lowers the nodes of a graph that its outputs need.
  void lower(const aten::Graph& graph);
  // Lowers a sub-graph in place with these arguments for its inputs; returns what its outputs
  // became.
  Results inline_body(const aten::Graph& body, const Results& arguments);
  Lowered lowered(const aten::Argument& argument);

 private:
  void bind_input(const aten::Value& input, Lowered argument);
  void check_result(const aten::Node& node, size_t i, Lowered& result);

  Builder& builder_;
  const OpTable& table_;
  Environment environment_;
};

// A complex tensor is a real one with a last axis of 2 in ONNX, its real and its imaginary part:
// what becomes of recorded types and of constants. Others stay.
aten::Type lowered_type(const aten::Type& type);
TensorData lowered_data(const TensorData& data);

// The key that a call's arguments select.
Key key_of(const aten::Node& node);
// All operators of live nodes (sub-graphs included) without an entry; throws one
// ExportError(unsupported_operator) that lists them.
void check_operators(const aten::Graph& graph, const OpTable& table);
// The nodes that outputs need, in order. Updates of buffers and inputs are not part of the model.
std::vector<const aten::Node*> live_nodes(const aten::Graph& graph);

}  // namespace onnx_native::ops
