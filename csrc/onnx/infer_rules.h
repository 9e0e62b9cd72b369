// The interface that the inference rules of all operator families use.
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

// The inference state of one node. Does not own the node.
class Inference {
 public:
  Inference(Node& node, int64_t opset) : node_(node), opset_(opset) {}

  const Node& node() const { return node_; }
  int64_t opset() const { return opset_; }
  size_t num_inputs() const { return node_.inputs.size(); }
  size_t num_outputs() const { return node_.outputs.size(); }

  // Returns a required input.
  const Value& in(size_t i) const {
    const Value* value = node_.input(i);
    if (!value) fail("input ", i, " is missing");
    return *value;
  }
  const Value* optional(size_t i) const { return node_.input(i); }
  DType dtype(size_t i) const { return in(i).dtype; }
  // Returns nullptr if the rank is unknown.
  const Shape* shape(size_t i) const {
    const auto& shape = in(i).shape;
    return shape ? &*shape : nullptr;
  }
  // Returns the elements of a small integer input; nullptr if they are unknown or the input is
  // absent.
  const Shape* contents(size_t i) const;
  // The same, if all elements are constants.
  std::optional<std::vector<int64_t>> numbers(size_t i) const;
  // Returns the elements of a constant input; nullptr if the input is absent or not constant.
  const TensorData* constant(size_t i) const;

  bool has(std::string_view attribute) const { return node_.attribute(attribute) != nullptr; }
  int64_t attribute(std::string_view name, int64_t otherwise) const {
    return node_.attribute_int(name, otherwise);
  }
  std::optional<std::vector<int64_t>> attribute_ints(std::string_view name) const {
    return node_.attribute_ints(name);
  }
  // Returns the dtype that an attribute names, or `otherwise`.
  DType attribute_dtype(std::string_view name, DType otherwise) const;
  const Graph& subgraph(std::string_view name) const;
  // Returns an axis counted from the front.
  int64_t axis(int64_t axis, int64_t rank) const {
    if (axis < -rank || axis >= rank)
      fail("axis ", axis, " is out of range for a tensor of rank ", rank);
    return axis < 0 ? axis + rank : axis;
  }
  int64_t axis_attribute(std::string_view name, int64_t otherwise, int64_t rank) const {
    return axis(attribute(name, otherwise), rank);
  }

  // These ignore absent outputs. A shape of nullopt keeps the existing shape.
  void set(size_t output, DType dtype, std::optional<Shape> shape);
  void set_contents(size_t output, Shape contents);
  void set_kind(size_t output, ValueKind kind);
  // Returns a size that the rules cannot determine: the output's existing size, or a fresh symbol.
  Dim unknown(size_t output, int64_t rank, int64_t axis) const;
  Shape unknown_shape(size_t output, int64_t rank) const;
  // Returns the number of elements if the contents of an output can be tracked: an integer tensor
  // of rank 0 or 1 with a known, small number of elements.
  std::optional<int64_t> small_integers(size_t output) const;

  // Returns the better known of two sizes that must be equal; fails if both are constants and
  // differ.
  Dim unify(const Dim& a, const Dim& b) const {
    const auto x = a.constant();
    const auto y = b.constant();
    if (x && y && *x != *y) fail("sizes ", *x, " and ", *y, " must be equal");
    return y ? b : a;
  }
  void same_dtype(size_t a, size_t b) const {
    if (dtype(a) != dtype(b)) {
      fail("the inputs have different dtypes ", name(dtype(a)), " and ", name(dtype(b)));
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

// The rule of operators whose first output has the dtype and shape of the first input.
void same_as_first(Inference& i);
// Broadcasts the shapes of some inputs; nullopt if one is unknown.
std::optional<Shape> broadcast_inputs(const Inference& i, size_t first, size_t last);

}  // namespace onnx_native::onnx
