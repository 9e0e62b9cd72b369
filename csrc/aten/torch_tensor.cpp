#include "aten/torch_tensor.h"

#include <memory>
#include <optional>
#include <utility>

#include "aten/torch_types.h"
#include "base/error.h"

namespace onnx_native::aten {

TensorData tensor_data(const at::Tensor& tensor, std::string_view name) {
  at::Tensor plain = tensor;
  if (plain.layout() == c10::Layout::Mkldnn) {
    fail(ErrorKind::unsupported, "the constant tensor ", name,
         " is in oneDNN's own layout; export the module before torch.jit.optimize_for_inference");
  }
  if (plain.layout() != c10::Layout::Strided || plain.unsafeGetTensorImpl()->is_python_dispatch()) {
    fail(ErrorKind::unsupported, "the constant tensor ", name,
         " has no plain memory (it is sparse, a FakeTensor or another tensor subclass)");
  }
  if (plain.is_conj()) plain = plain.resolve_conj();
  if (plain.is_neg()) plain = plain.resolve_neg();
  if (!plain.is_cpu()) plain = plain.cpu();
  const std::optional<DType> dtype = to_dtype(plain.scalar_type());
  if (!dtype) {
    fail(ErrorKind::unsupported, "ONNX has no element type for ",
         c10::toString(plain.scalar_type()), ", the dtype of the constant tensor ", name);
  }
  TensorData data;
  data.dtype = *dtype;
  data.shape = plain.sizes().vec();
  if (!plain.is_contiguous()) data.strides = plain.strides().vec();
  data.data = static_cast<const std::byte*>(plain.const_data_ptr());
  data.owner = std::make_shared<const at::Tensor>(std::move(plain));
  return data;
}

}  // namespace onnx_native::aten
