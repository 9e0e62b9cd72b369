#include "capture/meta_kernels.h"

#include <utility>

#include "aten/meta_kernels.h"
#include "capture/shape_rules.h"
#include "capture/transformed_call.h"

namespace onnx_native::capture {
namespace {

thread_local bool is_active = false;

const aten::KernelTable& kernels() {
  static const aten::KernelTable& table = *[] {
    // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): for the process
    auto* all = new aten::KernelTable(aten::meta_kernels());
    aten::add_meta_kernels_of_padded_volumes(*all);
    add_shape_rules(*all);
    return all;
  }();
  return table;
}

// Returns true if nothing but autograd, which is off, is between the recorder and the meta kernel.
bool reaches_meta_kernel(c10::DispatchKeySet keys) {
  constexpr c10::DispatchKeySet kAutograd =
      c10::autograd_dispatch_keyset | c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView);
  return ((keys & kBelowRecorder) - kAutograd).highestPriorityTypeId() == c10::DispatchKey::Meta;
}

}  // namespace

MetaKernels::MetaKernels() : outer_(std::exchange(is_active, true)), recorder_(with_recorder()) {}

MetaKernels::~MetaKernels() { is_active = outer_; }

bool MetaKernels::run(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                      torch::jit::Stack& stack) {
  if (!is_active) return false;
  const auto at = reaches_meta_kernel(keys) ? kernels().find(op) : kernels().end();
  if (at == kernels().end()) {
    run_below(op, keys, stack);
  } else {
    at->second.callBoxed(op, keys, &stack);
  }
  return true;
}

bool has_meta_kernel(const c10::OperatorHandle& op) { return kernels().contains(op); }

bool shares_meta_kernel(const c10::OperatorHandle& op) { return aten::meta_kernels().contains(op); }

}  // namespace onnx_native::capture
