// One ATen call that is being lowered, with typed access to its arguments.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "aten/default_dtype.h"
#include "aten/graph.h"
#include "base/checked_vector.h"
#include "onnx/builder.h"
#include "onnx/number.h"

namespace onnx_native::ops {

using aten::default_dtype;

class Lowerer;

// The lowered form of one ATen value: a tensor (0-d for a computed number) or a symbolic integer.
struct Lowered {
  Value value = nullptr;
  std::optional<Dim> dim;

  Lowered() = default;
  Lowered(Value v) : value(v) {}         // NOLINT(google-explicit-constructor)
  Lowered(Dim d) : dim(std::move(d)) {}  // NOLINT(google-explicit-constructor)
};

using Results = CheckedVector<Lowered>;
using Environment = std::unordered_map<const aten::Value*, Lowered>;

// Returns the tensor or number that `value` was lowered to. Throws ExportError if nothing defines
// the value, or if it has neither (a string, or a result that its lowering does not compute).
const Lowered& find_lowered(const Environment& environment, const aten::Value& value);

// The promotion that brings the tensor arguments to one dtype before the lambda runs.
enum class Promote {
  none,          // arguments stay as they are
  standard,      // all become torch.result_type of the arguments
  int_to_float,  // like standard; integers and bool become the default dtype
  integer,       // like standard; bool becomes int64
  first,         // numbers and later tensors take the first tensor's dtype
};

// Reads arguments by index in schema order. The readers fill in defaults, so every argument is
// present. Throws ExportError(unsupported) if an argument has a type or value that the lowering
// rejects.
class Call {
 public:
  Call(Lowerer& lowerer, Builder& builder, const aten::Node& node, const Environment& environment)
      : lowerer_(lowerer), builder_(builder), node_(node), environment_(environment) {}

  // Returns a call of another node at the same location, for a lowering that delegates to it.
  Call with(const aten::Node& node, const Environment& environment) const {
    return Call(lowerer_, builder_, node, environment);
  }

  Builder& builder() const { return builder_; }
  const aten::Node& node() const { return node_; }
  const Environment& environment() const { return environment_; }
  size_t size() const { return node_.arguments.size(); }
  const aten::Argument& argument(size_t i) const;
  std::string_view argument_name(size_t i) const;
  // Returns the type that the reader recorded for result i.
  const aten::Type& result_type(size_t i) const { return node_.outputs.at(i)->type; }
  const Lowered& lowered(const aten::Value* value) const {
    return find_lowered(environment_, *value);
  }

  bool is_none(size_t i) const;
  // Returns a tensor. A literal or symbolic number becomes a 0-d tensor of `number_dtype`, or of
  // its own dtype if `number_dtype` is undefined.
  Value tensor(size_t i, DType number_dtype = DType::undefined) const;
  std::vector<std::optional<Value>> optional_tensors(size_t i) const;
  Values tensors(size_t i) const;
  // Returns a constant that fits in 32 bits, so lowerings can compute with it. A Dim has no such
  // limit.
  int64_t integer(size_t i) const;
  Dim dim(size_t i) const;
  Ints integers(size_t i) const;
  Shape shape(size_t i) const;
  // Returns a number that is a constant or computed by the model.
  Number any_number(size_t i) const;
  std::vector<Number> any_numbers(size_t i) const;
  double number(size_t i) const;
  std::vector<double> numbers(size_t i) const;
  bool boolean(size_t i) const;
  std::vector<bool> booleans(size_t i) const;
  Scalar scalar(size_t i) const;
  std::vector<Scalar> scalars(size_t i) const;
  std::string string(size_t i) const;
  DType dtype(size_t i) const;
  // Returns the elements of a list of tensors and numbers without conversion.
  Results elements(size_t i) const;
  const aten::Graph& body(size_t i) const;
  // Lowers a sub-graph inline at the Builder's current position, with `arguments` as its inputs.
  // Returns the lowered outputs.
  Results inline_body(const aten::Graph& body, const Results& arguments) const;

  // Returns torch.result_type of these arguments (tensors and numbers).
  DType result_type_of(const std::vector<size_t>& arguments) const;

 private:
  Lowered as_lowered(size_t i, const aten::Argument& argument) const;
  Number as_number(size_t i, const aten::Argument& argument) const;
  [[noreturn]] void wrong(size_t i, std::string_view expected) const;
  Dim as_dim(size_t i, const aten::Argument& argument) const;
  Value as_tensor(size_t i, const aten::Argument& argument, DType number_dtype) const;

  Lowerer& lowerer_;
  Builder& builder_;
  const aten::Node& node_;
  const Environment& environment_;
};

// Returns the floating-point dtype to compute in: `dtype` itself if it is floating or complex, else
// the default dtype.
DType float_dtype(DType dtype);

}  // namespace onnx_native::ops
