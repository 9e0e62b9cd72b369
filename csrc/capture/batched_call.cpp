// Operators that torch.vmap maps, whose rules in functorch read sizes as numbers.
#include <ATen/Operators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/functorch/DynamicLayer.h>
#include <ATen/functorch/PlumbingHelper.h>
#include <ATen/ops/flatten.h>
#include <ATen/ops/unflatten.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "capture/transformed_call.h"

namespace onnx_native::capture {
namespace {

// A call whose tensors have the mapped dimension in front.
class BatchedCall {
 public:
  BatchedCall(const c10::OperatorHandle& op, torch::jit::Stack arguments)
      : op_(op),
        arguments_(std::move(arguments)),
        level_(at::functorch::maybeCurrentDynamicLayer()->layerId()) {}

  // Returns the result; nullopt if there is no rule for the call.
  std::optional<at::Tensor> run() {
    find_batch();
    if (!batch_) return std::nullopt;
    const std::string_view name = op_.operator_name().name;
    if (name == "aten::cat" || name == "aten::concat") return concatenate();
    if (name == "aten::layer_norm") return normalize();
    if (name == "aten::gather" || name.starts_with("aten::scatter")) return index();
    if (name == "aten::conv1d" || name == "aten::conv2d" || name == "aten::conv3d")
      return convolve(name[name.size() - 2] - '0');
    return std::nullopt;
  }

 private:
  void find_batch() {
    for (const c10::IValue& argument : arguments_) {
      if (argument.isTensor()) find_batch(argument.toTensor());
      if (!argument.isTensorList()) continue;
      for (const at::Tensor& tensor : argument.toTensorVector()) find_batch(tensor);
    }
  }
  void find_batch(const at::Tensor& given) {
    if (batch_ || !given.defined()) return;
    const auto [tensor, dim] = at::functorch::unwrapTensorAtLevel(given, level_);
    if (dim) batch_ = tensor.sym_size(*dim);
  }
  bool is_batched(const c10::IValue& argument) const {
    return argument.isTensor() && argument.toTensor().defined() &&
           std::get<1>(at::functorch::unwrapTensorAtLevel(argument.toTensor(), level_));
  }
  // Returns the tensor with the mapped dimension in front, if need be as many times as it is long.
  at::Tensor in_front(const at::Tensor& given) const {
    const auto [tensor, dim] = at::functorch::unwrapTensorAtLevel(given, level_);
    if (dim) return *dim == 0 ? tensor : tensor.movedim(*dim, 0);
    c10::SymDimVector sizes{*batch_};
    for (const c10::SymInt& size : tensor.sym_sizes()) sizes.push_back(size);
    return tensor.unsqueeze(0).expand_symint(sizes);
  }
  // Calls the operator below this level.
  at::Tensor call() {
    op_.callBoxed(arguments_);
    return arguments_[0].toTensor();
  }
  void shift(c10::IValue& dim) const {
    if (dim.toInt() >= 0) dim = dim.toInt() + 1;
  }

  std::optional<at::Tensor> concatenate() {
    c10::List<at::Tensor> tensors;
    std::optional<int64_t> rank;
    for (const at::Tensor& given : arguments_[0].toTensorVector()) {
      if (rank.value_or(given.dim()) != given.dim()) return std::nullopt;  // an empty tensor
      rank = given.dim();
      tensors.push_back(in_front(given));
    }
    arguments_[0] = std::move(tensors);
    shift(arguments_[1]);
    return call();
  }

  std::optional<at::Tensor> normalize() {
    if (is_batched(arguments_[2]) || is_batched(arguments_[3])) return std::nullopt;
    arguments_[0] = in_front(arguments_[0].toTensor());
    return call();
  }

  // gather, scatter, scatter_add, scatter_reduce: (self, dim, index, ...)
  std::optional<at::Tensor> index() {
    if (!arguments_[1].isInt() || arguments_[0].toTensor().dim() == 0) return std::nullopt;
    if (arguments_[2].toTensor().dim() != arguments_[0].toTensor().dim()) return std::nullopt;
    for (c10::IValue& argument : arguments_) {
      if (!argument.isTensor()) continue;
      const at::Tensor& tensor = argument.toTensor();
      if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) return std::nullopt;
      argument = in_front(tensor);
    }
    shift(arguments_[1]);
    return call();
  }

  std::optional<at::Tensor> convolve(int64_t axes) {
    if (is_batched(arguments_[1]) || is_batched(arguments_[2])) return std::nullopt;
    const bool has_batch = arguments_[0].toTensor().dim() == axes + 2;
    at::Tensor input = in_front(arguments_[0].toTensor());
    const c10::SymInt inner = has_batch ? input.sym_size(1) : c10::SymInt(1);
    arguments_[0] = has_batch ? input.flatten(0, 1) : input;
    const at::Tensor result = call();
    return has_batch ? result.unflatten_symint(0, {*batch_, inner}) : result;
  }

  const c10::OperatorHandle& op_;
  torch::jit::Stack arguments_;
  int64_t level_;
  std::optional<c10::SymInt> batch_;
};

}  // namespace

bool run_batched(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  const size_t count = op.schema().arguments().size();
  if (op.schema().returns().size() != 1 || op.schema().is_mutable()) return false;
  std::optional<at::Tensor> result;
  const int64_t level = at::functorch::maybeCurrentDynamicLayer()->layerId();
  {
    BatchedCall call(op, {stack.end() - static_cast<int64_t>(count), stack.end()});
    const c10::impl::ForceDispatchKeyGuard recording(with_recorder());
    at::functorch::DynamicLayer layer = at::functorch::popDynamicLayer();
    const auto after =
        c10::make_scope_exit([&layer] { at::functorch::pushDynamicLayer(std::move(layer)); });
    result = call.run();
  }
  if (!result) return false;
  torch::jit::drop(stack, count);
  stack.emplace_back(at::functorch::makeBatched(*result, 0, level));
  return true;
}

}  // namespace onnx_native::capture
