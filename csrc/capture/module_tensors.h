// The tensors of the module whose program is recorded.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "aten/graph.h"

namespace onnx_native::capture {

// A tensor of the module: a parameter, a buffer, or a tensor that the program holds.
struct ModuleTensor {
  std::string name;
  at::Tensor tensor;
  aten::ConstantKind kind;
  bool is_kept = false;  // if the program writes to it, it is an input of the model
};

// Finds the module's tensor behind a tensor of the program, which may be another object for the
// same elements, such as `weight.data`. Does not change while the program runs.
class ModuleTensors {
 public:
  explicit ModuleTensors(std::vector<ModuleTensor> tensors);

  const std::vector<ModuleTensor>& all() const { return tensors_; }
  // Returns nullptr if the tensor has elements of its own.
  const ModuleTensor* find(const at::Tensor& tensor) const;
  // Returns the module's tensor with the same elements, if this is a second object for it; else
  // nullptr.
  const at::Tensor* original_of(const at::Tensor& tensor) const;
  // Returns true if the tensor is the module's own object.
  bool contains(const at::Tensor& tensor) const {
    return by_object_.contains(tensor.unsafeGetTensorImpl());
  }
  // Returns true if another tensor of the module is in the same memory.
  bool shares_memory(const at::Tensor& tensor) const;

 private:
  std::vector<ModuleTensor> tensors_;
  std::unordered_map<const c10::TensorImpl*, size_t> by_object_;     // index in tensors_
  std::unordered_map<const void*, std::vector<size_t>> by_address_;  // of the elements
};

// Returns true for a tensor with elements, dense strides and no wrapper around it.
bool is_plain(const at::Tensor& tensor);
// Returns true if the tensors have the same dtype, device, sizes and strides.
bool same_view(const at::Tensor& a, const at::Tensor& b);

}  // namespace onnx_native::capture
