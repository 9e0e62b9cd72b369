// The driver: aten::Graph in, onnx::Model out, one call at a time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "aten/graph.h"
#include "onnx/builder.h"
#include "ops/engine/op_table.h"

namespace onnx_native::ops {

// Lowerings from outside the op table, each made for one call. In a Python process, PyTorch itself
// can give them.
class ForeignLowerings {
 public:
  virtual ~ForeignLowerings() = default;
  // What the user wants in place of the table's entry; nullptr mostly. The lowering lives as long
  // as this object.
  virtual const Lowering* preferred(const aten::Node& node) = 0;
  // For a call that the table has no entry for; nullptr where there is none either.
  virtual const Lowering* fallback(const aten::Node& node) = 0;
  // The operators for which a fallback was found, and where.
  virtual const std::map<std::string, std::string>& used() const = 0;
  // Graphs whose locations and constants the model refers to.
  virtual std::vector<std::shared_ptr<aten::Graph>> take_graphs() = 0;
};

// Where the lowering of a call is looked up.
class Lowerings {
 public:
  explicit Lowerings(const OpTable& table, ForeignLowerings* foreign = nullptr)
      : table_(table), foreign_(foreign) {}
  const OpTable& table() const { return table_; }
  // nullptr when there is none.
  const Lowering* find(const aten::Node& node) const;
  // What the user wants for it, if anything.
  const Lowering* preferred(const aten::Node& node) const;

 private:
  const OpTable& table_;
  ForeignLowerings* foreign_;
};

// Lowers ATen calls into a Builder's graph, one at a time: results' types are known before the next
// call.
class Lowerer {
 public:
  Lowerer(Builder& builder, Lowerings lowerings);

  Environment& environment() { return environment_; }
  // Lowers one call; its results enter the environment. Checks results against the types that the
  // reader recorded. Throws ExportError with the node, its arguments' types and the user's source
  // line.
  void lower(const aten::Node& node);
  // Lowers one call and gives its results, which do not enter the environment; errors as above.
  Results results_of(const aten::Node& node);
  // Lowers the nodes of a graph that its outputs need.
  void lower(const aten::Graph& graph);
  // Lowers a sub-graph in place with these arguments for its inputs; returns what its outputs
  // became.
  Results inline_body(const aten::Graph& body, const Results& arguments);
  Lowered lowered(const aten::Argument& argument);

 private:
  void bind_input(const aten::Value& input, Lowered argument);
  Results run(const aten::Node& node);
  // Runs with the sizes that the model computes; again with the constants that the program records
  // for them, where the lowering needs constants.
  Results run_at_all_sizes(const aten::Node& node);
  Dim known_size(const aten::Node& node, const aten::Value& output);
  // The size that the model computes holds where the recorded one may not.
  bool is_better(const Dim& computed, const Dim& recorded) const;
  void check_result(const aten::Node& node, size_t i, Lowered& result);
  void check_sizes(const Shape& recorded, Value value, size_t i) const;

  Builder& builder_;
  Lowerings lowerings_;
  Environment environment_;
  // The program has recorded a wrong size.
  bool distrusts_record_ = false;
};

// A complex tensor is a real one with a last axis of 2 in ONNX, its real and its imaginary part:
// what becomes of recorded types and of constants. Others stay.
aten::Type lowered_type(const aten::Type& type);
TensorData lowered_data(const TensorData& data);

// The key that a call's arguments select.
Key key_of(const aten::Node& node);
// The calls of live nodes (sub-graphs included) without a lowering.
std::vector<const aten::Node*> missing_operators(const aten::Graph& graph,
                                                 const Lowerings& lowerings);
// Throws one ExportError(unsupported_operator) that lists the operators without a lowering.
void check_operators(const aten::Graph& graph, const Lowerings& lowerings);
// The nodes that outputs need, in order. Updates of buffers and inputs are not part of the model.
std::vector<const aten::Node*> live_nodes(const aten::Graph& graph);

}  // namespace onnx_native::ops
