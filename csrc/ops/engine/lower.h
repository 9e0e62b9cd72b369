// The driver: lowers an aten::Graph into an onnx::Model, one call at a time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "aten/graph.h"
#include "onnx/builder.h"
#include "ops/engine/op_table.h"

namespace onnx_native::ops {

// Lowerings from outside the op table, created on demand. A Python process provides the user's and
// PyTorch's own lowerings through this interface.
class ForeignLowerings {
 public:
  virtual ~ForeignLowerings() = default;
  // Returns the user's replacement for the table's entry, or nullptr if there is none. This object
  // owns the lowering.
  virtual const Lowering* preferred(const aten::Node& node) = 0;
  // Returns a lowering for a call without a table entry, or nullptr if there is none.
  virtual const Lowering* fallback(const aten::Node& node) = 0;
  // Returns the operators that used a fallback, each with the source of the fallback.
  virtual const std::map<std::string, std::string>& used() const = 0;
  // Returns the graphs that the model's locations and constants refer to.
  virtual std::vector<std::shared_ptr<aten::Graph>> take_graphs() = 0;
};

// Finds the lowering of a call: the user's, then the table's, then an ONNX call, then a fallback.
class Lowerings {
 public:
  explicit Lowerings(const OpTable& table, ForeignLowerings* foreign = nullptr)
      : table_(table), foreign_(foreign) {}
  const OpTable& table() const { return table_; }
  // Returns nullptr if there is none.
  const Lowering* find(const aten::Node& node) const;
  // Returns the user's lowering of this call; nullptr if there is none.
  const Lowering* preferred(const aten::Node& node) const;

 private:
  const OpTable& table_;
  ForeignLowerings* foreign_;
};

// Lowers ATen calls into a Builder's graph, one at a time. The result types of a call are known
// before the next call is lowered.
class Lowerer {
 public:
  Lowerer(Builder& builder, Lowerings lowerings);

  Environment& environment() { return environment_; }
  // Lowers one call and stores its results in the environment. Checks the results against the types
  // that the reader recorded. Throws ExportError with the node, its argument types and the user's
  // source line.
  void lower(const aten::Node& node);
  // Lowers one call and returns its results without storing them; throws the same errors.
  Results results_of(const aten::Node& node);
  // Lowers the live nodes of a graph.
  void lower(const aten::Graph& graph);
  // Lowers a sub-graph inline with `arguments` as its inputs; returns the lowered outputs.
  Results inline_body(const aten::Graph& body, const Results& arguments);
  Lowered lowered(const aten::Argument& argument);
  // Returns the sizes whose computed value differs from the recorded one, whatever the inputs are:
  // a defect of the inference or of the capture. The model states the recorded size.
  const std::vector<Fault>& contradictions() const { return contradictions_; }

 private:
  void bind_input(const aten::Value& input, Lowered argument);
  Results run(const aten::Node& node);
  // Runs the lowering with symbolic sizes. If that fails, runs it again with the captured constants
  // in place of the symbolic sizes.
  Results run_at_all_sizes(const aten::Node& node);
  Dim known_size(const aten::Node& node, const aten::Value& output);
  // Returns true if the computed size may be valid where the recorded one is not, at little cost.
  bool is_better(const Dim& computed, const Dim& recorded) const;
  void check_result(const aten::Node& node, size_t i, Lowered& result);
  void check_sizes(const aten::Node& node, const Shape& recorded, Value value, size_t i);
  // Notes the condition of an assertion that the model checks.
  void assert_equal(const aten::Node& node);
  // Makes an output of the graph depend on the conditions that were noted.
  void check_assertions(const aten::Graph& graph);
  // Returns true if the program asserts that the sizes are equal.
  bool are_equal(const Dim& a, const Dim& b) const;
  Shape kept_shape(const Shape& computed, const Shape& recorded) const;

  Builder& builder_;
  Lowerings lowerings_;
  Environment environment_;
  // Set once a recorded size proves unreliable; computed sizes then take precedence.
  bool distrusts_record_ = false;
  std::vector<std::pair<Dim, Dim>> equal_;  // sizes, by the program's assertions
  std::vector<Value> asserted_;             // bools that must be true, of the current graph
  std::vector<Fault> contradictions_;
};

// ONNX represents a complex tensor as a real one with a last axis of 2: the real and the imaginary
// part. Maps a complex type or constant to that form; returns others unchanged.
aten::Type lowered_type(const aten::Type& type);
TensorData lowered_data(const TensorData& data);

// Returns the dispatch key that the tensors of this call select.
Key key_of(const aten::Node& node);
// Returns the live calls without a lowering, including those in sub-graphs.
std::vector<const aten::Node*> missing_operators(const aten::Graph& graph,
                                                 const Lowerings& lowerings);
// Throws one ExportError(unsupported_operator) that lists the operators without a lowering, if any.
void check_operators(const aten::Graph& graph, const Lowerings& lowerings);
// Returns the nodes that the outputs depend on, in order. Ignores updates of buffers and inputs.
std::vector<const aten::Node*> live_nodes(const aten::Graph& graph);

}  // namespace onnx_native::ops
