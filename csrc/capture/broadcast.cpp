// Sizes that must be equal: operators that write to a tensor broadcast the others to it, and a size
// that depends on data must fit that of a tensor.
#include <algorithm>
#include <array>

#include "capture/recorded_call.h"
#include "capture/symbolic_size.h"

namespace onnx_native::capture {
namespace {

// Such operators, beyond those whose functional form PyTorch tags.
constexpr std::array<std::string_view, 3> kBroadcasts{"aten::copy_", "aten::floor_divide_",
                                                      "aten::masked_fill_"};

// Operators whose list of integers is the shape of the result.
constexpr std::array<std::string_view, 4> kTakesShape{"aten::view", "aten::_unsafe_view",
                                                      "aten::reshape", "aten::expand"};

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

// A mask of arange(lengths.max()) meets a tensor that is as long: eager fails unless they are
// equal. Notes the equations of sizes that depend on data by which a call that failed may succeed.
void RecordedCall::note_identities() {
  const bool joins = key_ == "aten::cat";
  const bool views = contains(kTakesShape, key_) && key_ != "aten::expand";
  std::vector<Shape> shapes;
  for (const c10::IValue& argument : arguments_) {
    for_each_tensor(argument,
                    [&](const at::Tensor& tensor) { shapes.push_back(shape_of(tensor)); });
    if (!argument.isList() || !contains(kTakesShape, key_)) continue;
    Shape sizes;
    for (const c10::IValue& item : argument.toListRef()) {
      if (item.isInt() || item.isSymInt()) sizes.push_back(to_dim(item.toSymInt(), decisions_));
    }
    if (!sizes.empty()) shapes.push_back(std::move(sizes));
  }
  for (size_t i = 1; i < shapes.size(); ++i) {
    const Shape &a = shapes[0], &b = shapes[i];
    for (size_t back = 1; !views && back <= std::min(a.size(), b.size()); ++back) {
      if (joins && a.size() - back == cut_axis(a.size())) continue;
      const Dim &left = a[a.size() - back], &right = b[b.size() - back];
      for (const Dim& size : {left, right}) decisions_.note_identity(left - right, size);
    }
    if (!views) continue;
    const Dim missing = numel(a) - numel(b);  // as many elements in a view
    for (const Shape* sizes : {&a, &b})
      for (const Dim& size : *sizes) decisions_.note_identity(missing, size);
  }
}

}  // namespace onnx_native::capture
