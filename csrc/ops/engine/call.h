// One ATen call being lowered: its arguments, as lowerings ask for them.
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

// What became of one ATen value: a tensor (also a computed number, 0-d), or a symbolic integer.
struct Lowered {
  Value value = nullptr;
  std::optional<Dim> dim;

  Lowered() = default;
  Lowered(Value v) : value(v) {}         // NOLINT(google-explicit-constructor)
  Lowered(Dim d) : dim(std::move(d)) {}  // NOLINT(google-explicit-constructor)
};

using Results = CheckedVector<Lowered>;
using Environment = std::unordered_map<const aten::Value*, Lowered>;

// How the tensor arguments of an operator come to one dtype before its lambda runs.
enum class Promote {
  none,          // arguments come as they are
  standard,      // all to torch.result_type of the arguments
  int_to_float,  // as standard; integers and bool become the default dtype
  integer,       // as standard; bool becomes int64
  first,         // Scalars and later tensors to the first tensor's dtype
};

// Arguments are read by index in schema order. The readers fill in defaults, so every argument is
// there. Throws ExportError(unsupported) when an argument is not what the lowering asks for.
class Call {
 public:
  Call(Lowerer& lowerer, Builder& builder, const aten::Node& node, const Environment& environment)
      : lowerer_(lowerer), builder_(builder), node_(node), environment_(environment) {}

  // Another call at this call's place, for a lowering that runs another one.
  Call with(const aten::Node& node, const Environment& environment) const {
    return Call(lowerer_, builder_, node, environment);
  }

  Builder& builder() const { return builder_; }
  const aten::Node& node() const { return node_; }
  const Environment& environment() const { return environment_; }
  size_t size() const { return node_.arguments.size(); }
  const aten::Argument& argument(size_t i) const;
  std::string_view argument_name(size_t i) const;
  // What the reader recorded of a result.
  const aten::Type& result_type(size_t i) const { return node_.outputs.at(i)->type; }
  const Lowered& lowered(const aten::Value* value) const;

  bool is_none(size_t i) const;
  // A tensor; numbers (literal or symbolic) become 0-d tensors of `number_dtype`, or of their own
  // kind when it is undefined.
  Value tensor(size_t i, DType number_dtype = DType::undefined) const;
  std::vector<std::optional<Value>> optional_tensors(size_t i) const;
  Values tensors(size_t i) const;
  // Of 32 bits, so that lowerings can compute with them; a Dim may be any number.
  int64_t integer(size_t i) const;
  Dim dim(size_t i) const;
  Ints integers(size_t i) const;
  Shape shape(size_t i) const;
  // A number; one that the model computes stays so.
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
  // The elements of a list of tensors and numbers, as they are.
  Results elements(size_t i) const;
  const aten::Graph& body(size_t i) const;
  // Lowers a sub-graph at the Builder's current place, with these for its inputs; gives what its
  // outputs became.
  Results inline_body(const aten::Graph& body, const Results& arguments) const;

  // torch.result_type of the given arguments (tensors, and numbers that stand for tensors).
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

// The dtype to compute in after integers and bool become floats: `dtype` itself when floating or
// complex, else the default dtype.
DType float_dtype(DType dtype);

}  // namespace onnx_native::ops
