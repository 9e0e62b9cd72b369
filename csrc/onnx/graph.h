// The ONNX graph: in SSA form, topologically sorted, every value typed.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/dim.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/quantization.h"
#include "base/target.h"
#include "base/tensor_data.h"

namespace onnx_native::onnx {

class Graph;
struct Node;

// The maximum number of elements of an integer tensor whose `contents` are kept.
inline constexpr int64_t kLargestContents = 64;

// These throw ExportError(unsupported) for an axis that a tensor does not have.
[[noreturn]] void fail_unknown_rank();
[[noreturn]] void fail_out_of_range(int64_t axis, int64_t rank);

// A fact about a value, found by inference. Reads like a T; only `Typing` writes it.
template <class T>
class Inferred {
 public:
  operator const T&() const { return fact_; }  // NOLINT(google-explicit-constructor)
  const T& operator->() const { return fact_; }
  const auto& operator*() const { return *fact_; }
  explicit operator bool() const { return static_cast<bool>(fact_); }
  friend bool operator==(const Inferred& a, const Inferred& b) { return a.fact_ == b.fact_; }

 private:
  friend struct Typing;
  T fact_{};
};

// Most values are tensors; some ONNX operators need sequences or optionals of them.
enum class ValueKind { tensor, sequence, optional };

// A tensor in the graph: an input, an initializer, or a node's output. Owned by its Graph.
struct Value {
  std::string name;  // empty until assign_names() or the driver names it
  Inferred<DType> dtype;
  Inferred<std::optional<Shape>> shape;  // nullopt: unknown rank
  ValueKind kind = ValueKind::tensor;
  Node* producer = nullptr;  // nullptr: input or initializer
  Graph* graph = nullptr;
  const TensorData* constant = nullptr;  // the elements of an initializer; owned by the graph
  // The elements of a small integer tensor (rank 0 or 1) as expressions, if inference knows them.
  // They make the shape of a Reshape by a computed shape exact.
  Inferred<std::optional<Shape>> contents;
  bool named = false;  // has a state_dict name or a user's input/output name; passes keep it

  bool is_constant() const { return constant != nullptr; }
  // Returns the elements of a small integer tensor if all of them are known numbers.
  std::optional<std::vector<int64_t>> known_integers() const {
    return contents ? constant_shape(*contents) : std::nullopt;
  }
  int64_t rank_or(int64_t otherwise) const {
    return shape ? static_cast<int64_t>(shape->size()) : otherwise;
  }
  // These throw ExportError(unsupported) if the rank is unknown.
  const Shape& known_shape() const {
    if (!shape) [[unlikely]]
      fail_unknown_rank();
    return *shape;
  }
  int64_t rank() const { return static_cast<int64_t>(known_shape().size()); }
  // Returns the size of a dimension; a negative index counts from the end. Throws
  // ExportError(unsupported) if it is out of range.
  const Dim& dim(int64_t i) const {
    const int64_t count = rank();
    if (i < -count || i >= count) [[unlikely]]
      fail_out_of_range(i, count);
    return (*shape)[static_cast<size_t>(i < 0 ? i + count : i)];
  }
};

// The value of a node's attribute.
using AttributeValue = std::variant<int64_t, double, std::string, std::vector<int64_t>,
                                    std::vector<double>, std::vector<std::string>,
                                    std::shared_ptr<TensorData>, std::shared_ptr<Graph>, DType>;

struct Attribute {
  std::string name;
  AttributeValue value;
};

struct Node {
  std::string op_type;
  std::string domain;           // "" is ai.onnx
  std::vector<Value*> inputs;   // nullptr: an absent optional input
  std::vector<Value*> outputs;  // nullptr: an unused optional output
  std::vector<Attribute> attributes;
  const Location* location = nullptr;  // of the ATen call; owned by the Model or its source
  std::string name;
  std::vector<std::pair<std::string, std::string>> metadata;  // the user's own metadata_props
  std::list<Node*>::iterator position;  // position in the node list of its graph

  const AttributeValue* attribute(std::string_view name) const;
  // These return the attribute as this type, or the fallback if it is absent; they throw
  // ExportError(internal) if it has another type.
  int64_t attribute_int(std::string_view name, int64_t otherwise) const;
  std::string attribute_string(std::string_view name, std::string_view otherwise) const;
  double attribute_float(std::string_view name, double otherwise) const;
  std::optional<std::vector<int64_t>> attribute_ints(std::string_view name) const;
  Value* input(size_t i) const { return i < inputs.size() ? inputs[i] : nullptr; }
  // Returns true for an operator (one of the operators) of the standard domain.
  bool is(std::string_view standard_op) const { return op_type == standard_op && domain.empty(); }
  bool is_any(std::initializer_list<std::string_view> standard_ops) const;
};

// Owns its values and nodes; their addresses are stable until erase(). A subgraph (attribute of If,
// Loop, Scan) may use values of enclosing graphs.
class Graph {
 public:
  Graph() = default;
  explicit Graph(Graph* outer) : outer_(outer) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();

  std::string name = "main_graph";
  std::vector<Value*> inputs;
  std::vector<Value*> outputs;
  std::vector<Value*> initializers;
  std::list<Node*> nodes;  // topologically sorted

  Graph* outer() const { return outer_; }
  Value* add_value(DType dtype = DType::undefined, std::optional<Shape> shape = std::nullopt);
  // A non-empty name makes inputs and initializers of an outermost graph `named`.
  Value* add_input(std::string_view name, DType dtype, std::optional<Shape> shape);
  // Adds a constant to the outermost graph, where a subgraph finds it like any other value.
  Value* add_initializer(std::string_view name, TensorData data);
  // Adds a 1-D int64 constant: sizes, axes, a permutation.
  Value* add_integers(std::span<const int64_t> elements);
  // Inserts a node before `before` (default: the end) with `outputs` values of unknown type.
  Node* add_node(std::string_view op_type, std::vector<Value*> inputs, size_t outputs,
                 std::vector<Attribute> attributes = {}, std::string_view domain = "");
  Node* insert_node(std::list<Node*>::iterator before, std::string_view op_type,
                    std::vector<Value*> inputs, size_t outputs,
                    std::vector<Attribute> attributes = {}, std::string_view domain = "");
  // Moves all nodes, values, inputs and initializers of another graph here, the nodes before
  // `before`. `from` keeps only its list of outputs.
  void take_over(Graph& from, std::list<Node*>::iterator before);
  // Moves one node of another graph, with its outputs, to the end of this one.
  void take_over(Graph& from, Node* node);
  // Removes a node and its outputs, which must be unused.
  void erase(Node* node);
  // Removes all initializers for which `unwanted` is true, in one pass; returns their number.
  size_t erase_initializers(const std::function<bool(const Value&)>& unwanted);

 private:
  void adopt_bodies(const Node& node);
  void erase_value(const Value* value);

  Graph* outer_ = nullptr;
  std::list<std::unique_ptr<Value>> values_;
  std::unordered_map<const Value*, std::list<std::unique_ptr<Value>>::iterator> value_positions_;
  std::unordered_map<const Node*, std::unique_ptr<Node>> node_storage_;
  std::unordered_map<const Value*, std::unique_ptr<TensorData>> constants_;
};

// A model-local function, called by nodes with its domain and name.
struct Function {
  std::string name;
  std::string domain;
  std::unique_ptr<Graph> body;
  std::vector<std::string> attributes;  // names of attribute parameters
};

struct Model {
  int64_t opset = 20;
  // The opset of the finished model, if it is older than the opset in which the graph is built.
  std::optional<int64_t> final_opset;
  Target target = Target::onnx;
  WeightLayout weights = WeightLayout::runtime;
  WeightQuantization quantization;
  std::set<std::string, std::less<>> buffers;  // names of weights that are no parameters
  std::map<std::string, int64_t> domains;      // further operator sets in use: domain -> version
  // Operators without a domain that no opset defines: the program names them
  // (torch.onnx.ops.symbolic), or the target's runtime has them.
  std::set<std::string, std::less<>> undefined_operators;
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  std::vector<Function> functions;  // callees before callers
  std::deque<Location> locations;   // locations of nodes that moved to another scope
  std::string producer_version;
  std::vector<std::pair<std::string, std::string>> metadata;  // metadata_props
};

// Calls `visit` for every graph of the model, including subgraphs, outer ones first.
void for_each_graph(Graph& graph, const std::function<void(Graph&)>& visit);

// The number of uses of each value: as a node input (in subgraphs too) and as a graph output.
using UseCounts = std::unordered_map<const Value*, int64_t>;
UseCounts count_uses(Graph& graph);
// Replaces uses of values everywhere in the graph, including subgraphs and outputs; follows chains.
// Takes linear time in the size of the graph.
void replace_uses(Graph& graph, const std::unordered_map<const Value*, Value*>& replacements);

// Gives every value and node of the model a unique name; keeps the names of `named` values.
// Deterministic.
void assign_names(Model& model);

// Prints ONNX text (onnx.printer's syntax), for tests and messages. Large constants print as their
// type.
std::string print(const Model& model);
std::string print(const Graph& graph);
std::string print(const Node& node);

// Throws ExportError(internal) naming `stage` if the graph is not in SSA form or not topologically
// sorted, a value has no dtype, or a node is invalid at the model's opset (unknown operator; wrong
// number, names or dtypes of inputs, outputs or attributes).
void verify(const Model& model, std::string_view stage);

}  // namespace onnx_native::onnx
