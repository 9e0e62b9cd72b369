// Emits ONNX nodes and infers their types immediately. Hides differences between opsets.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/checked_vector.h"
#include "base/dim.h"
#include "base/dtype.h"
#include "base/error.h"
#include "onnx/graph.h"
#include "onnx/infer.h"
#include "onnx/number.h"

namespace onnx_native {

// A tensor in the ONNX graph, as seen by lowerings.
using Value = onnx::Value*;
using Values = CheckedVector<Value>;
using Ints = CheckedVector<int64_t>;

class Builder;
// Computes an operator from other operators, for a dtype without an ONNX Runtime kernel. Returns
// the results, or nothing if it cannot. `node` belongs to no graph.
using Composition = Values (*)(Builder& b, const onnx::Node& node);
using Compositions = std::unordered_map<std::string_view, Composition>;

// Appends nodes to a graph. Lowerings call it by ONNX names (`b.Add(x, y)`) and by tasks
// (`b.reshape(x, shape)`). The dtypes of inputs must be valid for the operator: the binder has
// already promoted them. Does not own the model.
class Builder {
 public:
  explicit Builder(onnx::Model& model);
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  int64_t opset() const { return model_.opset; }
  onnx::Model& model() { return model_; }
  onnx::Graph& graph() { return *scopes_.back().graph; }
  void set_location(const Location* location) { location_ = location; }
  // Does not take ownership; `compositions` must outlive the builder.
  void set_compositions(const Compositions& compositions) { compositions_ = &compositions; }

  // --- Any operator. Absent optional inputs are nullptr; trailing ones may be omitted. If ONNX
  // Runtime's CPU provider has no kernel for the inputs' dtype, casts are inserted around the
  // operator if they are exact; otherwise a composition replaces it.
  Value op(std::string_view op_type, Values inputs, std::vector<onnx::Attribute> attributes = {},
           std::string_view domain = "");
  Values ops(std::string_view op_type, size_t outputs, Values inputs,
             std::vector<onnx::Attribute> attributes = {}, std::string_view domain = "");

  // --- Constants. They become initializers; equal ones are shared.
  Value i64(int64_t value);                     // 0-d
  Value i64s(std::span<const int64_t> values);  // 1-d
  Value i64s(std::initializer_list<int64_t> values) {
    return i64s(std::span(values.begin(), values.size()));
  }
  // 0-d; rounds and wraps like torch.tensor(value).to(dtype). Emits a cast if the model computes
  // the number.
  Value scalar(DType dtype, const Number& value);
  Value like(Value tensor, const Number& value) { return scalar(tensor->dtype, value); }
  Value boolean(bool value) { return scalar(DType::boolean, value); }
  Value full(DType dtype, const Number& value, const Shape& shape);
  Value tensor(TensorData data);  // any constant
  // Returns `count` as the number of elements of a constant; throws unsupported if it is negative,
  // not a number, or too large.
  int64_t constant_size(double count) const;

  // --- Symbolic sizes as tensors.
  Value dim_value(const Dim& dim);        // 0-d int64
  Value shape_value(const Shape& shape);  // 1-d int64
  Value shape_of(Value tensor) { return shape_value(tensor->known_shape()); }
  Value size(Value tensor, int64_t axis) { return dim_value(tensor->dim(axis)); }
  // bind() records that `scalar` (0-d or 1-element integer) holds `dim`; bind_sizes() records the
  // sizes of a tensor's axes.
  void bind(const Dim& dim, Value scalar);
  void bind_sizes(Value tensor);
  // Declares sizes that inference cannot find. Throws ExportError(internal) if they contradict the
  // inferred ones.
  void refine(Value tensor, Shape shape);
  void refine(Value tensor, int64_t axis, const Dim& size);
  // Sets the type of a result whose operator ONNX does not know.
  void declare(Value value, DType dtype, std::optional<Shape> shape);
  // Returns the expression of a 0-d integer tensor. If inference does not know it, binds the tensor
  // to a fresh symbol with this range.
  Dim dim_of(Value scalar, const DimRange& range = DimRange::integer());

  // --- Tasks. Axes may be negative. A task that changes nothing emits nothing.
  Value cast(Value tensor, DType dtype);  // like Tensor.to(dtype): a cast to bool is != 0
  Value cast(Value tensor, const onnx::Inferred<DType>& dtype) {
    return cast(tensor, DType(dtype));
  }
  Value cast(Value tensor, std::optional<DType> dtype) {
    return dtype ? cast(tensor, *dtype) : tensor;
  }
  Value reshape(Value tensor, const Shape& shape);          // all sizes are explicit (no -1)
  Value flatten(Value tensor, int64_t start, int64_t end);  // joins axes start..end
  Value expand(Value tensor, const Shape& shape);           // NumPy broadcasting to exactly `shape`
  Value squeeze(Value tensor, const Ints& axes);
  Value unsqueeze(Value tensor, const Ints& axes);  // `axes` refer to the result
  Value transpose(Value tensor, const Ints& permutation);
  Value swap_axes(Value tensor, int64_t a, int64_t b);
  Value concat(Values tensors, int64_t axis);
  // Python slicing of one axis; bounds are clamped as in Python.
  Value slice(Value tensor, int64_t axis, const Dim& start, const Dim& end, int64_t step = 1);
  Values split(Value tensor, int64_t axis, const std::vector<Dim>& sizes);
  Value select(Value tensor, int64_t axis,
               const Dim& index);  // removes the axis; index >= 0
  Value gather(Value tensor, Value indices, int64_t axis) {
    return op("Gather", {tensor, indices}, {{"axis", axis}});
  }
  // "ReduceSum", "ReduceMax" ...; no axes means all of them.
  Value reduce(std::string_view op_type, Value tensor, const Ints& axes, bool keepdims);
  Value where(Value condition, Value a, Value b) { return op("Where", {condition, a, b}); }
  Value range(const Dim& start, const Dim& end, const Dim& step);  // 1-d int64
  Value range(const Dim& end) { return range(0, end, 1); }
  Value pad(Value tensor, const std::vector<Dim>& begins_then_ends, Value value = nullptr,
            std::string_view mode = "constant");
  Value softmax(Value tensor, int64_t axis) { return op("Softmax", {tensor}, {{"axis", axis}}); }
  Value matmul(Value a, Value b) { return op("MatMul", {a, b}); }

  // --- ONNX operators whose only arguments are tensors.
  Value Abs(Value x) { return op("Abs", {x}); }
  Value Add(Value a, Value b) { return op("Add", {a, b}); }
  Value And(Value a, Value b) { return op("And", {a, b}); }
  Value Ceil(Value x) { return op("Ceil", {x}); }
  Value Cos(Value x) { return op("Cos", {x}); }
  Value Div(Value a, Value b) { return op("Div", {a, b}); }
  Value Equal(Value a, Value b) { return op("Equal", {a, b}); }
  Value Erf(Value x) { return op("Erf", {x}); }
  Value Exp(Value x) { return op("Exp", {x}); }
  Value Floor(Value x) { return op("Floor", {x}); }
  Value Greater(Value a, Value b) { return op("Greater", {a, b}); }
  Value GreaterOrEqual(Value a, Value b) { return op("GreaterOrEqual", {a, b}); }
  Value Identity(Value x) { return op("Identity", {x}); }
  Value IsNaN(Value x) { return op("IsNaN", {x}); }
  Value Less(Value a, Value b) { return op("Less", {a, b}); }
  Value LessOrEqual(Value a, Value b) { return op("LessOrEqual", {a, b}); }
  Value Log(Value x) { return op("Log", {x}); }
  Value Max(Value a, Value b) { return op("Max", {a, b}); }
  Value Min(Value a, Value b) { return op("Min", {a, b}); }
  Value Mul(Value a, Value b) { return op("Mul", {a, b}); }
  Value Neg(Value x) { return op("Neg", {x}); }
  Value Not(Value x) { return op("Not", {x}); }
  Value Or(Value a, Value b) { return op("Or", {a, b}); }
  Value Pow(Value a, Value b) { return op("Pow", {a, b}); }
  Value Reciprocal(Value x) { return op("Reciprocal", {x}); }
  Value Round(Value x) { return op("Round", {x}); }
  Value Sigmoid(Value x) { return op("Sigmoid", {x}); }
  Value Sign(Value x) { return op("Sign", {x}); }
  Value Sin(Value x) { return op("Sin", {x}); }
  Value Sqrt(Value x) { return op("Sqrt", {x}); }
  Value Sub(Value a, Value b) { return op("Sub", {a, b}); }
  Value Tanh(Value x) { return op("Tanh", {x}); }
  Value Xor(Value a, Value b) { return op("Xor", {a, b}); }

  // --- Subgraphs. Runs `body` with the builder appending to a new graph inside the current one.
  // `body` adds inputs with graph().add_input and returns the results. It may use values of outer
  // graphs.
  std::shared_ptr<onnx::Graph> subgraph(std::string_view name, const std::function<Values()>& body);
  // Runs `body` in its own scope: sizes that it binds are forgotten afterwards.
  void scoped(const std::function<void()>& body);
  // In the current scope, binds a symbol to this scalar, whatever its outer binding.
  void shadow(const Dim& symbol, Value scalar);
  // Emits an If with these bodies as branches; returns as many results as the bodies.
  Values if_else(Value condition, const std::function<Values()>& then_body,
                 const std::function<Values()>& else_body);

  // --- Errors of a lowering. The driver adds the node and the user's source line.
  template <class... Parts>
  [[noreturn]] void unsupported(const Parts&... parts) const {
    fail(ErrorKind::unsupported, parts...);
  }
  template <class... Parts>
  void check(bool condition, const Parts&... parts) const {
    if (!condition) fail(ErrorKind::unsupported, parts...);
  }

 private:
  // The source of a size: a tensor's axis, or (axis -1) a 1-element tensor.
  struct Source {
    Value value;
    int64_t axis;
  };
  // The sizes known inside one graph. Inner scopes see the outer ones.
  struct Scope {
    onnx::Graph* graph;
    std::unordered_map<Dim, Source> sources = {};
    // Maps a symbol to an expression that has a source and is linear in that symbol alone.
    std::unordered_map<std::string, Dim> solutions = {};
    std::unordered_map<Dim, Value> sizes = {};    // 0-d, made by dim_value
    std::unordered_map<Dim, Value> vectors = {};  // 1-d, one element
    std::vector<std::string> shadowed = {};       // symbols whose outer bindings are hidden
  };

  // Looks up a size in the scopes from the innermost out; stops at a scope that shadows one of its
  // symbols.
  template <class T>
  const T* lookup(std::unordered_map<Dim, T> Scope::*map, const Dim& dim) const;

  // Returns the opset of the finished model, which determines the available kernels.
  int64_t kernel_opset() const { return model_.final_opset.value_or(model_.opset); }
  // Emits the operator between casts, or a composition, if ONNX Runtime lacks a kernel for the
  // inputs' dtype; nullopt otherwise.
  std::optional<Values> without_kernel(std::string_view op_type, size_t outputs,
                                       const Values& inputs,
                                       const std::vector<onnx::Attribute>& attributes);
  std::optional<Values> composed(std::string_view op_type, size_t outputs, const Values& inputs,
                                 const std::vector<onnx::Attribute>& attributes);
  Values cast_around(std::string_view op_type, size_t outputs, const Values& inputs,
                     const std::vector<onnx::Attribute>& attributes, size_t typed, DType compute);
  const Source* find_source(const Dim& dim) const { return lookup(&Scope::sources, dim); }
  const Dim* find_solution(const std::string& symbol) const;
  Value size_vector(const Dim& dim);  // 1-d int64 of one element
  Value size_value(const Dim& dim, int rank) { return rank ? size_vector(dim) : dim_value(dim); }
  // Sizes that become parts of shapes are computed in vectors, those that become numbers in
  // scalars.
  Value compute_size(const Dim& dim, int rank);
  Value term_value(const Dim::Term& term, int rank);
  Value factor_value(const Dim::Factor& factor, int rank);
  Value constant(std::string key, const std::function<TensorData()>& make);

  onnx::Model& model_;
  const Location* location_ = nullptr;
  const Compositions* compositions_ = nullptr;
  std::vector<Scope> scopes_;
  std::unordered_map<std::string, Value> constants_;
};

// Returns the axis as a non-negative number; throws unsupported if it is out of range. A 0-d tensor
// accepts axes -1 and 0 (`rank` counts as 1).
int64_t normalize_axis(int64_t axis, int64_t rank);

}  // namespace onnx_native
