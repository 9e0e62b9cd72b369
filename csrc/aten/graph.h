// The graph of ATen calls: the common form of a program, independent of the reader.
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

// The known type of a value. `shape` is nullopt if the reader does not know shapes.
struct Type {
  enum class Kind { unknown, tensor, sym_int, sym_float, sym_bool, none, other };
  Kind kind = Kind::unknown;
  DType dtype = DType::undefined;  // of a tensor
  std::optional<Shape> shape;      // of a tensor
  std::optional<Dim> dim;          // of a sym_int
  bool quantized = false;          // part of the dispatch key

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

// A result of a node, an input, or a constant (weight). Owned by its Graph.
struct Value {
  std::string name;  // unique in its graph
  Type type;
  Node* producer = nullptr;  // nullptr: input or constant
  int index = 0;             // index among its producer's outputs
};

// An argument of a call: a value, a literal, a list of arguments (list arguments stay lists), or a
// subgraph.
struct Argument {
  struct None {
    bool operator==(const None&) const = default;
  };
  using List = std::vector<Argument>;
  // A torch dtype is a DType; device, layout and memory_format are strings ("cpu", "strided",
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

// Returns the default of each argument; None if it has none. The schema must come from find_schema.
const std::vector<Argument>& default_arguments(const Schema& schema);

// A call: an operator, its arguments in schema order with defaults filled in, and its results,
// flattened. A list result and multiple results look the same here; the schema tells them apart.
struct Node {
  std::string op;                  // "aten::add.Tensor", "higher_order::cond"
  const Schema* schema = nullptr;  // nullptr for operators without one (higher-order operators)
  std::vector<Argument> arguments;
  std::vector<Value*> outputs;
  const Location* location = nullptr;  // owned by the graph
};

// A mutated buffer or input; `value` is its final value.
struct Mutation {
  std::string target;  // name of the buffer (in state_dict) or of the input
  bool is_buffer = true;
  Value* value = nullptr;
};

// The kinds of constants in a module. A temporary buffer is not in state_dict.
enum class ConstantKind { parameter, buffer, temporary_buffer, constant };
constexpr bool is_buffer(ConstantKind kind) {
  return kind == ConstantKind::buffer || kind == ConstantKind::temporary_buffer;
}

// A weight, buffer or constant tensor: a value with data.
struct Constant {
  Value* value;
  TensorData data;
  ConstantKind kind = ConstantKind::constant;
};

// An input that was not contiguous in the example.
struct ScatteredInput {
  const Value* value;
  std::vector<std::optional<Dim>> strides;  // one per dimension; nullopt: unknown
};

// Owns its values, nodes and locations; their addresses are stable. Neither movable nor copyable:
// hold it by shared_ptr or unique_ptr.
class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  std::vector<Value*> inputs;  // in the user's order, flattened
  std::vector<ScatteredInput> scattered_inputs;
  std::vector<Constant> constants;  // named as in state_dict
  std::vector<Node*> nodes;         // in execution order
  // Results in the user's order, flattened. Most are values; literals and None are kept so that
  // callers can rebuild the output structure.
  std::vector<Argument> outputs;
  std::vector<Mutation> mutations;
  // A subgraph does not use values of enclosing graphs: it gets everything it needs as inputs.

  // Adds a value with this name, made unique with the suffix "_1", "_2", ...
  Value* add_value(std::string_view name, Type type);
  Value* add_input(std::string_view name, Type type);
  Value* add_constant(std::string_view name, TensorData data,
                      ConstantKind kind = ConstantKind::constant);
  // Appends a node; add its outputs with add_output. Missing trailing arguments get the schema's
  // defaults.
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

// Prints one node per line, `%3: f32[batch,4] = aten::add.Tensor(%1, %2, alpha=1)`; subgraphs are
// indented in braces.
std::string print(const Graph& graph);
// Prints one node, optionally with its arguments' types; for error messages.
std::string print(const Node& node, bool argument_types = false);
// Parses the output of `print`. Constants come back without their data (as zeros). Throws
// ExportError(invalid_argument) with the line.
std::unique_ptr<Graph> parse(std::string_view text);

// Rewrites in-place and out= operators (found by the schema's alias annotations) and writes through
// views into functional operators and write-backs. A mutated buffer or input becomes an explicit
// Mutation. Drops views that are no longer used.
void functionalize(Graph& graph);

// Throws ExportError(invalid_program) naming `stage` if a node writes to its arguments or does not
// match its schema, if a value is used before its definition, or if a name is not unique.
void verify(const Graph& graph, std::string_view stage);

}  // namespace onnx_native::aten
