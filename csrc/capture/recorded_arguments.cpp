// Arguments of the node of a recorded call.
#include "aten/torch_literal.h"
#include "capture/recorded_call.h"
#include "capture/symbolic_size.h"

namespace onnx_native::capture {
namespace {

using aten::Argument;

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

void RecordedCall::note_size(const Dim& dim) {
  symbolic_ = symbolic_ || !dim.is_constant();
  data_ = data_ || !decisions_.follows_from_sizes(dim);
}

Argument RecordedCall::number_argument(const c10::SymNode& node) {
  symbolic_ = data_ = true;
  numbers_.push_back(recording_.number_of(node));
  return recording_.frame().sizes().number(*numbers_.back());
}

Argument RecordedCall::tensor_argument(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  if (const RecordedTensor* known = recorded(tensor)) {
    for (const Dim& size : known->shape()) note_size(size);
  } else if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    Argument number = number_in(tensor);
    if (number.is_none()) call_.refuse("a number of an unknown type");
    return number;
  }
  return recording_.value_of(tensor);
}

Argument RecordedCall::argument(const c10::IValue& value, const aten::SchemaType& type) {
  if (value.isTensor()) return tensor_argument(value.toTensor());
  if (value.isSymInt()) {
    const Dim dim = to_dim(value.toSymInt(), decisions_);
    note_size(dim);
    if (!dim.is_constant()) numbers_.push_back(make_number(dim));
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
    call_.refuse(
        "an argument is a TorchScript object; export torch.jit.trace(model, args) in its place");
  if (result.is_none() && !value.isNone()) call_.refuse("an argument of an unknown type");
  return result;
}

std::vector<Argument> RecordedCall::read_arguments() {
  recording_.frame().set_location(recording_.host().location());
  std::vector<Argument> arguments;
  for (size_t i = 0; i < call_.arguments.size(); ++i)
    arguments.push_back(argument(call_.arguments[i], call_.schema->arguments[i].type));
  return arguments;
}

aten::Node* RecordedCall::add_node(std::vector<Argument> arguments) {
  aten::Node* node = recording_.frame().add_node(call_.key, std::move(arguments));
  for (const NumberPtr& number : numbers_) recording_.note_read(*number, node);
  return node;
}

}  // namespace onnx_native::capture
