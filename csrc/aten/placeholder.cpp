#include "aten/placeholder.h"

#include <ATen/core/TensorBase.h>
#include <ATen/ops/empty.h>
#include <c10/core/Allocator.h>
#include <sys/mman.h>

#include <algorithm>
#include <memory>

#include "base/error.h"

namespace onnx_native::aten {
namespace {

// The address space of a placeholder, without memory. It marks the storage as its allocator, which
// stays unused because the storage does not grow.
class Region final : public c10::Allocator {
 public:
  explicit Region(size_t bytes) : bytes_(bytes) {
    void* memory =
        ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
      fail(ErrorKind::io, "there is no address space for a weight of ", bytes, " bytes");
    memory_ = memory;
  }
  ~Region() override { ::munmap(memory_, bytes_); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  const std::byte* start() const { return static_cast<const std::byte*>(memory_); }

  c10::DataPtr allocate(size_t) override { refuse(); }
  void copy_data(void*, const void*, size_t) const override { refuse(); }

 private:
  [[noreturn]] static void refuse() {
    fail(ErrorKind::invalid_argument, "a weight without elements cannot be resized");
  }

  size_t bytes_;
  void* memory_ = nullptr;
};

}  // namespace

bool lacks_elements(const at::Tensor& tensor) {
  return tensor.layout() == c10::Layout::Strided && tensor.has_storage() &&
         tensor.storage().device_type() == c10::kMeta;
}

at::Tensor make_placeholder(const at::Tensor& like) {
  const size_t bytes =
      at::detail::computeStorageNbytes(like.sizes(), like.strides(), like.dtype().itemsize());
  auto region = std::make_unique<Region>(std::max<size_t>(bytes, 1));
  Region* const allocator = region.get();
  c10::DataPtr owner(
      nullptr, region.release(), [](void* context) { delete static_cast<Region*>(context); },
      c10::kCPU);
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), bytes, std::move(owner), allocator, /*resizable=*/false);
  storage->release_data_and_set_meta_custom_data_ptr_error_msg_(
      "the elements of a weight of a module on the meta device or in fake mode are not known");
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(storage)), c10::DispatchKeySet(c10::DispatchKey::CPU), like.dtype());
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides());
  return tensor;
}

const std::byte* placeholder_address(const at::Tensor& tensor) {
  if (!tensor.has_storage()) return nullptr;
  const auto* region = dynamic_cast<const Region*>(tensor.storage().allocator());
  return region ? region->start() + tensor.storage_offset() * tensor.itemsize() : nullptr;
}

}  // namespace onnx_native::aten
