// One FX graph at a time: nodes, arguments and results.
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

// The operator or function that a call_function node calls; looked up once per program.
struct CallTarget {
  enum class Kind { call, getitem, inlined, ordered, dropped };
  Kind kind = Kind::call;
  std::string key;
  const aten::Schema* schema = nullptr;
  const aten::HigherOrder* higher_order = nullptr;
};

// Gives the value of a placeholder.
using Placeholder = std::function<aten::Argument(PyObject* node, std::string_view name)>;

// Shared by all graphs of one program.
struct ProgramReader {
  explicit ProgramReader(SymbolNames names) : types(std::move(names)) {}

  const CallTarget& target(PyObject* callee);
  // Where a call came from is known by its location, which no two calls share.
  void add_origin(const Location* location, PyObject* node) {
    origins_.emplace_back(location, node);
  }
  // The FX node that a call was read from, borrowed; nullptr for calls that functionalization made
  // up.
  PyObject* origin(const aten::Node& call);

  TypeReader types;
  // Of a graph that stands for one call of the program: that call's place.
  const Location* within = nullptr;
  // The call of a compiled region whose nodes are being read.
  const Location* region = nullptr;

 private:
  std::unordered_map<PyObject*, CallTarget> targets_;
  std::vector<std::pair<const Location*, PyObject*>> origins_;
  std::unordered_map<const Location*, PyObject*> origin_of_;  // of the first `indexed_`
  size_t indexed_ = 0;
};

// Reads the nodes of FX graphs into one aten::Graph. A node's result is an Argument: a value, a
// list of them, or a literal where a size is a known number.
class GraphReader {
 public:
  GraphReader(ProgramReader& program, aten::Graph& graph) : program_(program), graph_(graph) {}

  // Reads all nodes; returns the output node's argument.
  aten::Argument read(PyObject* graph_module, const Placeholder& placeholder);

 private:
  friend std::shared_ptr<aten::Graph> read_graph(ProgramReader& program, PyObject* graph_module,
                                                 bool autocast);
  // A node's result; `object` where it is a Python object of the graph module.
  struct Result {
    aten::Argument argument;
    py::object object;
  };
  using Environment = std::unordered_map<PyObject*, Result>;
  // The arguments of a call that is replaced by the body of its sub-graph.
  struct Inlined {
    PyObject* node = nullptr;  // the get_attr node of the sub-graph
    py::object body;
    std::vector<aten::Argument> settings;  // before the sub-graph
    std::vector<aten::Argument> operands;
  };
  class InlinedScope;

  void call(PyObject* node, std::string_view name, PyObject* meta);
  aten::Argument ordered_call(PyObject* node, std::string_view name, PyObject* meta);
  aten::Argument get_item(PyObject* args);
  aten::Argument inline_call(std::string_view name, PyObject* meta, PyObject* args,
                             const CallTarget& target);
  Inlined inlined_arguments(PyObject* args, const CallTarget& target);
  const Location* locate(std::string_view name, PyObject* meta);
  void get_attribute(PyObject* graph_module, PyObject* node, std::string_view name);

  std::vector<aten::Argument> arguments(PyObject* args, PyObject* kwargs, const CallTarget& target);
  aten::Argument argument(PyObject* object);
  aten::Argument argument(PyObject* object, const aten::SchemaType& type);
  // Adds a call's results. `value` is the FX node's meta["val"] or null; `first` is the index in
  // the FX node's result of the call's first result.
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
  bool autocast_ = false;  // inside a region whose casts the captured program leaves out
};

// Reads a graph module by itself: its placeholders are the graph's inputs. `autocast`: it lies in a
// region whose casts the captured program leaves out.
std::shared_ptr<aten::Graph> read_graph(ProgramReader& program, PyObject* graph_module,
                                        bool autocast = false);

}  // namespace onnx_native::fx
