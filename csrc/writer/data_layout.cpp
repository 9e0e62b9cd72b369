#include "writer/data_layout.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

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

std::vector<std::byte> elements_of(const TensorData& data) {
  std::vector<std::byte> elements;
  stream_current(data, [&elements](std::span<const std::byte> piece) {
    elements.insert(elements.end(), piece.begin(), piece.end());
  });
  return elements;
}

bool have_same_elements(const TensorData& a, const TensorData& b) {
  return a.dtype == b.dtype && a.shape == b.shape && elements_of(a) == elements_of(b);
}

}  // namespace

DataLayout::DataLayout(const Options& options)
    : inline_below_(options.inline_below),
      alignment_(options.alignment),
      shard_bytes_(options.shard_bytes) {
  if (alignment_ < 1) {
    fail(ErrorKind::invalid_argument, "the alignment of external data must be at least 1");
  }
  if (shard_bytes_ && *shard_bytes_ < 1) {
    fail(ErrorKind::invalid_argument, "the size of a data file must be at least 1");
  }
}

DataLayout::Memory DataLayout::memory_of(const TensorData& data) {
  // The shape of contiguous data does not matter.
  return {weight_of(data) ? place_of(data) : data.data, stored_bytes(data),
          data.is_contiguous() ? std::vector<int64_t>() : data.shape, data.strides,
          data.scale.get()};
}

DataLayout::Range DataLayout::append(const TensorData& data, int64_t length) {
  const auto next = [this] {
    return (files_.back().size + alignment_ - 1) / alignment_ * alignment_;
  };
  if (files_.empty() || (shard_bytes_ && next() + length > *shard_bytes_)) files_.emplace_back();
  const int64_t offset = next();
  files_.back().tensors.emplace_back(&data, offset);
  files_.back().size = offset + length;
  return {files_.size() - 1, "", offset, length};
}

std::vector<DataLayout::Memory> DataLayout::weights_of(const TensorData& data) {
  std::vector<Memory> weights;
  for (const TensorData& source : sources_of(data)) {
    if (weight_of(source) && has_elements(&source)) weights.push_back(memory_of(source));
    std::ranges::move(weights_of(source), std::back_inserter(weights));
  }
  return weights;
}

const DataLayout::Range& DataLayout::range_of(const TensorData& data, int64_t length) {
  Memory memory = memory_of(data);
  if (const auto known = known_.find(memory); known != known_.end()) return known->second;
  if (std::vector<Memory> weights = weights_of(data); !weights.empty()) {
    std::vector<const TensorData*>& others = computed_[std::move(weights)];
    for (const TensorData* other : others) {
      if (have_same_elements(*other, data))
        return known_.emplace(std::move(memory), known_.at(memory_of(*other))).first->second;
    }
    others.push_back(&data);
  }
  return known_.emplace(std::move(memory), append(data, length)).first->second;
}

void DataLayout::add(const std::vector<const onnx::Value*>& weights,
                     const std::map<std::string, std::pair<std::string, int64_t>>& places) {
  for (const onnx::Value* weight : weights) {
    const TensorData& data = *weight->constant;
    const int64_t length = stored_bytes(data);
    const auto elsewhere = places.find(weight->name);
    if (elsewhere != places.end() && is_as_in_module(data)) {
      const auto& [name, offset] = elsewhere->second;
      places_.emplace(&data, Range{0, name, offset, length});
      continue;
    }
    if (length == 0 || length < inline_below_) continue;
    places_.emplace(&data, range_of(data, length));
  }
}

int64_t DataLayout::size() const {
  int64_t size = 0;
  for (const File& file : files_) size += file.size;
  return size;
}

Place DataLayout::place(std::vector<std::string> names) const {
  return [this, names = std::move(names)](const TensorData& data) -> std::optional<External> {
    const auto found = places_.find(&data);
    if (found == places_.end()) return std::nullopt;
    const Range& range = found->second;
    return External{range.name.empty() ? names.at(range.file) : range.name, range.offset,
                    range.length};
  };
}

void DataLayout::write(size_t file, OutputFile& to) const {
  for (const auto& [data, offset] : files_.at(file).tensors) {
    to.pad_to(offset);
    to.write(*data);
  }
}

}  // namespace onnx_native::writer
