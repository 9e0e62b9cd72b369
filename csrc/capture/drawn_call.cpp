// Calls that draw random numbers from a generator that the program seeded.
#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "capture/generators.h"
#include "capture/replaced_call.h"
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

// Returns the argument with which the call can run.
c10::IValue drawn_argument(const Call& call, size_t i) {
  if (i == 0 && call.facts.fills_randomly && call.arguments[0].isTensor()) {
    const at::Tensor meta = call.recording.meta_of(call.arguments[0].toTensor());
    return at::empty_strided(meta.sizes(), meta.strides(), meta.options().device(c10::kCPU));
  }
  std::optional<c10::IValue> known = call.recording.known_tensors().argument(call.arguments[i]);
  const bool is_written = call.schema->arguments[i].writes;
  if (known && !is_written) return *std::move(known);
  call.refuse(concat("the program draws random numbers for ",
                     is_written ? "a tensor that it gives as out=" : "elements that depend on data",
                     " from a generator that it seeds, at ",
                     call.recording.host().location().source));
}

}  // namespace

bool record_draw(const Call& call, const c10::Device& device, torch::jit::Stack& stack) {
  Generators& generators = call.recording.generators();
  if (!draws(call.op, call.arguments) ||
      !generators.is_seeded(generator_of(call.arguments, device)))
    return false;
  if (!device.is_cpu())
    call.refuse(concat("the program draws random numbers on the device ", device.str(),
                       ", from a generator that it seeds, at ",
                       call.recording.host().location().source));
  if (std::ranges::any_of(call.arguments, is_symbolic))
    call.refuse(
        concat("the program draws random numbers of a dynamic size from a generator that it "
               "seeds, at ",
               call.recording.host().location().source));
  torch::jit::Stack drawn;
  for (size_t i = 0; i < call.arguments.size(); ++i) drawn.push_back(drawn_argument(call, i));
  call.op.callBoxed(drawn);
  for (const c10::IValue& result : drawn)
    for_each_tensor(result, [&](const at::Tensor& made) {
      call.recording.known_tensors().add_literal(made);
      generators.add_drawn(made.clone());
    });
  torch::jit::drop(stack, call.arguments.size());
  if (!call.schema->is_mutable()) {
    stack.insert(stack.end(), drawn.begin(), drawn.end());
    return true;
  }
  const at::Tensor self = call.arguments[0].toTensor();
  const c10::impl::ForceDispatchKeyGuard recording(with_recorder());
  stack.emplace_back(self.copy_(drawn.back().toTensor()));
  return true;
}

}  // namespace onnx_native::capture
