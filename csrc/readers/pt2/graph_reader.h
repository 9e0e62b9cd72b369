// One serialized graph at a time: nodes, arguments and results.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "aten/graph.h"
#include "readers/pt2/json.h"

namespace onnx_native::readers::pt2 {

// Types of a graph's values; expressions are parsed once each, for all graphs of a program.
class Types {
 public:
  aten::Type tensor(const Json& meta);
  // What a {"as_expr": ...} or {"as_int": ...} says.
  Dim dim(const Json& sym_int);

 private:
  std::unordered_map<std::string, Dim> dims_;
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
  void inline_body(const Json& node, const std::string& op);
  std::vector<aten::Argument> arguments(const Json& node, const aten::Schema* schema,
                                        const std::string& op);
  aten::Argument named(const std::string& name) const;
  aten::Argument symbolic(const Json& value, std::string_view literal);
  std::shared_ptr<aten::Graph> subgraph(const Json& source);
  void read_results(const Json& node, const std::string& name, const std::string& op,
                    std::vector<aten::Argument> arguments, const Location* location);
  aten::Argument add_result(aten::Node* node, const Json& output, const std::string& name,
                            size_t position);

  Types& types_;
  const Json& source_;
  aten::Graph& graph_;
  int depth_;
  std::unordered_map<std::string, aten::Argument> environment_;
};

}  // namespace onnx_native::readers::pt2
