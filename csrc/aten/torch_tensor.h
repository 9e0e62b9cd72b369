// torch's tensors as constants.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "base/tensor_data.h"
#include "base/weight.h"

namespace onnx_native::aten {

// The storage of a tensor, kept alive: a tensor that gets another one, as by Module::to, leaves the
// constant alone.
class TensorWeight : public Weight {
 public:
  TensorWeight(const at::Tensor& tensor, std::string name);

  const std::byte* data() const override;
  // A tensor over the memory of now, for a constant that lies in this weight.
  at::Tensor view(const TensorData& data) const;
  // What it holds now.
  const at::Tensor& tensor() const { return tensor_; }
  // Takes the elements of another tensor from now on. Throws ExportError(invalid_argument) when its
  // dtype or shape is not that of the tensor at the export.
  void assign(const at::Tensor& tensor);

 private:
  at::Tensor tensor_;  // an alias of the module's tensor, with the same storage
};

// A constant over the tensor's own storage, which it keeps alive. Throws ExportError(unsupported)
// for tensors without plain memory, and invalid_program where sizes and strides leave the memory.
TensorData tensor_data(const at::Tensor& tensor, std::string_view name);
// The same of a tensor that the program made, not the module: a small one is copied, so that it
// cannot change.
inline constexpr int64_t kLargestLiteral = 4096;  // bytes
TensorData literal_data(const at::Tensor& tensor, std::string_view name);

// A tensor with the elements that the constant has now, over its memory where it has some.
at::Tensor to_tensor(const TensorData& data);

}  // namespace onnx_native::aten
