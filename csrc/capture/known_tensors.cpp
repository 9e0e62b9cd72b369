#include "capture/known_tensors.h"

#include <utility>

#include "aten/placeholder.h"
#include "aten/torch_tensor.h"
#include "base/weight.h"
#include "capture/recorded_tensor.h"

namespace onnx_native::capture {
namespace {

// Returns the value with its tensors replaced; nullopt if one of them has no replacement.
template <class Replacement>
std::optional<c10::IValue> replaced(const c10::IValue& value, const Replacement& replacement) {
  if (value.isTensor() && value.toTensor().defined()) {
    std::optional<at::Tensor> tensor = replacement(value.toTensor());
    return tensor ? std::optional(c10::IValue(std::move(*tensor))) : std::nullopt;
  }
  if (!value.isList()) return value;
  c10::impl::GenericList list(value.toList().elementType());
  for (const c10::IValue& item : value.toListRef()) {
    std::optional<c10::IValue> other = replaced(item, replacement);
    if (!other) return std::nullopt;
    list.push_back(std::move(*other));
  }
  return list;
}

// Returns the tensor number `index` among the results on a stack.
std::optional<at::Tensor> result_at(const torch::jit::Stack& stack, size_t index) {
  for (const c10::IValue& value : stack) {
    if (value.isTensor()) {
      if (index-- == 0) return value.toTensor();
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector())
        if (index-- == 0) return tensor;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<at::Tensor> KnownTensors::elements(const at::Tensor& tensor) {
  if (const RecordedTensor* result = recorded(tensor)) return this->result(result->meta());
  if (memories_.are_elements_written(tensor)) return std::nullopt;
  if (aten::placeholder_address(tensor)) return std::nullopt;
  const ModuleTensor* held = module_.find(tensor);
  if (held && memories_.note_read(tensor)) {
    read_.push_back({.name = held->name,
                     .source = host_.location().source,
                     .data = aten::tensor_data(tensor, held->name)});
    note_read(read_.back().data);
  }
  return tensor;
}

std::optional<at::Tensor> KnownTensors::result(const at::Tensor& meta) {
  const auto at = recipes_.find(meta.unsafeGetTensorImpl());
  if (at == recipes_.end() || memories_.is_written(meta)) return std::nullopt;
  Recipe& recipe = at->second;
  if (recipe.value.defined()) return recipe.value;
  torch::jit::Stack stack;
  for (const c10::IValue& argument : recipe.arguments) {
    std::optional<c10::IValue> elements = this->argument(argument);
    if (!elements) return std::nullopt;
    stack.push_back(std::move(*elements));
  }
  for (const auto& [size, number] : recipe.counted) decisions_.count(size, number);
  recipe.op.callBoxed(stack);
  std::optional<at::Tensor> value = result_at(stack, recipe.result);
  if (value) recipe.value = *value;
  return value;
}

std::optional<c10::IValue> KnownTensors::argument(const c10::IValue& argument) {
  return replaced(argument, [this](const at::Tensor& tensor) {
    return tensor.is_meta() ? result(tensor) : elements(tensor);
  });
}

bool KnownTensors::follows_from_literals(const at::Tensor& tensor) const {
  const RecordedTensor* result = recorded(tensor);
  if (!result) return !module_.find(tensor);
  const auto at = recipes_.find(result->meta().unsafeGetTensorImpl());
  return at != recipes_.end() && !at->second.uses_state;
}

void KnownTensors::add(Recipe recipe) {
  const c10::TensorImpl* meta = recipe.meta.unsafeGetTensorImpl();
  recipes_.try_emplace(meta, std::move(recipe));
}

}  // namespace onnx_native::capture
