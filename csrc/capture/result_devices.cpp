#include "capture/result_devices.h"

#include <ATen/ops/empty.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <exception>

#include "aten/interrupt.h"
#include "base/error.h"
#include "capture/meta_arguments.h"

namespace onnx_native::capture {
namespace {

// The devices of the arguments.
struct Given {
  std::optional<c10::Device> common;  // the device of the tensors: the first one's
  std::optional<c10::Device> asked;   // the device that an argument names
  bool is_mixed = false;              // the tensors are on several devices
};

// Returns a device of this process, with its number.
c10::Device existing(const Call& call, c10::Device device) {
  if (device.is_cpu()) return c10::kCPU;
  const bool is_known = !device.is_meta() && c10::impl::hasDeviceGuardImpl(device.type());
  const auto* known = is_known ? c10::impl::getDeviceGuardImpl(device.type()) : nullptr;
  if (!known || known->deviceCount() == 0 || device.index() >= known->deviceCount())
    call.refuse("the program uses the device " + device.str() + ", which has no memory here");
  return device.has_index() ? device : known->getDevice();
}

// Returns the devices of the arguments. PyTorch takes a number that it wrapped on any device. The
// sizes of the steps of a packed sequence are on the CPU.
Given given_devices(const Call& call) {
  Given given;
  const int steps = call.schema->index("batch_sizes");
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    const c10::IValue& argument = call.arguments[i];
    if (argument.isDevice()) given.asked = existing(call, argument.toDevice());
    if (argument.isGenerator() && argument.toGenerator().defined() &&
        !argument.toGenerator().device().is_cpu())
      call.refuse("the program uses a generator of the device " +
                  argument.toGenerator().device().str());
    for_each_tensor(argument, [&](const at::Tensor& tensor) {
      const bool is_number = !recorded(tensor) && is_wrapped_number(tensor);
      if (is_number || static_cast<int>(i) == steps) return;
      if (!given.common) given.common = tensor.device();
      given.is_mixed = given.is_mixed || *given.common != tensor.device();
    });
  }
  return given;
}

// Raises PyTorch's exception if this process cannot pin memory.
void check_pins(const Call& call, const c10::Device& device) {
  const int index = call.schema->index("pin_memory");
  if (index < 0) return;
  const c10::IValue& pins = call.arguments[static_cast<size_t>(index)];
  if (!pins.isBool() || !pins.toBool()) return;
  if (!device.is_cpu()) call.refuse("the program pins memory of the device " + device.str());
  at::empty({1}, at::TensorOptions().pinned_memory(true));
}

c10::IValue zeros_for(const Call& call, const c10::IValue& value, const aten::SchemaType& type) {
  if (value.isDevice() || is_wrapped_number(value)) return value;
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined()) return value;
    return MetaResults::zeros_for(call.recording.meta_of(tensor), tensor.device());
  }
  if (!value.isList() || type.kind != aten::TypeKind::tensor)
    return meta_argument(call, value, type);
  aten::SchemaType element = type;
  element.list = false;
  c10::impl::GenericList list(value.toList().elementType());
  for (const c10::IValue& item : value.toListRef()) list.push_back(zeros_for(call, item, element));
  return list;
}

// Returns the devices of the results of a call on zeros on the devices of the arguments, which
// eager may refuse.
std::vector<c10::Device> try_on_zeros(const Call& call) {
  int64_t elements = 0;
  std::string devices;
  for (const c10::IValue& argument : call.arguments)
    for_each_tensor(argument, [&](const at::Tensor& tensor) {
      if (!recorded(tensor) && is_wrapped_number(tensor)) return;
      const at::Tensor meta = call.recording.meta_of(tensor);
      elements += MetaResults::span_of(meta.sizes(), meta.strides());
      devices += (devices.empty() ? "" : ", ") + tensor.device().str();
    });
  if (elements > MetaResults::kMostElements)
    call.refuse("its tensors are on the devices " + devices);
  torch::jit::Stack stack;
  try {
    const c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecorderKey);
    for (size_t i = 0; i < call.arguments.size(); ++i)
      stack.push_back(zeros_for(call, call.arguments[i], call.schema->arguments[i].type));
    MetaResults::call_on_zeros(call.op, stack);
  } catch (const c10::Error& error) {
    call.refuse(first_line(error.what_without_backtrace()));
  } catch (const std::exception& error) {
    aten::pass_interrupt();
    call.refuse(first_line(error.what()));
  }
  std::vector<c10::Device> results;
  for (const c10::IValue& result : stack)
    for_each_tensor(result, [&](const at::Tensor& made) { results.push_back(made.device()); });
  return results;
}

}  // namespace

std::optional<ResultDevices> find_devices(const Call& call) {
  const Given given = given_devices(call);
  ResultDevices results;
  results.first = given.asked.value_or(given.common.value_or(c10::kCPU));
  check_pins(call, results.first);
  if (call.facts.joins_devices) results.first = call.arguments[0].toTensor().device();
  for (size_t i = 0; call.facts.cpu_results != 0 && i < call.schema->returns.size(); ++i)
    results.each.push_back((call.facts.cpu_results >> i & 1u) != 0 ? c10::kCPU : results.first);
  if (call.facts.joins_devices) return results;
  const bool moves = given.asked && given.common && *given.asked != *given.common;
  const bool is_composed =
      call.op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  if (is_composed && (moves || given.is_mixed)) return std::nullopt;
  if (given.is_mixed) {
    results.each = try_on_zeros(call);
    if (!results.each.empty()) results.first = results.each[0];
  }
  return results;
}

}  // namespace onnx_native::capture
