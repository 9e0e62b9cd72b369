// Reads the nodes, arguments and results of an FX graph.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "aten/graph.h"
#include "aten/higher_order.h"
#include "fx/types.h"

namespace onnx_native::fx {

// The operator or function that a call_function node calls. Resolved once per program.
struct CallTarget {
  enum class Kind { call, getitem, inlined, ordered, dropped };
  Kind kind = Kind::call;
  std::string key;
  const aten::Schema* schema = nullptr;
  const aten::HigherOrder* higher_order = nullptr;
};

// Returns the value of a placeholder node.
using Placeholder = std::function<aten::Argument(PyObject* node, std::string_view name)>;

// The state shared by all graphs of one program.
struct ProgramReader {
  explicit ProgramReader(SymbolNames names) : types(std::move(names)) {}

  const CallTarget& target(PyObject* callee);
  // Records the FX node of a call. The call's location, which no other call shares, is the key.
  void add_origin(const Location* location, PyObject* node) {
    origins_.emplace_back(location, node);
  }
  // Returns the FX node that a call was read from (borrowed), or nullptr for a call that
  // functionalization added.
  PyObject* origin(const aten::Node& call);

  TypeReader types;
  // The location of the call that the graph decomposes; nullptr for a graph of the program.
  const Location* within = nullptr;
  // The location of the compiled region's call whose nodes are being read; nullptr outside.
  const Location* region = nullptr;

 private:
  std::unordered_map<PyObject*, CallTarget> targets_;
  std::vector<std::pair<const Location*, PyObject*>> origins_;
  std::unordered_map<const Location*, PyObject*> origin_of_;  // index of the first indexed_ origins
  size_t indexed_ = 0;
};

// Reads the nodes of FX graphs into one aten::Graph. A node's result is an Argument: a value, a
// list of values, or a literal for a number that the capture specialized.
class GraphReader {
 public:
  GraphReader(ProgramReader& program, aten::Graph& graph) : program_(program), graph_(graph) {}

  // Reads all nodes and returns the output node's argument. Throws ExportError with the location of
  // the node.
  aten::Argument read(PyObject* graph_module, const Placeholder& placeholder);
  // Sets a placeholder's result to a tensor subclass that wraps other tensors. Calls read these.
  void hold_wrapper(PyObject* node, std::string name, py::object tensor, aten::ConstantKind kind);

 private:
  friend std::shared_ptr<aten::Graph> read_graph(ProgramReader& program, PyObject* graph_module,
                                                 bool autocast);
  // A node's result. `object` is set if it is a Python object of the graph module, not a tensor.
  struct Result {
    aten::Argument argument;
    py::object object;
    std::string name = {};                                   // of a tensor that wraps others
    aten::ConstantKind kind = aten::ConstantKind::constant;  // of the same tensor
  };
  using Environment = std::unordered_map<PyObject*, Result>;
  // The arguments of a call whose sub-graph is inlined.
  struct Inlined {
    PyObject* node = nullptr;  // the get_attr node of the sub-graph, borrowed
    py::object body;
    std::vector<aten::Argument> settings;  // arguments before the sub-graph
    std::vector<aten::Argument> operands;  // the sub-graph's inputs
  };
  class InlinedScope;

  void call(PyObject* node, std::string_view name, PyObject* meta);
  aten::Argument ordered_call(PyObject* node, std::string_view name, PyObject* meta);
  aten::Argument get_item(PyObject* args);
  aten::Argument inline_call(std::string_view name, PyObject* meta, PyObject* args,
                             const CallTarget& target);
  Inlined inlined_arguments(PyObject* args, const CallTarget& target);
  const Location* locate(std::string_view name, PyObject* meta);
  void read_part(PyObject* node, PyObject* args);
  void get_attribute(PyObject* graph_module, PyObject* node, std::string_view name);

  std::vector<aten::Argument> arguments(PyObject* args, PyObject* kwargs, const CallTarget& target);
  aten::Argument argument(PyObject* object);
  aten::Argument argument(PyObject* object, const aten::SchemaType& type);
  // Adds a call's results and returns them. `value` is the FX node's meta["val"] or null; `first`
  // is the index of the call's first result within the FX node's result.
  aten::Argument results(aten::Node* node, PyObject* fx_node, std::string_view name,
                         PyObject* value, int64_t first = 0);
  aten::Argument several_results(aten::Node* node, PyObject* fx_node, std::string_view name,
                                 PyObject* value, int64_t first);
  aten::Argument one_result(aten::Node* node, std::string_view name, PyObject* value);
  void autocast(const CallTarget& target, PyObject* value, std::vector<aten::Argument>& arguments,
                const Location* location);

  ProgramReader& program_;
  aten::Graph& graph_;
  Environment environment_;
  std::unordered_map<std::string, aten::Argument> parts_;  // inner tensors of wrapper subclasses
  bool autocast_ = false;  // inside an autocast region whose casts the program does not record
  std::string autocast_device_;  // the device of the region, if the program records it
};

// Reads a graph module into a graph of its own, whose inputs are the placeholders. `autocast` says
// that it is inside an autocast region whose casts the program does not record.
std::shared_ptr<aten::Graph> read_graph(ProgramReader& program, PyObject* graph_module,
                                        bool autocast = false);

}  // namespace onnx_native::fx
