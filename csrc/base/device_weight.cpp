#include "base/device_weight.h"

#include <algorithm>
#include <utility>

namespace onnx_native {
namespace {

constexpr size_t kCopiedBytes = size_t{1} << 22;

thread_local HostCopies* innermost = nullptr;

// Returns the number of bytes from the first element to the end of the last one in memory.
size_t extent_of(const TensorData& data) {
  if (data.numel() == 0) return 0;
  if (data.strides.empty()) return static_cast<size_t>(data.nbytes());
  int64_t last = 0;
  for (size_t axis = 0; axis < data.shape.size(); ++axis)
    last += (data.shape[axis] - 1) * data.strides[axis];
  return static_cast<size_t>((last + 1) * item_size(data.dtype));
}

}  // namespace

HostCopies::HostCopies() : outer_(std::exchange(innermost, this)) {}

HostCopies::~HostCopies() {
  innermost = outer_;
  if (!outer_) unscoped().clear();
}

// Returns the copies that are made outside of a scope. They live until a scope ends.
HostCopies::Copies& HostCopies::unscoped() {
  thread_local Copies copies;
  return copies;
}

const DeviceWeight* remote_weight_of(const TensorData& data) {
  const auto* weight = dynamic_cast<const DeviceWeight*>(weight_of(data));
  return weight && weight->is_remote() ? weight : nullptr;
}

const std::byte* host_copy(const DeviceWeight& weight, const TensorData& data) {
  const std::ptrdiff_t offset = data.data - weight.origin();
  const HostCopies::Key key{&weight, offset, extent_of(data)};
  for (const HostCopies* scope = innermost; scope; scope = scope->outer_) {
    if (const auto found = scope->copies_.find(key); found != scope->copies_.end())
      return found->second.bytes.data();
  }
  HostCopies::Copies& copies = innermost ? innermost->copies_ : HostCopies::unscoped();
  HostCopies::Copy& copy = copies[key];
  copy.owner = data.owner;
  copy.bytes.resize(std::get<size_t>(key));
  weight.copy(offset, copy.bytes);
  return copy.bytes.data();
}

const std::byte* place_of(const TensorData& data) {
  const DeviceWeight* weight = remote_weight_of(data);
  return weight ? weight->data() + (data.data - weight->origin()) : start_of(data);
}

void stream_current(const TensorData& data,
                    const std::function<void(std::span<const std::byte>)>& sink) {
  const HostCopies copies;
  if (stream_derived(data, sink)) return;
  const DeviceWeight* weight = remote_weight_of(data);
  if (!weight || !data.is_contiguous()) {
    current(data).stream([&sink](std::span<const std::byte> piece) { sink(piece); });
    return;
  }
  note_read(data);
  const size_t bytes = extent_of(data);
  std::vector<std::byte> piece;
  for (size_t at = 0; at < bytes; at += kCopiedBytes) {
    piece.resize(std::min(bytes - at, kCopiedBytes));
    weight->copy(data.data - weight->origin() + static_cast<std::ptrdiff_t>(at), piece);
    sink(piece);
  }
}

}  // namespace onnx_native
