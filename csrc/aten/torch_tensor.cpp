#include "aten/torch_tensor.h"

#include <c10/core/CPUAllocator.h>
#include <malloc.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "aten/torch_types.h"
#include "base/error.h"

namespace onnx_native::aten {

namespace {

// The bytes of a storage. torch's loader believes what a file says of them; its allocator knows.
size_t room_of(const c10::Storage& storage) {
  const c10::DataPtr& memory = storage.data_ptr();
  if (memory.get_deleter() != c10::GetDefaultCPUAllocator()->raw_deleter()) return storage.nbytes();
  return std::min(storage.nbytes(), malloc_usable_size(memory.get_context()));
}

// Files can say sizes that the memory has no room for; torch does not look.
void check_memory(const at::Tensor& tensor, std::string_view name) {
  if (tensor.numel() == 0) return;
  int64_t last = tensor.storage_offset();
  bool fits = last >= 0;
  for (int64_t axis = 0; axis < tensor.dim(); ++axis) {
    const int64_t stride = tensor.stride(axis);
    int64_t span = 0;
    fits = fits && stride >= 0 && !__builtin_mul_overflow(tensor.size(axis) - 1, stride, &span) &&
           !__builtin_add_overflow(last, span, &last);
  }
  const size_t bytes = room_of(tensor.storage());
  if (!fits || last >= static_cast<int64_t>(bytes / tensor.itemsize()))
    fail(ErrorKind::invalid_program, "the constant tensor ", name,
         " has sizes for which its memory of ", bytes, " bytes has no room");
}

}  // namespace

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
  check_memory(plain, name);
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
