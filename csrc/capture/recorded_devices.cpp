// Devices of a recorded call: where its results are in eager, and what eager refuses.
#include <ATen/ops/clone.h>
#include <ATen/ops/empty.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <exception>

#include "aten/interrupt.h"
#include "base/error.h"
#include "capture/recorded_call.h"
#include "capture/transformed_call.h"

namespace onnx_native::capture {

// Returns a device of this process, with its number.
c10::Device RecordedCall::existing(c10::Device device) {
  if (device.is_cpu()) return c10::kCPU;
  const bool is_known = !device.is_meta() && c10::impl::hasDeviceGuardImpl(device.type());
  const auto* known = is_known ? c10::impl::getDeviceGuardImpl(device.type()) : nullptr;
  if (!known || known->deviceCount() == 0 || device.index() >= known->deviceCount())
    refuse("the program uses the device " + device.str() + ", which has no memory here");
  return device.has_index() ? device : known->getDevice();
}

// Notes the devices of the arguments. PyTorch takes a number that it wrapped on any device. The
// sizes of the steps of a packed sequence are on the CPU.
void RecordedCall::note_devices() {
  const int steps = schema_->index("batch_sizes");
  for (size_t i = 0; i < arguments_.size(); ++i) {
    const c10::IValue& argument = arguments_[i];
    if (argument.isDevice()) asked_ = existing(argument.toDevice());
    if (argument.isGenerator() && argument.toGenerator().defined() &&
        !argument.toGenerator().device().is_cpu())
      refuse("the program uses a generator of the device " + argument.toGenerator().device().str());
    for_each_tensor(argument, [&](const at::Tensor& tensor) {
      const bool is_number = !recorded(tensor) && is_wrapped_number(tensor);
      if (is_number || static_cast<int>(i) == steps) return;
      if (!common_) common_ = tensor.device();
      is_mixed_ = is_mixed_ || *common_ != tensor.device();
    });
  }
}

// Raises PyTorch's exception if this process cannot pin memory.
void RecordedCall::check_pins() {
  const int index = schema_->index("pin_memory");
  if (index < 0) return;
  const c10::IValue& pins = arguments_[static_cast<size_t>(index)];
  if (!pins.isBool() || !pins.toBool()) return;
  const c10::Device device = asked_.value_or(common_.value_or(c10::kCPU));
  if (!device.is_cpu()) refuse("the program pins memory of the device " + device.str());
  at::empty({1}, at::TensorOptions().pinned_memory(true));
}

// Finds the devices of the results. Returns false for an operator that moves tensors, or gets them
// on several devices, and that consists of other operators: they are the ones to ask.
bool RecordedCall::find_devices() {
  note_devices();
  check_pins();
  const bool is_composed = op_.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  const bool moves = asked_ && common_ && *asked_ != *common_;
  device_ = asked_.value_or(common_.value_or(c10::kCPU));
  if (facts_.joins_devices) device_ = arguments_[0].toTensor().device();
  for (size_t i = 0; facts_.cpu_results != 0 && i < schema_->returns.size(); ++i)
    devices_.push_back((facts_.cpu_results >> i & 1u) != 0 ? c10::kCPU : device_);
  if (facts_.joins_devices) return true;
  if (is_composed && (moves || is_mixed_)) return false;
  if (is_mixed_) try_on_zeros();
  return true;
}

c10::IValue RecordedCall::zeros_for(const c10::IValue& value, const aten::SchemaType& type) {
  if (value.isDevice() || is_wrapped_number(value)) return value;
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined()) return value;
    return MetaResults::zeros_for(recording_.meta_of(tensor), tensor.device());
  }
  if (!value.isList() || type.kind != aten::TypeKind::tensor) return meta(value, type);
  aten::SchemaType element = type;
  element.list = false;
  c10::impl::GenericList list(value.toList().elementType());
  for (const c10::IValue& item : value.toListRef()) list.push_back(zeros_for(item, element));
  return list;
}

// Calls an operator on zeros on the devices of its arguments, to learn the devices of its results,
// or that eager refuses them.
void RecordedCall::try_on_zeros() {
  int64_t elements = 0;
  std::string devices;
  for (const c10::IValue& argument : arguments_)
    for_each_tensor(argument, [&](const at::Tensor& tensor) {
      if (!recorded(tensor) && is_wrapped_number(tensor)) return;
      const at::Tensor meta = recording_.meta_of(tensor);
      elements += MetaResults::span_of(meta.sizes(), meta.strides());
      devices += (devices.empty() ? "" : ", ") + tensor.device().str();
    });
  if (elements > MetaResults::kMostElements) refuse("its tensors are on the devices " + devices);
  torch::jit::Stack stack;
  try {
    const c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecorderKey);
    for (size_t i = 0; i < arguments_.size(); ++i)
      stack.push_back(zeros_for(arguments_[i], schema_->arguments[i].type));
    MetaResults::call_on_zeros(op_, stack);
  } catch (const c10::Error& error) {
    refuse(first_line(error.what_without_backtrace()));
  } catch (const std::exception& error) {
    aten::pass_interrupt();
    refuse(first_line(error.what()));
  }
  for (const c10::IValue& result : stack)
    for_each_tensor(result, [&](const at::Tensor& made) { devices_.push_back(made.device()); });
  if (!devices_.empty()) device_ = devices_[0];
}

// Records x.pin_memory() and x.is_pinned(). Returns false for other calls.
bool RecordedCall::record_pinned() {
  const bool asks = key_ == "aten::is_pinned";
  if (!asks && key_ != "aten::pin_memory" && key_ != "aten::_pin_memory") return false;
  const at::Tensor self = arguments_[0].toTensor();
  const at::Tensor meta = recording_.meta_of(self);
  const bool is_pinned =
      self.is_cpu() && (recorded(self) ? recording_.memories().is_pinned(meta) : self.is_pinned());
  if (!asks && !self.is_cpu())
    refuse("the program pins memory of the device " + self.device().str());
  torch::jit::drop(stack_, arguments_.size());
  if (asks) {
    stack_.emplace_back(is_pinned);
    return true;
  }
  if (is_pinned) {
    stack_.emplace_back(self);
    return true;
  }
  at::empty({1}, at::TensorOptions().pinned_memory(true));  // raises where nothing can be pinned
  const c10::impl::ForceDispatchKeyGuard recording(with_recorder());
  at::Tensor pinned = at::clone(self);
  recording_.memories().pin(recorded(pinned)->meta());
  stack_.emplace_back(std::move(pinned));
  return true;
}

}  // namespace onnx_native::capture
