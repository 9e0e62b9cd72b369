// PyTorch's meta kernels in C++.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace onnx_native::capture {

// While one is in scope, operators on meta tensors run in C++ where they can: by PyTorch's kernels,
// and by rules for operators whose meta kernels PyTorch has in Python only.
class MetaKernels {
 public:
  MetaKernels();
  ~MetaKernels();
  MetaKernels(const MetaKernels&) = delete;
  MetaKernels& operator=(const MetaKernels&) = delete;

  // Runs a call in C++ if a scope is active on this thread; else returns false.
  static bool run(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack& stack);

 private:
  bool outer_;
  c10::impl::ForceDispatchKeyGuard recorder_;
};

// Returns true if there is a kernel in C++ that replaces one in Python.
bool has_meta_kernel(const c10::OperatorHandle& op);
// Returns true if that kernel is a part of the operator's CPU kernel, which allocates by it.
bool shares_meta_kernel(const c10::OperatorHandle& op);

}  // namespace onnx_native::capture
