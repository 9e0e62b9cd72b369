// Arguments of a recorded call: for its node, and for the meta kernel.
#include <ATen/ScalarOps.h>
#include <ATen/ops/result_type.h>

#include "aten/torch_literal.h"
#include "capture/recorded_call.h"
#include "capture/symbolic_size.h"

namespace onnx_native::capture {
namespace {

using aten::Argument;
using aten::TypeKind;

// Returns the number that PyTorch wrapped in a tensor.
Argument number_in(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case c10::kBool:
      return *tensor.const_data_ptr<bool>();
    case c10::kLong:
      return *tensor.const_data_ptr<int64_t>();
    case c10::kDouble:
      return *tensor.const_data_ptr<double>();
    case c10::kComplexDouble: {
      const auto number = *tensor.const_data_ptr<c10::complex<double>>();
      return std::complex<double>(number.real(), number.imag());
    }
    default:
      return {};
  }
}

}  // namespace

// Replaces numbers that stand for dynamic sizes.
void RecordedCall::recognize_sizes() {
  if (!schema_ || !decisions_.recognizes_numbers()) return;
  const auto size_of = [this](int64_t number) {
    const std::optional<Dim> size = decisions_.recognized(number);
    return size ? to_sym_int(*size, decisions_) : c10::SymInt(number);
  };
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (schema_->arguments[i].type.kind != TypeKind::sym_int) continue;
    if (arguments_[i].isInt()) {
      arguments_[i] = size_of(arguments_[i].toInt());
    } else if (arguments_[i].isIntList()) {
      std::vector<c10::SymInt> sizes;
      for (const int64_t number : arguments_[i].toIntVector()) sizes.push_back(size_of(number));
      arguments_[i] = c10::IValue(c10::SymIntArrayRef(sizes));
    }
  }
}

void RecordedCall::note_size(const Dim& dim) {
  symbolic_ = symbolic_ || !dim.is_constant();
  data_ = data_ || !decisions_.follows_from_sizes(dim);
}

// Returns the number for the meta kernels.
double RecordedCall::number_in_example(const c10::SymNode& node) {
  return decisions_.example(*recording_.number_of(node)).value_or(1);
}

Argument RecordedCall::number_argument(const c10::SymNode& node) {
  symbolic_ = data_ = true;
  return recording_.frame().sizes().number(*recording_.number_of(node));
}

Argument RecordedCall::tensor_argument(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  if (const RecordedTensor* known = recorded(tensor)) {
    for (const Dim& size : known->shape()) note_size(size);
  } else if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    Argument number = number_in(tensor);
    if (number.is_none()) refuse("a number of an unknown type");
    return number;
  }
  return recording_.value_of(tensor);
}

Argument RecordedCall::argument(const c10::IValue& value, const aten::SchemaType& type) {
  if (value.isTensor()) return tensor_argument(value.toTensor());
  if (value.isSymInt()) {
    const Dim dim = to_dim(value.toSymInt(), decisions_);
    note_size(dim);
    return recording_.frame().sizes().size(dim);
  }
  if (value.isSymFloat()) return number_argument(value.toSymFloat().toSymNodeImpl());
  if (value.isSymBool()) return number_argument(value.toSymBool().toSymNodeImpl());
  if (value.isList()) {
    Argument::List list;
    aten::SchemaType element = type;
    element.list = false;
    for (const c10::IValue& item : value.toListRef()) list.push_back(argument(item, element));
    return list;
  }
  if (value.isGenerator()) return {};  // unseeded: the model draws its own numbers
  Argument result = aten::literal_argument(value, type);
  if (value.isObject())
    refuse("an argument is a TorchScript object; export torch.jit.trace(model, args) in its place");
  if (result.is_none() && !value.isNone()) refuse("an argument of an unknown type");
  return result;
}

std::vector<Argument> RecordedCall::read_arguments() {
  recording_.frame().set_location(recording_.host().location());
  std::vector<Argument> arguments;
  for (size_t i = 0; i < arguments_.size(); ++i)
    arguments.push_back(argument(arguments_[i], schema_->arguments[i].type));
  return arguments;
}

// Returns the argument that the meta kernel gets.
c10::IValue RecordedCall::meta(const c10::IValue& value, const aten::SchemaType& type) {
  if (type.kind == TypeKind::device && !type.list && (!has_tensors_ || !value.isNone()))
    return c10::Device(c10::kMeta);
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined() || is_wrapped_number(value)) return value;
    return recording_.meta_of(tensor);
  }
  if (value.isSymInt()) {
    const Dim dim = to_dim(value.toSymInt(), decisions_);
    const auto size = small_data_ && !decisions_.example(dim) ? 0 : decisions_.stand_in(dim);
    if (!size) refuse("a size is not known");
    if (type.kind == TypeKind::tensor) return at::native::wrapped_scalar_tensor(*size);
    return *size;
  }
  if (value.isSymFloat() || value.isSymBool()) {
    const bool is_float = value.isSymFloat();
    const c10::SymNode node =
        is_float ? value.toSymFloat().toSymNodeImpl() : value.toSymBool().toSymNodeImpl();
    const double number = number_in_example(node);
    const c10::Scalar scalar = is_float ? c10::Scalar(number) : c10::Scalar(number != 0);
    if (type.kind == TypeKind::tensor) return at::native::wrapped_scalar_tensor(scalar);
    return scalar;
  }
  if (value.isGenerator()) return {};  // of the CPU
  if (!value.isList()) return value;
  aten::SchemaType element = type;
  element.list = false;
  if (type.kind == TypeKind::sym_int) {
    c10::List<int64_t> list;
    for (const c10::IValue& item : value.toListRef()) list.push_back(meta(item, element).toInt());
    return list;
  }
  if (type.kind != TypeKind::tensor) return value;
  c10::impl::GenericList list(value.toList().elementType());
  for (const c10::IValue& item : value.toListRef()) list.push_back(meta(item, element));
  return list;
}

namespace {

// Makes the result of a call on numbers alone, torch.div(n, 2), a meta tensor: the first of them
// becomes one.
void move_number(torch::jit::Stack& stack) {
  c10::IValue* first = nullptr;
  for (c10::IValue& argument : stack) {
    if (argument.isTensorList()) return;
    if (!argument.isTensor() || !argument.toTensor().defined()) continue;
    if (!is_wrapped_number(argument)) return;
    if (!first) first = &argument;
  }
  if (!first) return;
  const at::Tensor& number = first->toTensor();
  const c10::ScalarType dtype = at::result_type(number, number);
  *first = at::empty({}, at::TensorOptions(dtype).device(c10::kMeta));
}

}  // namespace

torch::jit::Stack RecordedCall::meta_arguments() {
  torch::jit::Stack stack;
  for (size_t i = 0; i < arguments_.size(); ++i) {
    const bool pins = schema_->arguments[i].name == "pin_memory";  // meta tensors have no memory
    stack.push_back(pins ? c10::IValue() : meta(arguments_[i], schema_->arguments[i].type));
  }
  move_number(stack);
  if (reshapes_) stack[0] = stack[0].toTensor().alias();
  // Eager takes conditions of uint8, the meta kernel does not.
  if (key_.starts_with("aten::where.") && stack[0].toTensor().scalar_type() == c10::kByte)
    stack[0] = stack[0].toTensor().to(c10::kBool);
  return stack;
}

}  // namespace onnx_native::capture
