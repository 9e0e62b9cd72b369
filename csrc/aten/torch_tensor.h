// Conversion of torch tensors to constants.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "base/device_weight.h"
#include "base/tensor_data.h"

namespace onnx_native::aten {

// The storage of a tensor, kept alive. The constant does not change if the tensor gets another
// storage, as in Module::to.
class TensorWeight : public DeviceWeight {
 public:
  TensorWeight(const at::Tensor& tensor, std::string name);

  const std::byte* data() const override;
  bool has_elements() const override;
  bool is_remote() const override;
  void copy(std::ptrdiff_t offset, std::span<std::byte> to) const override;
  // Returns a tensor over the current memory, for a constant that lies in this weight. It is on the
  // weight's device.
  at::Tensor view(const TensorData& data) const;
  // Returns the current tensor.
  const at::Tensor& tensor() const { return tensor_; }
  // Uses the elements of another tensor from now on. Throws ExportError(invalid_argument) if its
  // dtype or shape differs from the tensor at the export.
  void assign(const at::Tensor& tensor);

 private:
  at::Tensor tensor_;  // an alias of the module's tensor, with the same storage
};

// Returns a constant over the tensor's own storage, on whichever device, which it keeps alive;
// copies tensors that are not plain memory. A tensor on the meta device gives a weight without
// elements. Throws ExportError(unsupported) for tensors without plain memory and for dtypes that
// ONNX lacks, and invalid_program if sizes and strides exceed the memory.
TensorData tensor_data(const at::Tensor& tensor, std::string_view name);
// Like tensor_data, for a tensor that belongs to the program instead of a module. Small tensors are
// copied, so that they cannot change.
inline constexpr int64_t kLargestLiteral = 4096;  // bytes
TensorData literal_data(const at::Tensor& tensor, std::string_view name);

// Returns a tensor with the constant's current elements, over its memory if it has one; a
// placeholder for a constant without elements. The tensor may be on another device.
at::Tensor to_tensor(const TensorData& data);

}  // namespace onnx_native::aten
