#include "capture/recorded_call.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include <algorithm>
#include <utility>

#include "aten/hidden_writes.h"
#include "capture/torch_code.h"
#include "capture/transformed_call.h"

namespace onnx_native::capture {
namespace {

using aten::Argument;

std::string key_of(const c10::OperatorHandle& op) {
  const c10::OperatorName& name = op.operator_name();
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

}  // namespace

RecordedCall::RecordedCall(Recording& recording, const c10::OperatorHandle& op,
                           c10::DispatchKeySet keys, torch::jit::Stack& stack)
    : recording_(recording),
      decisions_(recording.decisions()),
      op_(op),
      keys_(keys),
      stack_(stack),
      key_(key_of(op)),
      schema_(aten::find_schema(key_)),
      facts_(schema_ ? aten::facts_of(*schema_) : aten::OpFacts()),
      reshapes_(schema_ && op.hasTag(at::Tag::inplace_view) && aten::reshapes_in_place(*schema_)) {
  const size_t count = op.schema().arguments().size();
  arguments_.assign(stack.end() - static_cast<int64_t>(count), stack.end());
  recognize_sizes();
  for (c10::IValue& argument : arguments_) {
    for_each_tensor(argument, [this](const at::Tensor&) { has_tensors_ = true; });
    // A fake kernel for meta tensors.
    if (recording_.runs_fake_kernel() && argument.isDevice() && argument.toDevice().is_meta())
      argument = c10::Device(c10::kCPU);
    if (!is_wrapped_number(argument)) continue;
    c10::IValue symbol = recording_.host().symbol_behind(argument.toTensor());
    if (!symbol.isNone()) argument = std::move(symbol);
  }
}

void RecordedCall::refuse(const std::string& reason, RefusalKind kind) {
  decisions_.refuse(key_ + ": " + reason, kind);
}

bool RecordedCall::has_recorded() const {
  bool found = false;
  for (const c10::IValue& argument : arguments_)
    for_each_tensor(argument, [&](const at::Tensor& tensor) { found = found || recorded(tensor); });
  return found;
}

// Returns true if all tensors follow from literals of the program.
bool RecordedCall::has_literals_only() const {
  bool literals = true;
  for (const c10::IValue& argument : arguments_)
    for_each_tensor(argument, [&](const at::Tensor& tensor) {
      literals = literals && recording_.known_tensors().follows_from_literals(tensor);
    });
  return literals;
}

// Returns true for calls that only touch constants of the program and run as they are.
bool RecordedCall::passes_through() const {
  if (key_.starts_with("profiler::")) return true;
  if (has_recorded()) return false;
  if (key_ == "aten::lift_fresh" || has_numbers_only(op_, arguments_)) return true;
  if (key_ == "aten::detach_") return !recording_.module().find(arguments_[0].toTensor());
  // torch.tensor() builds its result with dispatch to Python switched off.
  if (c10::impl::tls_local_dispatch_key_set().excluded_.has(c10::DispatchKey::Python)) return true;
  if (!reads_elements() || !has_literals_only()) return false;
  return std::ranges::all_of(arguments_, [this](const auto& each) {
    return recording_.known_tensors().argument(each).has_value();
  });
}

void RecordedCall::refuse_unknown() {
  if (c10::impl::dispatch_mode_enabled()) refuse("the program uses a TorchDispatchMode");
  if (!schema_) refuse("the operator has no schema");
  // Eager computes with the integers, and rounds each result.
  if (key_.starts_with("aten::quantize_per_")) refuse("the program quantizes a tensor");
  if (decisions_.guesses_strides() && op_.operator_name().name == "aten::as_strided")
    refuse("the program depends on strides");
  if (op_.hasTag(at::Tag::inplace_view) && !reshapes_)
    refuse("the call changes the shape of its argument");
}

void RecordedCall::check_reshape(const at::Tensor& tensor) {
  const RecordedTensor* self = recorded(tensor);
  if (!self || recording_.is_input(*self))
    refuse("the call changes the shape of a tensor that the program did not compute");
  if (!recording_.frame().owns(self->meta()))
    refuse("a branch or loop changes the shape of a tensor from outside");
  if (self->is_copied()) refuse("the call changes the shape of a tensor that has a copy");
}

void RecordedCall::check_writes() {
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (!schema_->arguments[i].writes) continue;
    for_each_tensor(arguments_[i], [&](const at::Tensor& target) {
      recording_.note_write(target);
      if (schema_->arguments[i].is_out)
        recording_.frame().sizes().read_results();  // the call may resize it
      written_sizes_.push_back(recording_.meta_of(target).sizes().vec());
    });
  }
}

void RecordedCall::check_written_sizes() {
  size_t next = 0;
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (!schema_->arguments[i].writes) continue;
    for_each_tensor(arguments_[i], [&](const at::Tensor& target) {
      const bool may_resize = schema_->arguments[i].is_out && recorded(target);
      if (recording_.meta_of(target).sizes() != written_sizes_[next++] && !may_resize)
        refuse("the call changes the shape of its argument");
    });
  }
}

// A squeeze keeps a dynamic dimension only if its size is not 1. The same holds for covariances.
void RecordedCall::note_squeezed() {
  const bool of_variables = key_ == "aten::cov" || key_ == "aten::corrcoef";
  if (!key_.starts_with("aten::squeeze") && !of_variables) return;
  const RecordedTensor* self = recorded(arguments_[0].toTensor());
  if (!self) return;
  const auto rank = static_cast<int64_t>(self->shape().size());
  std::optional<std::vector<int64_t>> axes;  // all, if there are none
  if (of_variables) {
    axes.emplace(rank == 2 ? 1 : 0);
  } else if (arguments_.size() > 1) {
    axes = arguments_[1].isInt() ? std::vector{arguments_[1].toInt()} : arguments_[1].toIntVector();
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
  run_kernel(op_, c10::DispatchKey::CompositeExplicitAutograd, stack_);
}

void RecordedCall::run() {
  if (passes_through()) {
    op_.callBoxed(stack_);
    if (key_ == "aten::lift_fresh" || reads_elements()) {
      for (const c10::IValue& result : stack_)
        for_each_tensor(result, [this](const at::Tensor& made) {
          recording_.known_tensors().add_literal(made);
        });
    }
    return;
  }
  if (at::GradMode::is_enabled()) decisions_.note_gradients();
  if (key_ == "aten::detach_" && has_recorded()) return;  // nothing to do without autograd
  if (key_ == "aten::equal" && is_torch_nn()) {
    // Attention asks which of its arguments are the same, to compute their projections together.
    const bool same = arguments_[0].toTensor().is_same(arguments_[1].toTensor());
    torch::jit::drop(stack_, arguments_.size());
    stack_.emplace_back(same);
    return;
  }
  if (record_pinned()) return;
  refuse_unknown();
  if (key_.starts_with("aten::_foreach_")) return decompose();
  if (!find_devices()) {
    run_kernel(op_, c10::DispatchKey::CompositeImplicitAutograd, stack_);
    return;
  }
  if (record_draw() || record_pieces() || record_slice()) return;
  const c10::DispatchKey cast = cast_key(arguments_);
  if (may_cast_inside(op_, cast) && casts_inside(op_, cast, meta_arguments())) {
    run_below(op_, keys_, stack_);
    return;
  }
  torch::jit::drop(stack_, arguments_.size());
  if (reads_elements()) return read_elements();
  if (schema_->returns.empty() && !schema_->is_mutable()) {
    if (!aten::is_check(*schema_)) refuse("the call has no results");
    return;
  }
  if (reshapes_) {
    check_reshape(arguments_[0].toTensor());
    recording_.frame().sizes().read_results();  // before the axes move
  } else {
    check_writes();
  }
  std::vector<Argument> arguments = read_arguments();
  note_squeezed();
  if (!key_.starts_with("aten::") && record_by_fake_kernel(arguments)) return;
  std::optional<std::vector<c10::IValue>> metas = run_meta();
  if (!reshapes_) check_written_sizes();
  note_broadcast();
  if (metas && facts_.of_dtypes) {
    stack_.insert(stack_.end(), metas->begin(), metas->end());
    return;
  }
  check_number_of_results();
  node_ = recording_.frame().add_node(key_, std::move(arguments));
  if (!metas) metas = inferred_metas();
  if (reshapes_) return record_reshape(metas->front().toTensor());
  if (aten::updates_statistics(*node_)) {
    for (const size_t i : aten::kStatistics) recording_.note_write(arguments_[i].toTensor());
  }
  record(*metas);
}

void Recording::call(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                     torch::jit::Stack& stack) {
  try {
    RecordedCall(*this, op, keys, stack).run();
  } catch (const ExportError& error) {
    decisions_.refuse(error.cause());
  }
}

}  // namespace onnx_native::capture
