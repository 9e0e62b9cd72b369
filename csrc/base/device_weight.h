// Weights in the memory of another device, of which the host has copies for a while.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "base/weight.h"

namespace onnx_native {

// A weight that may be on another device. Then data() is an address that the host cannot read.
class DeviceWeight : public Weight {
 public:
  using Weight::Weight;

  // Returns true while the host cannot read the elements.
  virtual bool is_remote() const = 0;
  // Copies bytes to the host. `offset` is relative to the first element.
  virtual void copy(std::ptrdiff_t offset, std::span<std::byte> to) const = 0;
};

// Keeps the copies that start_of() makes in this thread, until the scope ends. Weights do not
// change meanwhile. Without a scope, start_of() copies the elements at each call.
class HostCopies {
 public:
  HostCopies();
  HostCopies(const HostCopies&) = delete;
  HostCopies& operator=(const HostCopies&) = delete;
  ~HostCopies();

 private:
  friend const std::byte* host_copy(const DeviceWeight& weight, const TensorData& data);
  using Key = std::tuple<const DeviceWeight*, std::ptrdiff_t, size_t>;
  struct Copy {
    std::shared_ptr<const void> owner;  // keeps the weight of the key alive
    std::vector<std::byte> bytes;
  };
  using Copies = std::map<Key, Copy>;

  static Copies& unscoped();

  HostCopies* outer_;
  Copies copies_;
};

// Returns the weight if the tensor's elements are on another device; else nullptr.
const DeviceWeight* remote_weight_of(const TensorData& data);
// Returns the address of a copy of the tensor's elements, in its layout.
const std::byte* host_copy(const DeviceWeight& weight, const TensorData& data);
// Returns the current address of the first element, on whichever device. It identifies the memory.
const std::byte* place_of(const TensorData& data);

// Calls `sink` with consecutive pieces of the current elements in row-major order. The pieces of
// weights on another device are copied one after the other.
void stream_current(const TensorData& data,
                    const std::function<void(std::span<const std::byte>)>& sink);

}  // namespace onnx_native
