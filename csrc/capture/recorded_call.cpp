#include "capture/recorded_call.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include <algorithm>
#include <utility>

#include "aten/hidden_writes.h"
#include "capture/broadcast.h"
#include "capture/meta_arguments.h"
#include "capture/replaced_call.h"
#include "capture/torch_code.h"
#include "capture/transformed_call.h"

namespace onnx_native::capture {

RecordedCall::RecordedCall(Recording& recording, const c10::OperatorHandle& op,
                           c10::DispatchKeySet keys, torch::jit::Stack& stack)
    : call_(recording, op, keys, stack),
      recording_(recording),
      decisions_(recording.decisions()),
      stack_(stack) {}

// Returns true for calls that only touch constants of the program and run as they are.
bool RecordedCall::passes_through() const {
  if (call_.key.starts_with("profiler::")) return true;
  if (call_.has_recorded()) return false;
  if (call_.key == "aten::lift_fresh" || has_numbers_only(call_.op, call_.arguments)) return true;
  if (call_.key == "aten::detach_") return !recording_.module().find(call_.arguments[0].toTensor());
  // torch.tensor() builds its result with dispatch to Python switched off.
  if (c10::impl::tls_local_dispatch_key_set().excluded_.has(c10::DispatchKey::Python)) return true;
  if (!reads_elements() || !call_.has_literals_only()) return false;
  return std::ranges::all_of(call_.arguments, [this](const auto& each) {
    return recording_.known_tensors().argument(each).has_value();
  });
}

void RecordedCall::refuse_unknown() {
  if (c10::impl::dispatch_mode_enabled()) call_.refuse("the program uses a TorchDispatchMode");
  if (!call_.schema) call_.refuse("the operator has no schema");
  // Eager computes with the integers, and rounds each result.
  if (call_.key.starts_with("aten::quantize_per_")) call_.refuse("the program quantizes a tensor");
  if (decisions_.guesses_strides() && call_.name() == "aten::as_strided")
    call_.refuse("the program depends on strides");
  if (call_.op.hasTag(at::Tag::inplace_view) && !call_.reshapes)
    call_.refuse("the call changes the shape of its argument");
}

void RecordedCall::check_reshape(const at::Tensor& tensor) {
  const RecordedTensor* self = recorded(tensor);
  if (!self || recording_.is_input(*self))
    call_.refuse("the call changes the shape of a tensor that the program did not compute");
  if (!recording_.frame().owns(self->meta()))
    call_.refuse("a branch or loop changes the shape of a tensor from outside");
  if (self->is_copied()) call_.refuse("the call changes the shape of a tensor that has a copy");
}

void RecordedCall::check_writes() {
  for (size_t i = 0; i < call_.arguments.size(); ++i) {
    if (!call_.schema->arguments[i].writes) continue;
    for_each_tensor(call_.arguments[i], [&](const at::Tensor& target) {
      recording_.note_write(target);
      if (call_.schema->arguments[i].is_out)
        recording_.frame().sizes().read_results();  // the call may resize it
      written_sizes_.push_back(recording_.meta_of(target).sizes().vec());
    });
  }
}

void RecordedCall::check_written_sizes() {
  size_t next = 0;
  for (size_t i = 0; i < call_.arguments.size(); ++i) {
    if (!call_.schema->arguments[i].writes) continue;
    for_each_tensor(call_.arguments[i], [&](const at::Tensor& target) {
      const bool may_resize = call_.schema->arguments[i].is_out && recorded(target);
      if (recording_.meta_of(target).sizes() != written_sizes_[next++] && !may_resize)
        call_.refuse("the call changes the shape of its argument");
    });
  }
}

// A squeeze keeps a dynamic dimension only if its size is not 1. The same holds for covariances.
void RecordedCall::note_squeezed() {
  const bool of_variables = call_.key == "aten::cov" || call_.key == "aten::corrcoef";
  if (!call_.key.starts_with("aten::squeeze") && !of_variables) return;
  const RecordedTensor* self = recorded(call_.arguments[0].toTensor());
  if (!self) return;
  const auto rank = static_cast<int64_t>(self->shape().size());
  std::optional<std::vector<int64_t>> axes;  // all, if there are none
  if (of_variables) {
    axes.emplace(rank == 2 ? 1 : 0);
  } else if (call_.arguments.size() > 1) {
    axes = call_.arguments[1].isInt() ? std::vector{call_.arguments[1].toInt()}
                                      : call_.arguments[1].toIntVector();
  }
  for (int64_t axis = 0; axis < rank; ++axis) {
    const auto is_axis = [&](int64_t a) { return (a + rank) % rank == axis; };
    if (axes && std::ranges::none_of(*axes, is_axis)) continue;
    const Dim& size = self->shape()[static_cast<size_t>(axis)];
    decisions_.decide(size - Dim(1), Relation::equal, size.str() + " == 1");
  }
}

// Records the calls of which PyTorch composes the operator.
void RecordedCall::decompose() {
  run_kernel(call_.op, c10::DispatchKey::CompositeExplicitAutograd, stack_);
}

void RecordedCall::run() {
  if (passes_through()) {
    call_.op.callBoxed(stack_);
    if (call_.key == "aten::lift_fresh" || reads_elements()) {
      for (const c10::IValue& result : stack_)
        for_each_tensor(result, [this](const at::Tensor& made) {
          recording_.known_tensors().add_literal(made);
        });
    }
    return;
  }
  if (at::GradMode::is_enabled()) decisions_.note_gradients();
  if (call_.key == "aten::detach_" && call_.has_recorded())
    return;  // nothing to do without autograd
  if (call_.key == "aten::equal" && is_torch_nn()) {
    // Attention asks which of its arguments are the same, to compute their projections together.
    const bool same = call_.arguments[0].toTensor().is_same(call_.arguments[1].toTensor());
    torch::jit::drop(stack_, call_.arguments.size());
    stack_.emplace_back(same);
    return;
  }
  if (record_pinned(call_, stack_)) return;
  refuse_unknown();
  if (call_.key.starts_with("aten::_foreach_")) return decompose();
  std::optional<ResultDevices> devices = find_devices(call_);
  if (!devices) {
    run_kernel(call_.op, c10::DispatchKey::CompositeImplicitAutograd, stack_);
    return;
  }
  devices_ = *std::move(devices);
  if (record_draw(call_, devices_.first, stack_) || record_rows(call_, stack_) ||
      record_pieces(call_, stack_) || record_slice(call_, stack_))
    return;
  const c10::DispatchKey cast = cast_key(call_.arguments);
  if (may_cast_inside(call_.op, cast) && casts_inside(call_.op, cast, meta_arguments(call_))) {
    run_below(call_.op, call_.keys, stack_);
    return;
  }
  torch::jit::drop(stack_, call_.arguments.size());
  if (reads_elements()) return read_elements();
  if (call_.schema->returns.empty() && !call_.schema->is_mutable()) {
    if (!aten::is_check(*call_.schema)) call_.refuse("the call has no results");
    return;
  }
  if (call_.reshapes) {
    check_reshape(call_.arguments[0].toTensor());
    recording_.frame().sizes().read_results();  // before the axes move
  } else {
    check_writes();
  }
  const Decisions::InCall in_call(decisions_);
  std::vector<aten::Argument> arguments = read_arguments();
  note_squeezed();
  if (!call_.key.starts_with("aten::") && record_by_fake_kernel(arguments)) return;
  std::optional<std::vector<c10::IValue>> metas = run_meta();
  if (!call_.reshapes) check_written_sizes();
  if (symbolic_) note_broadcast(call_);
  if (metas && call_.facts.of_dtypes) {
    stack_.insert(stack_.end(), metas->begin(), metas->end());
    return;
  }
  check_number_of_results();
  node_ = add_node(std::move(arguments));
  if (!metas) metas = inferred_metas();
  if (call_.reshapes) return record_reshape(metas->front().toTensor());
  if (aten::updates_statistics(*node_)) {
    for (const size_t i : aten::kStatistics) recording_.note_write(call_.arguments[i].toTensor());
  }
  record(*metas);
}

void Recording::call(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                     torch::jit::Stack& stack) {
  decisions_.runs().note(op, stack);
  try {
    RecordedCall(*this, op, keys, stack).run();
  } catch (const ExportError& error) {
    decisions_.refuse(error.cause());
  }
}

}  // namespace onnx_native::capture
