// Operators that write to a tensor broadcast the others to it, or fail.
#include <algorithm>
#include <array>

#include "capture/recorded_call.h"

namespace onnx_native::capture {
namespace {

// Such operators, beyond those whose functional form PyTorch tags.
constexpr std::array<std::string_view, 3> kBroadcasts{"aten::copy_", "aten::floor_divide_",
                                                      "aten::masked_fill_"};

bool broadcasts(const c10::OperatorName& op) {
  if (!op.name.ends_with('_')) return false;
  if (contains(kBroadcasts, op.name)) return true;
  const std::string functional = op.name.substr(0, op.name.size() - 1);
  const auto found = c10::Dispatcher::singleton().findSchema({functional, op.overload_name});
  return found && found->hasTag(at::Tag::pointwise);
}

}  // namespace

// Notes the sizes that an operator such as add_ needs.
void RecordedCall::note_broadcast() {
  if (!symbolic_ || !broadcasts(op_.operator_name())) return;
  const RecordedTensor* target =
      arguments_[0].isTensor() ? recorded(arguments_[0].toTensor()) : nullptr;
  if (!target) return;
  for (size_t i = 1; i < arguments_.size(); ++i)
    for_each_tensor(arguments_[i], [&](const at::Tensor& tensor) {
      const RecordedTensor* other = recorded(tensor);
      const c10::IntArrayRef numbers = other ? c10::IntArrayRef() : tensor.sizes();
      const Shape sizes = other ? other->shape() : Shape(numbers.begin(), numbers.end());
      const size_t rank = target->shape().size();
      for (size_t axis = rank - std::min(rank, sizes.size()); axis < rank; ++axis)
        decisions_.note_broadcast(sizes[axis + sizes.size() - rank], target->shape()[axis]);
    });
}

}  // namespace onnx_native::capture
