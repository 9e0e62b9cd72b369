// What the inference rules of all operator families are written with.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/dim.h"
#include "base/error.h"
#include "onnx/graph.h"
#include "onnx/infer.h"

namespace onnx_native::onnx {

// One node whose outputs get their types. Does not own the node.
class Inference {
 public:
  Inference(Node& node, int64_t opset) : node_(node), opset_(opset) {}

  const Node& node() const { return node_; }
  int64_t opset() const { return opset_; }
  size_t num_inputs() const { return node_.inputs.size(); }
  size_t num_outputs() const { return node_.outputs.size(); }

  // An input that the operator cannot do without.
  const Value& in(size_t i) const {
    const Value* value = node_.input(i);
    if (!value) fail("input ", i, " is missing");
    return *value;
  }
  const Value* optional(size_t i) const { return node_.input(i); }
  DType dtype(size_t i) const { return in(i).dtype; }
  // nullptr: unknown rank.
  const Shape* shape(size_t i) const {
    const auto& shape = in(i).shape;
    return shape ? &*shape : nullptr;
  }
  // The known elements of a small integer input; nullptr: unknown, or no such input.
  const Shape* contents(size_t i) const;
  // The same, when all are numbers.
  std::optional<std::vector<int64_t>> numbers(size_t i) const;
  // The elements of a constant input; nullptr when it is not constant or not there.
  const TensorData* constant(size_t i) const;

  bool has(std::string_view attribute) const { return node_.attribute(attribute) != nullptr; }
  int64_t attribute(std::string_view name, int64_t otherwise) const {
    return node_.attribute_int(name, otherwise);
  }
  std::optional<std::vector<int64_t>> attribute_ints(std::string_view name) const {
    return node_.attribute_ints(name);
  }
  // The dtype that an attribute names, or `otherwise`.
  DType attribute_dtype(std::string_view name, DType otherwise) const;
  const Graph& subgraph(std::string_view name) const;
  // An axis counted from the front.
  int64_t axis(int64_t axis, int64_t rank) const {
    if (axis < -rank || axis >= rank) fail("axis ", axis, " of a tensor of rank ", rank);
    return axis < 0 ? axis + rank : axis;
  }
  int64_t axis_attribute(std::string_view name, int64_t otherwise, int64_t rank) const {
    return axis(attribute(name, otherwise), rank);
  }

  // An output that nobody wants is passed over; nullopt leaves a shape that is there already.
  void set(size_t output, DType dtype, std::optional<Shape> shape);
  void set_contents(size_t output, Shape contents);
  void set_kind(size_t output, ValueKind kind);
  // What the rules cannot tell: the size that the output has already, or a fresh symbol.
  Dim unknown(size_t output, int64_t rank, int64_t axis) const;
  Shape unknown_shape(size_t output, int64_t rank) const;
  // Whether the contents of an output are to be had: an integer tensor of rank 0 or 1 and a known,
  // small number of elements, which is the result.
  std::optional<int64_t> small_integers(size_t output) const;

  // The two are the same size; the better known one. Two different numbers are an error.
  Dim unify(const Dim& a, const Dim& b) const {
    const auto x = a.constant();
    const auto y = b.constant();
    if (x && y && *x != *y) fail("sizes ", *x, " and ", *y, " should be equal");
    return y ? b : a;
  }
  void same_dtype(size_t a, size_t b) const {
    if (dtype(a) != dtype(b)) {
      fail("inputs of different dtypes ", name(dtype(a)), " and ", name(dtype(b)));
    }
  }
  void expect_rank(size_t input, int64_t rank) const {
    if (in(input).rank_or(rank) != rank) {
      fail("input ", input, " has rank ", in(input).rank(), ", not ", rank);
    }
  }

  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    onnx_native::fail(ErrorKind::internal, node_.op_type, ": ", parts...);
  }

 private:
  Node& node_;
  int64_t opset_;
};

using Rule = void (*)(Inference&);
using Rules = std::unordered_map<std::string_view, Rule>;

void add_elementwise_rules(Rules& rules);
void add_shape_rules(Rules& rules);
void add_slicing_rules(Rules& rules);
void add_indexing_rules(Rules& rules);
void add_generator_rules(Rules& rules);
void add_reduction_rules(Rules& rules);
void add_linear_rules(Rules& rules);
void add_window_rules(Rules& rules);
void add_image_rules(Rules& rules);
void add_network_rules(Rules& rules);
void add_signal_rules(Rules& rules);
void add_quantization_rules(Rules& rules);
void add_control_flow_rules(Rules& rules);
void add_sequence_rules(Rules& rules);

// The rule of an operator whose first output has the first input's dtype and shape.
void same_as_first(Inference& i);
// Broadcasts the shapes of some inputs; nullopt when one is unknown.
std::optional<Shape> broadcast_inputs(const Inference& i, size_t first, size_t last);

}  // namespace onnx_native::onnx
