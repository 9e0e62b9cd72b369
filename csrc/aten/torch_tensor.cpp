#include "aten/torch_tensor.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/TensorOptions.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <malloc.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "aten/element_types.h"
#include "aten/placeholder.h"
#include "aten/torch_types.h"
#include "base/error.h"

namespace onnx_native::aten {

namespace {

// Returns the number of allocated bytes of a storage. torch's loader trusts the size in a file, but
// the allocator knows the real size.
size_t room_of(const c10::Storage& storage) {
  const c10::DataPtr& memory = storage.data_ptr();
  if (memory.get_deleter() != c10::GetDefaultCPUAllocator()->raw_deleter()) return storage.nbytes();
  return std::min(storage.nbytes(), malloc_usable_size(memory.get_context()));
}

// Returns true if the storage holds all elements that sizes and strides reach.
bool has_room(const at::Tensor& tensor, size_t bytes) {
  if (tensor.numel() == 0) return true;
  int64_t last = tensor.storage_offset();
  bool fits = last >= 0;
  for (int64_t axis = 0; axis < tensor.dim(); ++axis) {
    const int64_t stride = tensor.stride(axis);
    int64_t span = 0;
    fits = fits && stride >= 0 && !__builtin_mul_overflow(tensor.size(axis) - 1, stride, &span) &&
           !__builtin_add_overflow(last, span, &last);
  }
  return fits && last < static_cast<int64_t>(bytes / tensor.itemsize());
}

// Returns an alias with the current storage, sizes and strides. Not at::alias, which dispatch modes
// intercept.
at::Tensor alias_of(const at::Tensor& tensor) {
  return at::Tensor(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(
      c10::VariableVersion(0), /*allow_tensor_metadata_change=*/false));
}

// Returns the address of the first element. Devices may have addresses of their own, so those of
// different devices differ in the bits that no address uses.
const std::byte* address_of(const at::Tensor& tensor) {
  if (const std::byte* reserved = placeholder_address(tensor)) return reserved;
  const auto device = static_cast<uintptr_t>(tensor.device().type()) << 8U |
                      static_cast<uint8_t>(tensor.device().index());
  const auto tag = tensor.is_cpu() ? 0 : device << 48U;
  return reinterpret_cast<const std::byte*>(reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) ^
                                            tag);
}

// Returns a tensor of bytes over the memory of another tensor. No kernel of its device runs.
at::Tensor bytes_of(const at::Tensor& tensor, int64_t start, int64_t count) {
  at::Tensor bytes = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(tensor.storage()),
      c10::DispatchKeySet(c10::computeDispatchKey(c10::kByte, c10::kStrided, tensor.device())),
      c10::scalarTypeToTypeMeta(c10::kByte));
  const int64_t one = 1;
  bytes.unsafeGetTensorImpl()->set_sizes_and_strides(at::IntArrayRef(count), at::IntArrayRef(one),
                                                     start);
  return bytes;
}

// Checks the sizes against the memory: files may be wrong, and torch does not check them.
void check_memory(const at::Tensor& tensor, std::string_view name) {
  const size_t bytes = room_of(tensor.storage());
  if (!has_room(tensor, bytes))
    fail(ErrorKind::invalid_program, "the sizes of the constant tensor ", name,
         " exceed its memory of ", bytes, " bytes");
}

}  // namespace

TensorWeight::TensorWeight(const at::Tensor& tensor, std::string name)
    : DeviceWeight(std::move(name), address_of(tensor)), tensor_(alias_of(tensor)) {}

bool TensorWeight::has_elements() const { return !placeholder_address(tensor_); }

const std::byte* TensorWeight::data() const {
  if (!has_elements())
    fail(
        ErrorKind::invalid_argument, name(),
        " has no elements: the module was on the meta device or in fake mode; give the program its "
        "weights by apply_weights(), or save it with a checkpoint or without weights");
  if (!has_room(tensor_, tensor_.storage().nbytes()))
    fail(ErrorKind::invalid_argument, "the memory of ", name(),
         " was released or resized after the export: the tensor needs ", tensor_.nbytes(),
         " bytes, but its storage has ", tensor_.storage().nbytes(),
         "; save the model before that happens, or export again");
  return address_of(tensor_);
}

bool TensorWeight::is_remote() const { return !tensor_.is_cpu(); }

void TensorWeight::copy(std::ptrdiff_t offset, std::span<std::byte> to) const {
  data();  // checks the memory
  // Without the modes, transforms and recordings of the caller.
  const c10::impl::ForceDispatchKeyGuard plain(c10::DispatchKeySet(),
                                               c10::autograd_dispatch_keyset_with_ADInplaceOrView);
  const auto count = static_cast<int64_t>(to.size());
  const int64_t start = tensor_.storage_offset() * static_cast<int64_t>(tensor_.itemsize());
  at::from_blob(to.data(), {count}, c10::kByte).copy_(bytes_of(tensor_, start + offset, count));
}

at::Tensor TensorWeight::view(const TensorData& data) const {
  if (has_elements()) this->data();  // checks the memory
  const int64_t offset = tensor_.storage_offset() + (data.data - origin()) / item_size(data.dtype);
  std::vector<int64_t> strides = data.strides;
  if (strides.empty()) {
    strides.resize(data.shape.size(), 1);
    for (size_t i = strides.size(); i-- > 1;)
      strides[i - 1] = strides[i] * std::max<int64_t>(data.shape[i], 1);
  }
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(tensor_.storage()),
      c10::DispatchKeySet(
          c10::computeDispatchKey(to_scalar_type(data.dtype), c10::kStrided, tensor_.device())),
      c10::scalarTypeToTypeMeta(to_scalar_type(data.dtype)));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(data.shape, strides, offset);
  return tensor;
}

void TensorWeight::assign(const at::Tensor& tensor) {
  if (tensor.scalar_type() != tensor_.scalar_type() || tensor.sizes() != tensor_.sizes())
    fail(ErrorKind::invalid_argument, "the new value of ", name(), " is ", tensor.toString(), " ",
         tensor.sizes(), ", but the program was exported with ", tensor_.toString(), " ",
         tensor_.sizes(), "; export it again");
  const bool same_layout = !lacks_elements(tensor) && tensor.strides() == tensor_.strides() &&
                           !tensor.is_conj() && !tensor.is_neg();
  if (same_layout) {
    tensor_ = alias_of(tensor);
    return;
  }
  if (lacks_elements(tensor))
    fail(ErrorKind::invalid_argument, "the new value of ", name(), " has no elements either");
  at::Tensor copy = at::empty_strided(tensor_.sizes(), tensor_.strides(),
                                      tensor_.options().device(tensor.device()));
  tensor_ = copy.copy_(tensor);
}

TensorData tensor_data(const at::Tensor& tensor, std::string_view name) {
  at::Tensor plain = tensor;
  if (plain.layout() == c10::Layout::Mkldnn) plain = plain.to_dense();
  if (plain.is_meta()) plain = make_placeholder(plain);
  if (plain.layout() != c10::Layout::Strided || plain.unsafeGetTensorImpl()->is_python_dispatch()) {
    fail(ErrorKind::unsupported, "cannot read the elements of the constant tensor ", name,
         ": it is sparse, a FakeTensor or another tensor subclass; use a dense tensor, and "
         "x.detach() in place of x.data, which torch.export does not record");
  }
  if (!placeholder_address(plain)) check_memory(plain, name);
  if (plain.is_conj()) plain = plain.resolve_conj();
  if (plain.is_neg()) plain = plain.resolve_neg();
  const std::optional<DType> dtype = to_dtype(plain.scalar_type());
  if (!dtype) {
    fail(ErrorKind::unsupported, no_element_type(plain.scalar_type()), " (constant tensor ", name,
         ")");
  }
  TensorData data;
  data.dtype = *dtype;
  data.shape = plain.sizes().vec();
  if (!plain.is_contiguous()) data.strides = plain.strides().vec();
  auto weight = std::make_shared<TensorWeight>(plain, std::string(name));
  data.data = weight->origin();
  data.owner = as_owner(std::move(weight));
  return data;
}

TensorData literal_data(const at::Tensor& tensor, std::string_view name) {
  TensorData data = tensor_data(tensor, name);
  if (data.nbytes() > kLargestLiteral || !onnx_native::has_elements(&data)) return data;
  std::vector<std::byte> bytes;
  stream_current(data, [&bytes](std::span<const std::byte> piece) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  });
  return make_tensor(data.dtype, data.shape, std::move(bytes));
}

at::Tensor to_tensor(const TensorData& source) {
  const auto options = at::TensorOptions().dtype(to_scalar_type(source.dtype));
  if (!weight_of(source) && !onnx_native::has_elements(&source))
    return make_placeholder(at::empty(source.shape, options.device(c10::kMeta)));
  const TensorData data = current(source);
  if (data.scale) {  // the scaled elements are not in memory
    at::Tensor tensor = at::empty(data.shape, options);
    auto* to = static_cast<std::byte*>(tensor.mutable_data_ptr());
    stream_current(
        data, [&to](std::span<const std::byte> piece) { to = std::ranges::copy(piece, to).out; });
    return tensor;
  }
  if (const auto* weight = dynamic_cast<const TensorWeight*>(weight_of(data))) {
    return weight->view(data);
  }
  void* memory = const_cast<std::byte*>(data.data);
  auto keep = [owner = data.owner](void*) {};
  if (data.is_contiguous()) return at::from_blob(memory, data.shape, std::move(keep), options);
  return at::from_blob(memory, data.shape, data.strides, std::move(keep), options);
}

}  // namespace onnx_native::aten
