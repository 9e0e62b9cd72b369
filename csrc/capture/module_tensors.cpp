#include "capture/module_tensors.h"

#include <algorithm>
#include <utility>

#include "aten/placeholder.h"
#include "capture/recorded_tensor.h"

namespace onnx_native::capture {
namespace {

const void* address_of(const at::Tensor& tensor) {
  const bool has_memory = tensor.has_storage() && tensor.numel() != 0;
  return has_memory && !aten::placeholder_address(tensor) ? tensor.const_data_ptr() : nullptr;
}

}  // namespace

bool same_view(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.device() == b.device() && a.sizes() == b.sizes() &&
         a.strides() == b.strides();
}

bool is_plain(const at::Tensor& tensor) {
  return !tensor.is_meta() && tensor.layout() == c10::Layout::Strided && !tensor.is_nested() &&
         !tensor.unsafeGetTensorImpl()->is_python_dispatch() && !tensor.is_conj() &&
         !tensor.is_neg() && !tensor.is_quantized() && tensor.has_storage();
}

ModuleTensors::ModuleTensors(std::vector<ModuleTensor> tensors) : tensors_(std::move(tensors)) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const at::Tensor& tensor = tensors_[i].tensor;
    by_object_.try_emplace(tensor.unsafeGetTensorImpl(), i);
    if (!is_plain(tensor)) continue;
    if (const void* address = address_of(tensor)) by_address_[address].push_back(i);
  }
}

const ModuleTensor* ModuleTensors::find(const at::Tensor& tensor) const {
  if (const auto at = by_object_.find(tensor.unsafeGetTensorImpl()); at != by_object_.end())
    return &tensors_[at->second];
  const auto same_memory = by_address_.find(address_of(tensor));
  if (same_memory == by_address_.end() || !same_memory->first) return nullptr;
  for (const size_t i : same_memory->second) {
    if (same_view(tensors_[i].tensor, tensor)) return &tensors_[i];
  }
  return nullptr;
}

const at::Tensor* ModuleTensors::original_of(const at::Tensor& tensor) const {
  const ModuleTensor* held = find(tensor);
  const bool is_other = held && !held->tensor.is_same(tensor) && is_plain(held->tensor);
  return is_other ? &held->tensor : nullptr;
}

bool ModuleTensors::shares_memory(const at::Tensor& tensor) const {
  return std::ranges::any_of(tensors_, [&](const ModuleTensor& other) {
    return storage_of(other.tensor) == storage_of(tensor) && !other.tensor.is_same(tensor);
  });
}

}  // namespace onnx_native::capture
