// A device that every machine has, for tests: PyTorch's PrivateUse1. The host cannot read its
// memory: a tensor's address is reserved, and the elements are elsewhere. It has two devices, and
// runs its operators on the CPU with PyTorch's fallback.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <sys/mman.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace {

constexpr auto kDevice = c10::DeviceType::PrivateUse1;
constexpr c10::DeviceIndex kDevices = 2;

thread_local c10::DeviceIndex current_device = 0;

// The copies to the host since the last reset.
std::atomic<int64_t> copies = 0;
std::atomic<int64_t> copied_bytes = 0;
std::atomic<int64_t> largest_copy = 0;

// The memory of a storage: addresses that nobody can read, and the elements.
struct Memory {
  explicit Memory(size_t size) : bytes(std::max<size_t>(size, 1)), elements(new std::byte[bytes]) {
    address = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    TORCH_CHECK(address != MAP_FAILED, "there is no address space");
  }
  ~Memory() { ::munmap(address, bytes); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  size_t bytes;
  std::unique_ptr<std::byte[]> elements;
  void* address = nullptr;
};

void release(void* context) { delete static_cast<Memory*>(context); }

class DeviceAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    auto* memory = new Memory(bytes);
    return {memory->address, memory, &release, c10::Device(kDevice, current_device)};
  }
  void copy_data(void* /*to*/, const void* /*from*/, size_t /*count*/) const override {
    TORCH_CHECK(false, "the host cannot copy the memory of the device");
  }
};

DeviceAllocator device_allocator;
REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &device_allocator);

// Memory of the host that counts as pinned.
class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* memory = std::malloc(std::max<size_t>(bytes, 1));
    const std::scoped_lock lock(mutex());
    pinned().insert(memory);
    return {memory, memory, &free_pinned, c10::Device(c10::kCPU)};
  }
  void copy_data(void* to, const void* from, size_t count) const override {
    std::memcpy(to, from, count);
  }
  static bool is_pinned(const void* memory) {
    const std::scoped_lock lock(mutex());
    return pinned().contains(memory);
  }

 private:
  static void free_pinned(void* memory) {
    const std::scoped_lock lock(mutex());
    pinned().erase(memory);
    std::free(memory);
  }
  static std::mutex& mutex() {
    static auto& of_process = *new std::mutex;
    return of_process;
  }
  static std::unordered_set<const void*>& pinned() {
    static auto& of_process = *new std::unordered_set<const void*>;
    return of_process;
  }
};

PinnedAllocator pinned_allocator;

class GuardImpl final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kDevice; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return {kDevice, current_device}; }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.index() < kDevices, "the device has no number ", int{device.index()});
    uncheckedSetDevice(device);
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index()) current_device = device.index();
  }
  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, GuardImpl);

// Gives a storage more memory.
void grow(const c10::Storage& storage, size_t bytes) {
  c10::DataPtr grown = device_allocator.allocate(bytes);
  const auto* from = static_cast<const Memory*>(storage.data_ptr().get_context());
  auto* to = static_cast<Memory*>(grown.get_context());
  if (from) std::copy_n(from->elements.get(), std::min(from->bytes, bytes), to->elements.get());
  storage.set_data_ptr_noswap(std::move(grown));
  storage.set_nbytes(bytes);
}

// A device's generator of random numbers.
class DeviceGenerator final : public at::CPUGeneratorImpl {
 public:
  explicit DeviceGenerator(c10::DeviceIndex index) {
    device_ = c10::Device(kDevice, index);
    key_set_ = c10::DispatchKeySet(c10::DispatchKey::PrivateUse1);
  }
};

const at::Generator& default_generator(c10::DeviceIndex index) {
  static const auto& of_devices = *new std::array<at::Generator, kDevices>{
      at::make_generator<DeviceGenerator>(0), at::make_generator<DeviceGenerator>(1)};
  return of_devices.at(index < 0 ? current_device : index);
}

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex /*device*/) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return kDevices; }
  c10::DeviceIndex getCurrentDevice() const override { return current_device; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override {
    return default_generator(device);
  }
  bool isPinnedPtr(const void* memory) const override { return PinnedAllocator::is_pinned(memory); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator; }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    grow(storage, bytes);
  }
};

// Returns a tensor of the host over the elements of one of the device.
at::Tensor host_view(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  const auto* memory = static_cast<const Memory*>(tensor.storage().data_ptr().get_context());
  std::byte* first =
      memory ? memory->elements.get() + tensor.storage_offset() * tensor.itemsize() : nullptr;
  return at::from_blob(
      first, tensor.sizes(), tensor.strides(), [](void*) {},
      at::TensorOptions().dtype(tensor.scalar_type()));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool /*non_blocking*/) {
  if (to.is_cpu() && !from.is_cpu()) {
    const auto bytes = static_cast<int64_t>(to.nbytes());
    ++copies;
    copied_bytes += bytes;
    largest_copy = std::max<int64_t>(largest_copy, bytes);
  }
  host_view(to).copy_(host_view(from));
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  to.resize_(from.sizes());
  return copy_from(from, to, false);
}

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

at::Tensor empty(c10::SymIntArrayRef sizes, std::optional<c10::ScalarType> dtype,
                 std::optional<c10::Layout> /*layout*/, std::optional<c10::Device> device,
                 std::optional<bool> pin_memory, std::optional<c10::MemoryFormat> format) {
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
  const c10::DeviceGuard guard(device.value_or(c10::Device(kDevice, current_device)));
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(sizes), &device_allocator, kKeys,
                                   c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides,
                         std::optional<c10::ScalarType> dtype,
                         std::optional<c10::Layout> /*layout*/, std::optional<c10::Device> device,
                         std::optional<bool> /*pin_memory*/) {
  const c10::DeviceGuard guard(device.value_or(c10::Device(kDevice, current_device)));
  return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(sizes),
                                           C10_AS_INTARRAYREF_SLOW(strides), &device_allocator,
                                           kKeys, c10::dtype_or_default(dtype));
}

at::Tensor as_strided(const at::Tensor& self, c10::SymIntArrayRef sizes,
                      c10::SymIntArrayRef strides, std::optional<c10::SymInt> offset) {
  std::optional<int64_t> start;
  if (offset) start = offset->expect_int();
  return at::native::as_strided_tensorimpl(self, C10_AS_INTARRAYREF_SLOW(sizes),
                                           C10_AS_INTARRAYREF_SLOW(strides), start);
}

at::Tensor view(const at::Tensor& self, c10::SymIntArrayRef sizes) {
  return at::native::view(self, C10_AS_INTARRAYREF_SLOW(sizes));
}

at::Tensor reshape_alias(const at::Tensor& self, c10::SymIntArrayRef sizes,
                         c10::SymIntArrayRef strides) {
  return at::native::_reshape_alias(self, C10_AS_INTARRAYREF_SLOW(sizes),
                                    C10_AS_INTARRAYREF_SLOW(strides));
}

void make_room(const at::Tensor& self) {
  const c10::Storage& storage = self.storage();
  const size_t bytes = at::detail::computeStorageNbytes(self.sizes(), self.strides(),
                                                        self.itemsize(), self.storage_offset());
  if (bytes > storage.nbytes()) grow(storage, bytes);
}

const at::Tensor& resize(const at::Tensor& self, c10::SymIntArrayRef sizes,
                         std::optional<c10::MemoryFormat> /*format*/) {
  self.unsafeGetTensorImpl()->set_sizes_contiguous(C10_AS_INTARRAYREF_SLOW(sizes));
  make_room(self);
  return self;
}

at::Tensor& set_to_view(at::Tensor& self, c10::Storage source, c10::SymInt offset,
                        c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides) {
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(source));
  impl->set_storage_offset(offset.expect_int());
  if (strides.empty() && !sizes.empty()) {
    impl->set_sizes_contiguous(C10_AS_INTARRAYREF_SLOW(sizes));
  } else {
    impl->set_sizes_and_strides(C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides));
  }
  make_room(self);
  return self;
}

at::Tensor& set_to_storage(at::Tensor& self, c10::Storage source) {
  const auto count = static_cast<int64_t>(source.nbytes() / self.itemsize());
  return set_to_view(self, std::move(source), 0, {count}, {});
}

at::Tensor& set_to_tensor(at::Tensor& self, const at::Tensor& source) {
  return set_to_view(self, source.storage(), source.storage_offset(), source.sym_sizes(),
                     source.sym_strides());
}

at::Tensor& set_to_nothing(at::Tensor& self) {
  const at::Tensor nothing = empty({0}, self.scalar_type(), {}, self.device(), {}, {});
  return set_to_tensor(self, nothing);
}

c10::Scalar local_scalar_dense(const at::Tensor& self) {
  ++copies;
  return at::_local_scalar_dense(host_view(self));
}

// The operator of a convolution on other devices than PyTorch's own.
at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight,
                       const std::optional<at::Tensor>& bias, c10::SymIntArrayRef stride,
                       c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, bool transposed,
                       c10::SymIntArrayRef output_padding, c10::SymInt groups) {
  TORCH_CHECK(input.device() == weight.device(), "the weight is on another device");
  std::optional<at::Tensor> host_bias;
  if (bias && bias->defined()) host_bias = host_view(*bias);
  return at::convolution_symint(host_view(input), host_view(weight), host_bias, stride, padding,
                                dilation, transposed, output_padding, std::move(groups))
      .to(input.device());
}

// Operators that take some of their tensors on the CPU.
bool takes_host_tensors(std::string_view name) {
  return name.starts_with("aten::index") || name.starts_with("aten::_index_put") ||
         name == "aten::_pack_padded_sequence" || name == "aten::_pad_packed_sequence";
}

template <class Visit>
void for_each_tensor(const c10::IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) for_each_tensor(item, visit);
  }
}

// Gives a call that draws without a generator the numbers of its device.
class DrawsOnDevice {
 public:
  DrawsOnDevice(const c10::OperatorHandle& op, torch::jit::Stack& stack,
                std::optional<c10::Device> device) {
    if (!op.hasTag(at::Tag::nondeterministic_seeded) || !device || device->is_cpu()) return;
    const std::vector<c10::Argument>& declared = op.schema().arguments();
    const auto arguments = stack.end() - static_cast<int64_t>(declared.size());
    for (size_t i = 0; i < declared.size(); ++i) {
      c10::IValue& argument = *(arguments + static_cast<int64_t>(i));
      if (declared[i].name() != "generator" || !argument.isNone()) continue;
      device_ = default_generator(device->index());
      host_ = at::detail::createCPUGenerator();
      host_.set_state(device_.get_state());
      argument = host_;
    }
  }
  ~DrawsOnDevice() {
    if (device_.defined()) device_.set_state(host_.get_state());
  }
  DrawsOnDevice(const DrawsOnDevice&) = delete;
  DrawsOnDevice& operator=(const DrawsOnDevice&) = delete;

 private:
  at::Generator device_;
  at::Generator host_;
};

// Runs an operator on the CPU. As CUDA does, it takes tensors of one device, and numbers of the
// CPU.
void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto arguments = stack->end() - static_cast<int64_t>(op.schema().arguments().size());
  std::optional<c10::Device> common;
  const auto check = [&](const at::Tensor& tensor) {
    const bool is_number = tensor.is_cpu() && tensor.dim() == 0;
    if (is_number || (tensor.is_cpu() && takes_host_tensors(op.operator_name().name))) return;
    TORCH_CHECK(!common || *common == tensor.device(),
                "Expected all tensors to be on the same device, but found at least two devices, ",
                *common, " and ", tensor.device(), "!");
    common = tensor.device();
  };
  std::for_each(arguments, stack->end(), [&](const c10::IValue& v) { for_each_tensor(v, check); });
  const DrawsOnDevice draws(op, *stack, common);
  at::native::cpu_fallback(op, stack);
  if (!common || common->is_cpu()) return;
  for (c10::IValue& result : *stack) {  // the fallback goes by the first tensor
    if (result.isTensor() && result.toTensor().defined() && result.toTensor().is_cpu())
      result = result.toTensor().to(*common);
  }
}

// Casts the tensors of a call to the dtype of torch.autocast.
void run_in_half(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard inside(c10::DispatchKey::AutocastPrivateUse1);
  const auto arguments = stack->end() - static_cast<int64_t>(op.schema().arguments().size());
  for (auto at = stack->end(); at != arguments;) {  // in the order of PyTorch's own casts
    c10::IValue& value = *--at;
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    value = at::autocast::cached_cast(at::autocast::get_autocast_dtype(kDevice), value.toTensor(),
                                      kDevice);
  }
  op.callBoxed(stack);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", TORCH_FN(empty));
  library.impl("empty_strided", TORCH_FN(empty_strided));
  library.impl("as_strided", TORCH_FN(as_strided));
  library.impl("view", TORCH_FN(view));
  library.impl("_reshape_alias", TORCH_FN(reshape_alias));
  library.impl("unfold", TORCH_FN(at::native::unfold));
  library.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  library.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
  library.impl("resize_", TORCH_FN(resize));
  library.impl("set_.source_Storage_storage_offset", TORCH_FN(set_to_view));
  library.impl("set_.source_Storage", TORCH_FN(set_to_storage));
  library.impl("set_.source_Tensor", TORCH_FN(set_to_tensor));
  library.impl("set_", TORCH_FN(set_to_nothing));
  library.impl("_copy_from", TORCH_FN(copy_from));
  library.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  library.impl("convolution_overrideable", TORCH_FN(convolution));
  library.impl("_local_scalar_dense", TORCH_FN(local_scalar_dense));
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, library) {
  for (const char* op : {"conv1d", "conv2d", "conv3d", "mm", "addmm", "bmm", "baddbmm", "linear",
                         "matmul", "scaled_dot_product_attention"})
    library.impl(op, torch::CppFunction::makeFromBoxedFunction<&run_in_half>());
}

// torch.ops.test_device.copied() returns how many copies there were to the host, their bytes, and
// the bytes of the largest.
TORCH_LIBRARY(test_device, library) {
  library.def("copied() -> int[]", [] {
    return std::vector<int64_t>{copies.load(), copied_bytes.load(), largest_copy.load()};
  });
  library.def("reset() -> ()", [] { copies = copied_bytes = largest_copy = 0; });
  library.def("set_current(int index) -> ()",
              [](int64_t index) { current_device = static_cast<c10::DeviceIndex>(index); });
  library.def("default_generator(int index) -> Generator?", [](int64_t index) {
    return default_generator(static_cast<c10::DeviceIndex>(index));
  });
}

const bool registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  return true;
}();

}  // namespace
