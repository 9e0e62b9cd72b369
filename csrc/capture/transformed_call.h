// Calls that PyTorch's transforms rewrite before the recorder sees them: torch.vmap and autocast.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <span>
#include <vector>

#include "capture/decisions.h"

namespace onnx_native::capture {

// Runs the call by the keys below the recorder's if a transform is active that rewrites it. The
// recorder stays on, so that it records the calls that the transform makes. Returns false for a
// call to record.
bool run_transformed(Decisions& decisions, const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                     torch::jit::Stack& stack);

// Returns true if the tensors of a call are numbers that PyTorch wrapped; functorch casts them.
bool has_numbers_only(const c10::OperatorHandle& op, const std::vector<c10::IValue>& arguments);

// Returns the key of autocast for the device of a call's tensors; Undefined where it is off.
c10::DispatchKey cast_key(std::span<const c10::IValue> arguments);
// Returns true if the operator, which autocast does not cast, consists of other operators. `key` is
// that of autocast, or Undefined.
bool may_cast_inside(const c10::OperatorHandle& op, c10::DispatchKey key);
// Returns true if autocast casts an operator that this one consists of. `stack` holds the arguments
// as meta tensors.
bool casts_inside(const c10::OperatorHandle& op, c10::DispatchKey key, torch::jit::Stack stack);

// The dispatch keys below the recorder's.
constexpr c10::DispatchKeySet kBelowRecorder(c10::DispatchKeySet::FULL_AFTER,
                                             c10::DispatchKey::TESTING_ONLY_GenericWrapper);

// Returns this thread's keys, with the recorder on.
c10::impl::LocalDispatchKeySet with_recorder();

// Runs a call by the keys below the recorder's, and records the calls that it makes.
void run_below(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack);
// Runs a call that torch.vmap maps by a rule of ours, which reads sizes as symbolic. Returns false
// if there is none.
bool run_batched(const c10::OperatorHandle& op, torch::jit::Stack& stack);
// Runs one kernel of an operator, and records the calls that it makes.
void run_kernel(const c10::OperatorHandle& op, c10::DispatchKey key, torch::jit::Stack& stack);

}  // namespace onnx_native::capture
