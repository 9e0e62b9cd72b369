// One serialized graph at a time: nodes, arguments and results.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "aten/graph.h"
#include "aten/higher_order.h"
#include "readers/pt2/json.h"

namespace onnx_native::readers::pt2 {

// Types of a graph's values; expressions are parsed once each, for all graphs of a program.
class Types {
 public:
  // `ranges`: the program's "range_constraints", nullptr if it has none.
  explicit Types(const Json* ranges) : ranges_(ranges) {}

  // Whether what is read now is an input of the program, whose sizes are the symbols that are sizes
  // of inputs.
  void set_reads_input(bool reads_input) { reads_input_ = reads_input; }
  aten::Type tensor(const Json& meta);
  // What a {"as_expr": ...} or {"as_int": ...} says.
  Dim dim(const Json& sym_int);
  // What symbols stood for in the example.
  const std::unordered_map<std::string, int64_t>& hints() const { return hints_; }

 private:
  Dim sized(const Json& sym_int, const DimRange& otherwise);
  Dim symbol(std::string_view name);

  const Json* ranges_;
  bool reads_input_ = false;
  std::unordered_map<std::string, Dim> dims_;
  std::unordered_map<std::string, Dim> symbols_;
  std::unordered_map<std::string, int64_t> hints_;
};

// Reads the nodes of a graph into an aten::Graph. What a name stands for is an Argument: a value, a
// list of them, or a literal where a size is a known number.
class GraphReader {
 public:
  GraphReader(Types& types, const Json& source, aten::Graph& graph, int depth = 0)
      : types_(types), source_(source), graph_(graph), depth_(depth) {}

  // What a name of the archive stands for from now on.
  void define(const std::string& name, aten::Argument value);
  // The type that the archive records for a tensor or a number {"as_tensor": {"name": "x"}}.
  aten::Type type_of(std::string_view kind, const Json& value);
  void read_nodes();
  aten::Argument argument(const Json& argument);
  std::vector<aten::Argument> outputs();

 private:
  void read_node(const Json& node);
  void check_assertion(const Json& node, const std::string& op) const;
  void inline_body(const Json& node, const aten::HigherOrder& call);
  // Adds the call of an operator with the JSON of its arguments and results.
  void call(const std::string& op, const std::string& name, std::span<const Json> inputs,
            std::span<const Json> outputs, const Location* location);
  void ordered_call(const std::string& name, std::span<const Json> inputs,
                    std::span<const Json> outputs, const Location* location);
  std::vector<aten::Argument> arguments(std::span<const Json> inputs, const aten::Schema* schema,
                                        const std::string& op);
  aten::Argument named(const std::string& name) const;
  aten::Argument symbolic(const Json& value, std::string_view literal);
  std::shared_ptr<aten::Graph> subgraph(const Json& source);
  void add_result(aten::Node* node, std::string_view kind, const Json& value,
                  const std::string& name, size_t position);

  Types& types_;
  const Json& source_;
  aten::Graph& graph_;
  int depth_;
  bool autocast_ = false;             // inside a region whose casts the archive leaves out
  const Location* region_ = nullptr;  // the call of a compiled region that its nodes are in
  std::unordered_map<std::string, aten::Argument> environment_;
};

}  // namespace onnx_native::readers::pt2
