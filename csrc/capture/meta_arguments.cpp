#include "capture/meta_arguments.h"

#include <ATen/ScalarOps.h>
#include <ATen/ops/result_type.h>

#include "capture/symbolic_size.h"

namespace onnx_native::capture {

using aten::TypeKind;

namespace {

// Returns the number for the meta kernels.
double number_in_example(const Call& call, const c10::SymNode& node) {
  return call.decisions().example(*call.recording.number_of(node)).value_or(1);
}

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

c10::IValue meta_argument(const Call& call, const c10::IValue& value, const aten::SchemaType& type,
                          bool small_data) {
  if (type.kind == TypeKind::device && !type.list && (!call.has_tensors || !value.isNone()))
    return c10::Device(c10::kMeta);
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined() || is_wrapped_number(value)) return value;
    return call.recording.meta_of(tensor);
  }
  if (value.isSymInt()) {
    const Dim dim = to_dim(value.toSymInt(), call.decisions());
    const auto size =
        small_data && !call.decisions().example(dim) ? 0 : call.decisions().stand_in(dim);
    if (!size) call.refuse("a size is not known");
    if (type.kind == TypeKind::tensor) return at::native::wrapped_scalar_tensor(*size);
    return *size;
  }
  if (value.isSymFloat() || value.isSymBool()) {
    const bool is_float = value.isSymFloat();
    const c10::SymNode node =
        is_float ? value.toSymFloat().toSymNodeImpl() : value.toSymBool().toSymNodeImpl();
    const double number = number_in_example(call, node);
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
    for (const c10::IValue& item : value.toListRef())
      list.push_back(meta_argument(call, item, element, small_data).toInt());
    return list;
  }
  if (type.kind != TypeKind::tensor) return value;
  c10::impl::GenericList list(value.toList().elementType());
  for (const c10::IValue& item : value.toListRef())
    list.push_back(meta_argument(call, item, element, small_data));
  return list;
}

torch::jit::Stack meta_arguments(const Call& call, bool small_data) {
  torch::jit::Stack stack;
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    const bool pins =
        call.schema->arguments[i].name == "pin_memory";  // meta tensors have no memory
    stack.push_back(
        pins ? c10::IValue()
             : meta_argument(call, call.arguments[i], call.schema->arguments[i].type, small_data));
  }
  move_number(stack);
  if (call.reshapes) stack[0] = stack[0].toTensor().alias();
  // Eager takes conditions of uint8, the meta kernel does not.
  if (call.key.starts_with("aten::where.") && stack[0].toTensor().scalar_type() == c10::kByte)
    stack[0] = stack[0].toTensor().to(c10::kBool);
  return stack;
}

}  // namespace onnx_native::capture
