// The graph of ATen calls: a frozen record of a program, whichever reader it comes from.
#pragma once

#include <complex>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "aten/schema.h"
#include "base/dim.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/tensor_data.h"

namespace onnx_native::aten {

class Graph;
struct Node;

// What is known of a value. A reader that knows no shapes leaves `shape` empty (nullopt).
struct Type {
  enum class Kind { unknown, tensor, sym_int, sym_float, sym_bool, none, other };
  Kind kind = Kind::unknown;
  DType dtype = DType::undefined;  // of a tensor
  std::optional<Shape> shape;      // of a tensor
  std::optional<Dim> dim;          // of a sym_int: its expression
  bool quantized = false;          // decides the dispatch key

  static Type tensor(DType dtype, std::optional<Shape> shape) {
    return {.kind = Kind::tensor,
            .dtype = dtype,
            .shape = std::move(shape),
            .dim = {},
            .quantized = false};
  }
  static Type sym_int(Dim dim) {
    return {.kind = Kind::sym_int,
            .dtype = DType::undefined,
            .shape = {},
            .dim = std::move(dim),
            .quantized = false};
  }
  bool is_tensor() const { return kind == Kind::tensor; }
};

// One result of a node, an input, or a constant (weight). Owned by its Graph.
struct Value {
  std::string name;  // unique in its graph
  Type type;
  Node* producer = nullptr;  // nullptr: input or constant
  int index = 0;             // among its producer's outputs
};

// An argument of a call: a value, a literal, a list of arguments (list arguments stay lists), or a
// sub-graph.
struct Argument {
  struct None {
    bool operator==(const None&) const = default;
  };
  using List = std::vector<Argument>;
  // A torch dtype argument is a DType; device, layout, memory_format are strings ("cpu", "strided",
  // "contiguous_format").
  std::variant<None, Value*, int64_t, double, bool, std::complex<double>, std::string, DType, List,
               std::shared_ptr<Graph>>
      value;

  Argument() = default;
  template <class T>
  requires(!std::is_same_v<std::remove_cvref_t<T>, Argument>) Argument(T&& v)
      : value(std::forward<T>(v)) {}  // NOLINT(google-explicit-constructor)

  template <class T>
  const T* get() const {
    return std::get_if<T>(&value);
  }
  bool is_none() const { return std::holds_alternative<None>(value); }
  Value* as_value() const {
    const auto* v = get<Value*>();
    return v ? *v : nullptr;
  }
};

// The defaults of a schema that find_schema gave, one per argument; None where there is none.
const std::vector<Argument>& default_arguments(const Schema& schema);

// One call: an operator, its arguments in schema order with defaults filled in, its results
// flattened (a list result and several results are both just several outputs; `list_output` tells
// them apart where it matters).
struct Node {
  std::string op;                  // "aten::add.Tensor", "higher_order::cond"
  const Schema* schema = nullptr;  // nullptr for operators without one (higher-order ones)
  std::vector<Argument> arguments;
  std::vector<Value*> outputs;
  const Location* location = nullptr;  // owned by the graph
};

// A mutated buffer or input: `value` is what it holds at the end.
struct Mutation {
  std::string target;  // name of the buffer (state_dict) or of the input
  bool is_buffer = true;
  Value* value = nullptr;
};

// A weight, buffer or constant tensor: a Value with data.
struct Constant {
  Value* value;
  TensorData data;
  bool is_parameter = false;
};

// Owns its values, nodes and locations; addresses are stable. Moved and copied never: hold it by
// shared_ptr or unique_ptr.
class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  std::vector<Value*> inputs;       // in the user's order, flattened
  std::vector<Constant> constants;  // named as in state_dict
  std::vector<Node*> nodes;         // in execution order
  // Results, in the user's order, flattened. Mostly Value*; literals and None are kept so that
  // callers can rebuild structures.
  std::vector<Argument> outputs;
  std::vector<Mutation> mutations;
  // Values of enclosing graphs that a sub-graph uses are not listed: a sub-graph gets all it needs
  // as inputs.

  // Makes a value with that name (made unique by "_1", "_2" ...).
  Value* add_value(std::string_view name, Type type);
  Value* add_input(std::string_view name, Type type);
  Value* add_constant(std::string_view name, TensorData data, bool is_parameter);
  // Appends a node; give it outputs by add_output. Arguments that are missing at the end get the
  // schema's defaults.
  Node* add_node(std::string op, std::vector<Argument> arguments,
                 const Location* location = nullptr);
  Value* add_output(Node* node, std::string_view name, Type type);
  const Location* add_location(Location location);

 private:
  std::deque<Value> values_;
  std::deque<Node> node_storage_;
  std::deque<Location> locations_;
  std::unordered_map<std::string, int> names_;
};

// Text: one line a node, `%3: f32[batch,4] = aten::add.Tensor(%1, %2, alpha=1)`; sub-graphs
// indented in braces.
std::string print(const Graph& graph);
// One node, with its arguments' types when asked; for error messages.
std::string print(const Node& node, bool argument_types = false);
// Reads what `print` writes. Constants come back without data (zeros). Throws
// ExportError(invalid_argument) with the line.
std::unique_ptr<Graph> parse(std::string_view text);

// Rewrites in-place and out= operators (from the schema's alias annotations) and writes through
// views into functional operators and write-backs; a mutated buffer or input becomes an explicit
// Mutation. Nodes that only made views for a write are dropped when unused.
void functionalize(Graph& graph);

// Throws ExportError(invalid_program) naming `stage` when the graph is not functional, uses a value
// before it is made, lacks arguments or types.
void verify(const Graph& graph, std::string_view stage);

}  // namespace onnx_native::aten
