// Calls that draw random numbers from a generator that the program seeded: the numbers are the same
// in every run, so they are constants of the model.
#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "capture/generators.h"
#include "capture/recorded_call.h"
#include "capture/transformed_call.h"

namespace onnx_native::capture {
namespace {

bool is_symbolic(const c10::IValue& value) {
  if (value.isSymInt() || value.isSymFloat() || value.isSymBool()) return true;
  if (value.isTensor() && value.toTensor().defined()) {
    const RecordedTensor* known = recorded(value.toTensor());
    return known && known->is_symbolic();
  }
  return value.isList() && std::ranges::any_of(value.toListRef(), is_symbolic);
}

}  // namespace

// Returns the argument with which the call can run.
c10::IValue RecordedCall::drawn_argument(size_t i) {
  if (i == 0 && facts_.fills_randomly && arguments_[0].isTensor()) {
    const at::Tensor meta = recording_.meta_of(arguments_[0].toTensor());
    return at::empty_strided(meta.sizes(), meta.strides(), meta.options().device(c10::kCPU));
  }
  std::optional<c10::IValue> known = recording_.known_tensors().argument(arguments_[i]);
  const bool is_written = schema_->arguments[i].writes;
  if (known && !is_written) return *std::move(known);
  refuse(concat("the program draws random numbers for ",
                is_written ? "a tensor that it gives as out=" : "elements that depend on data",
                " from a generator that it seeds, at ", recording_.host().location().source));
}

// Runs a call that draws from a generator that the program seeded, so that its numbers are those of
// eager. Returns false for other calls.
bool RecordedCall::record_draw() {
  Generators& generators = recording_.generators();
  if (!draws(op_, arguments_) || !generators.is_seeded(generator_of(arguments_))) return false;
  if (!device_.is_cpu())
    refuse(concat("the program draws random numbers on the device ", device_.str(),
                  ", from a generator that it seeds, at ", recording_.host().location().source));
  if (std::ranges::any_of(arguments_, is_symbolic))
    refuse(
        concat("the program draws random numbers of a dynamic size from a generator that it "
               "seeds, at ",
               recording_.host().location().source));
  torch::jit::Stack stack;
  for (size_t i = 0; i < arguments_.size(); ++i) stack.push_back(drawn_argument(i));
  op_.callBoxed(stack);
  for (const c10::IValue& result : stack)
    for_each_tensor(result, [&](const at::Tensor& made) {
      recording_.known_tensors().add_literal(made);
      generators.add_drawn(made.clone());
    });
  torch::jit::drop(stack_, arguments_.size());
  if (!schema_->is_mutable()) {
    stack_.insert(stack_.end(), stack.begin(), stack.end());
    return true;
  }
  const at::Tensor self = arguments_[0].toTensor();
  const c10::impl::ForceDispatchKeyGuard recording(with_recorder());
  stack_.emplace_back(self.copy_(stack.back().toTensor()));
  return true;
}

}  // namespace onnx_native::capture
