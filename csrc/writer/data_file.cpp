#include "writer/data_file.h"

#include <optional>

#include "base/device_weight.h"
#include "base/error.h"
#include "base/packed.h"

namespace onnx_native::writer {
namespace {

// Returns true if the elements are those of a weight, in its layout: not computed from weights, as
// a folded convolution is.
bool is_as_in_module(const TensorData& data) {
  const onnx_native::Weight* weight = weight_of(data);
  return weight && data.is_contiguous() && data.data == weight->origin();
}

}  // namespace

DataFile::DataFile(std::string location, const Options& options)
    : location_(std::move(location)),
      inline_below_(options.inline_below),
      alignment_(options.alignment) {
  if (alignment_ < 1) {
    fail(ErrorKind::invalid_argument, "the alignment of external data must be at least 1");
  }
}

DataFile::Memory DataFile::memory_of(const TensorData& data) {
  // The shape of contiguous data does not matter.
  return {weight_of(data) ? place_of(data) : data.data, stored_bytes(data),
          data.is_contiguous() ? std::vector<int64_t>() : data.shape, data.strides,
          data.scale.get()};
}

void DataFile::add(const std::vector<const onnx::Value*>& weights,
                   const std::map<std::string, std::pair<std::string, int64_t>>& places) {
  for (const onnx::Value* weight : weights) {
    const TensorData& data = *weight->constant;
    const int64_t length = stored_bytes(data);
    const auto known = places.find(weight->name);
    if (known != places.end() && is_as_in_module(data)) {
      places_.emplace(&data, External{known->second.first, known->second.second, length});
      continue;
    }
    if (length == 0 || length < inline_below_) continue;
    const int64_t aligned = (size_ + alignment_ - 1) / alignment_ * alignment_;
    const auto [found, is_new] = offsets_.emplace(memory_of(data), aligned);
    if (is_new) {
      tensors_.emplace_back(&data, aligned);
      size_ = aligned + length;
    }
    places_.emplace(&data, External{"", found->second, length});
  }
}

Place DataFile::place() const {
  return [this](const TensorData& data) -> std::optional<External> {
    const auto found = places_.find(&data);
    if (found == places_.end()) return std::nullopt;
    External place = found->second;
    if (place.location.empty()) place.location = location_;
    return place;
  };
}

void DataFile::write(OutputFile& file) const {
  for (const auto& [data, offset] : tensors_) {
    file.pad_to(offset);
    file.write(*data);
  }
}

}  // namespace onnx_native::writer
