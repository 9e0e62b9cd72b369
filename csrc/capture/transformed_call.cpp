#include "capture/transformed_call.h"

#include <ATen/functorch/DynamicLayer.h>
#include <c10/util/ScopeExit.h>

#include <exception>
#include <string>
#include <string_view>

#include "aten/interrupt.h"
#include "capture/recording.h"

namespace onnx_native::capture {
namespace {

using c10::DispatchKey;

// The call that casts_inside() watches.
struct Watch {
  DispatchKey key;  // that of autocast
  bool sees_cast = false;
};
thread_local Watch* watch = nullptr;

void add_keys(const c10::IValue& value, c10::DispatchKeySet& keys) {
  if (value.isTensor() && value.toTensor().defined()) {
    keys = keys | value.toTensor().key_set();
  } else if (value.isTensorList() || value.isOptionalTensorList()) {
    for (const c10::IValue& item : value.toListRef()) add_keys(item, keys);
  }
}

bool has_cast(const c10::OperatorHandle& op, DispatchKey key) {
  return op.hasKernelForDispatchKey(key);
}

// Returns true if the kernel of an operator may call operators that autocast casts, out of sight of
// casts_inside(): the kernel for meta tensors is another one.
bool may_hide_casts(const c10::OperatorHandle& op) {
  const std::string_view name = op.operator_name().name;
  // torch.onnx.ops.symbolic: the program declares the dtypes.
  if (name.starts_with("onnx_symbolic::")) return false;
  if (!name.starts_with("aten::"))
    return op.hasKernelForDispatchKey(DispatchKey::CPU) ||
           op.hasKernelForDispatchKey(DispatchKey::Meta);
  return op.hasKernelForDispatchKey(DispatchKey::CPU) && name.starts_with("aten::linalg_") &&
         name != "aten::linalg_vector_norm" && name != "aten::linalg_cross";
}

void check_layers(Decisions& decisions, const c10::OperatorHandle& op) {
  for (const auto& layer : at::functorch::getDynamicLayerStack()) {
    if (layer.key() != at::functorch::TransformType::Vmap)
      decisions.refuse("the program uses torch.func for derivatives");
    // Random numbers raise by default.
    if (layer.randomness() != at::functorch::RandomnessType::Error &&
        op.hasTag(at::Tag::nondeterministic_seeded))
      decisions.refuse("random numbers in a function that torch.vmap maps");
  }
}

bool run_by_functorch(Decisions& decisions, const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                      torch::jit::Stack& stack) {
  if (!at::functorch::maybeCurrentDynamicLayer()) return false;
  check_layers(decisions, op);
  // The program may catch an exception that it would not get without the recorder.
  try {
    if (!run_batched(op, stack)) run_below(op, keys, stack);
  } catch (const c10::Error& error) {
    decisions.note_refusal(first_line(error.what_without_backtrace()), RefusalKind::failure);
    throw;
  } catch (const std::exception& error) {
    aten::pass_interrupt();
    decisions.note_refusal(error.what(), RefusalKind::failure);
    throw;
  }
  return true;
}

}  // namespace

c10::impl::LocalDispatchKeySet with_recorder() {
  c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  keys.excluded_ = keys.excluded_.remove(kRecorderKey);
  return keys;
}

void run_below(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack) {
  const c10::impl::ForceDispatchKeyGuard recording(with_recorder());
  op.redispatchBoxed(keys & kBelowRecorder, &stack);
}

void run_kernel(const c10::OperatorHandle& op, c10::DispatchKey key, torch::jit::Stack& stack) {
  const c10::impl::ForceDispatchKeyGuard recording(with_recorder());
  op.callBoxedForDispatchKey(key, stack);
}

bool run_transformed(Decisions& decisions, const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                     torch::jit::Stack& stack) {
  if (watch) {
    watch->sees_cast = watch->sees_cast || has_cast(op, watch->key);
    run_below(op, keys, stack);
    return true;
  }
  if (run_by_functorch(decisions, op, keys, stack)) return true;
  const size_t count = op.schema().arguments().size();
  const DispatchKey key = cast_key(std::span(stack).last(count));
  if (key == DispatchKey::Undefined) return false;
  if (keys.has(key) && has_cast(op, key)) {
    run_below(op, keys, stack);
    return true;
  }
  if (may_hide_casts(op))
    decisions.refuse(op.operator_name().name + " in a region of torch.autocast");
  return false;
}

bool has_numbers_only(const c10::OperatorHandle& op, const std::vector<c10::IValue>& arguments) {
  bool found = false;
  for (const c10::IValue& argument : arguments) {
    if (argument.isSymInt() || argument.isSymFloat() || argument.isSymBool()) return false;
    if (argument.isTensorList() || argument.isOptionalTensorList()) return false;
    if (!argument.isTensor() || !argument.toTensor().defined()) continue;
    const at::Tensor& tensor = argument.toTensor();
    if (recorded(tensor) || !tensor.unsafeGetTensorImpl()->is_wrapped_number()) return false;
    found = true;
  }
  return found && !op.hasTag(at::Tag::nondeterministic_seeded);
}

DispatchKey cast_key(std::span<const c10::IValue> arguments) {
  const c10::DispatchKeySet casting =
      c10::autocast_dispatch_keyset - c10::impl::tls_local_dispatch_key_set().excluded_;
  if (casting.empty()) return DispatchKey::Undefined;
  c10::DispatchKeySet keys;
  for (const c10::IValue& argument : arguments) add_keys(argument, keys);
  return (keys & casting).highestPriorityTypeId();
}

bool may_cast_inside(const c10::OperatorHandle& op, DispatchKey key) {
  return key != DispatchKey::Undefined && !has_cast(op, key) &&
         !op.hasKernelForDispatchKey(DispatchKey::CPU);
}

bool casts_inside(const c10::OperatorHandle& op, DispatchKey key, torch::jit::Stack stack) {
  Watch found{.key = key};
  const c10::impl::ForceDispatchKeyGuard watched(with_recorder());
  watch = &found;
  const auto unwatched = c10::make_scope_exit([] { watch = nullptr; });
  try {
    op.callBoxed(stack);
  } catch (const std::exception&) {  // the meta kernel will fail again, with a reason
    aten::pass_interrupt();
    return false;
  }
  return found.sees_cast;
}

}  // namespace onnx_native::capture
