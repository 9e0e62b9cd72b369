// Reads one serialized graph: nodes, arguments and results.
#pragma once

#include <functional>
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

// Parses the types of values. Caches expressions for all graphs of a program.
class Types {
 public:
  explicit Types(const Json& program)
      : program_(program), ranges_(optional_field(program, "range_constraints")) {}

  // Gives a symbol of the program another name. Call it before any type is read.
  void rename(const std::string& symbol, const std::string& name) { names_[symbol] = name; }
  // Returns the name of a symbol of the program in the graph.
  const std::string& name_of(const std::string& symbol) const {
    const auto at = names_.find(symbol);
    return at == names_.end() ? symbol : at->second;
  }
  // The value whose type is read; it determines the ranges of new symbols.
  enum class Reads { result, tensor_input, integer_input };
  void set_reads(Reads reads) { reads_ = reads; }
  aten::Type tensor(const Json& meta);
  // Parses a list of sizes; `what` names it in errors.
  Shape dims(const Json& sizes, const char* what);
  // Parses {"as_expr": ...} or {"as_int": ...}.
  Dim dim(const Json& sym_int);
  // Returns the values of symbols in the example.
  const std::unordered_map<std::string, int64_t>& hints() const { return hints_; }

 private:
  Dim sized(const Json& sym_int, const DimRange& otherwise);
  Dim symbol(std::string_view name);
  // Returns a fresh symbol. Its name differs from those of all symbols of the program.
  Dim opaque(const DimRange& range);

  const Json& program_;
  const Json* ranges_;  // nullptr if it has none
  Reads reads_ = Reads::result;
  bool all_symbols_used_ = false;  // Dim::fresh() knows the names of all symbols of the program
  std::unordered_map<std::string, Dim> dims_;
  std::unordered_map<std::string, Dim> symbols_;
  std::unordered_map<std::string, int64_t> hints_;
  std::unordered_map<std::string, std::string> names_;  // given by the user
};

// Reads the nodes of a graph into an aten::Graph. A name maps to an Argument: a value, a list of
// values, or a literal for a constant size.
class GraphReader {
 public:
  GraphReader(Types& types, const Json& source, aten::Graph& graph, int depth = 0)
      : types_(types), source_(source), graph_(graph), depth_(depth) {}

  // Binds a name of the archive to a value.
  void define(const std::string& name, aten::Argument value);
  // Returns the recorded type of a tensor or number such as {"as_tensor": {"name": "x"}}.
  aten::Type type_of(std::string_view kind, const Json& value);
  // Returns the entry of "tensor_values" for a tensor such as {"name": "x"}.
  const Json& tensor_meta(const Json& value) const;
  void read_nodes();
  aten::Argument argument(const Json& argument);
  std::vector<aten::Argument> outputs();

 private:
  void read_node(const Json& node);
  void check_assertion(const Json& message) const;
  void assertion(const Json& node, const std::string& op);
  void inline_body(const Json& node, const aten::HigherOrder& call);
  // Adds an operator call, given the JSON of its arguments and results.
  void call(const std::string& op, const std::string& name, std::span<const Json> inputs,
            std::span<const Json> outputs, const Location* location);
  void ordered_call(const std::string& name, std::span<const Json> inputs,
                    std::span<const Json> outputs, const Location* location);
  std::vector<aten::Argument> arguments(std::span<const Json> inputs, const aten::Schema* schema,
                                        const std::string& op);
  aten::Argument named(const std::string& name) const;
  aten::Argument symbolic(const Json& value, std::string_view literal);
  aten::Argument options(const Json& value);
  // A function per kind of argument ("as_tensor").
  using ArgumentReaders =
      std::unordered_map<std::string_view,
                         std::function<aten::Argument(GraphReader&, const Json&)>>;
  static ArgumentReaders make_argument_readers();
  std::shared_ptr<aten::Graph> subgraph(const Json& source);
  void add_result(aten::Node* node, std::string_view kind, const Json& value,
                  const std::string& name, size_t position);

  Types& types_;
  const Json& source_;
  aten::Graph& graph_;
  int depth_;
  bool autocast_ = false;             // inside a region whose casts the archive omits
  std::string autocast_device_;       // the device of the region, if the archive records it
  const Location* region_ = nullptr;  // the enclosing compiled-region call
  std::unordered_map<std::string, aten::Argument> environment_;
};

}  // namespace onnx_native::readers::pt2
