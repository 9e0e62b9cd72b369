#include "base/weight.h"

#include <algorithm>

#include "base/device_weight.h"
#include "base/error.h"

namespace onnx_native {
namespace {

thread_local WeightReads* current_reads = nullptr;

// The deleters of owners. They identify the type of an owner.
struct WeightOwner {
  std::shared_ptr<Weight> weight;
  void operator()(const void*) const {}
};
struct DerivedOwner {
  std::shared_ptr<const Derivation> derivation;
  std::shared_ptr<const void> memory;
  void operator()(const void*) const {}
};

const Derivation* derivation_of(const TensorData& data) {
  const auto* owner = std::get_deleter<DerivedOwner>(data.owner);
  return owner ? owner->derivation.get() : nullptr;
}

uint64_t hash_of(const TensorData& data) {
  const ReadScope unrecorded(nullptr);
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  stream_current(data, [&hash](std::span<const std::byte> piece) {
    for (const std::byte byte : piece) {
      hash = (hash ^ static_cast<uint64_t>(byte)) * 0x100000001b3;
    }
  });
  return hash;
}

bool is_same_memory(const TensorData& a, const TensorData& b) {
  return weight_of(a) == weight_of(b) && a.data == b.data && a.dtype == b.dtype &&
         a.shape == b.shape && a.strides == b.strides;
}

}  // namespace

std::shared_ptr<const void> as_owner(std::shared_ptr<Weight> weight) {
  const void* memory = weight->origin();
  return {memory, WeightOwner{std::move(weight)}};
}

Weight* weight_of(const TensorData& data) {
  const auto* owner = std::get_deleter<WeightOwner>(data.owner);
  return owner ? owner->weight.get() : nullptr;
}

void derive(TensorData& data, Derivation derivation) {
  if (std::ranges::none_of(derivation.sources, can_change)) return;
  DerivedOwner owner{std::make_shared<const Derivation>(std::move(derivation)), data.owner};
  data.owner = std::shared_ptr<const void>(data.data, std::move(owner));
}

TensorData on_demand(DType dtype, std::vector<int64_t> shape, Derivation derivation) {
  TensorData data;
  data.dtype = dtype;
  data.shape = std::move(shape);
  DerivedOwner owner{std::make_shared<const Derivation>(std::move(derivation)), nullptr};
  // A unique address, which start_of() refuses.
  data.data = reinterpret_cast<const std::byte*>(owner.derivation.get());
  data.owner = std::shared_ptr<const void>(data.data, std::move(owner));
  return data;
}

bool is_on_demand(const TensorData& data) {
  const auto* owner = std::get_deleter<DerivedOwner>(data.owner);
  return owner && owner->derivation.get() == static_cast<const void*>(data.data);
}

const Derivation* conversion_of(const TensorData& data) {
  const Derivation* derivation = is_on_demand(data) ? derivation_of(data) : nullptr;
  return derivation && derivation->is_conversion ? derivation : nullptr;
}

TensorData derived(DType dtype, std::vector<int64_t> shape, Derivation derivation) {
  const auto is_present = [](const TensorData& source) {
    return source.dtype == DType::undefined || has_elements(&source);
  };
  if (!std::ranges::all_of(derivation.sources, is_present))
    return on_demand(dtype, std::move(shape), std::move(derivation));
  const HostCopies copies;
  std::optional<TensorData> data = derivation.compute(derivation.sources);
  require(data.has_value(), "a constant cannot be computed");
  derive(*data, std::move(derivation));
  return *std::move(data);
}

bool can_change(const TensorData& data) { return weight_of(data) || derivation_of(data); }

std::span<const TensorData> sources_of(const TensorData& data) {
  const Derivation* derivation = derivation_of(data);
  return derivation ? std::span<const TensorData>(derivation->sources)
                    : std::span<const TensorData>();
}

bool has_elements(const TensorData* data) {
  if (!data) return false;
  if (const Weight* weight = weight_of(*data)) return weight->has_elements();
  const Derivation* derivation = derivation_of(*data);
  return !derivation || std::ranges::all_of(derivation->sources, [](const TensorData& source) {
    return has_elements(&source);
  });
}

TensorData current(const TensorData& data) {
  const Derivation* derivation = derivation_of(data);
  if (!derivation) return data;
  const ReadScope unrecorded(nullptr);
  std::vector<TensorData> sources;
  for (const TensorData& source : derivation->sources) sources.push_back(current(source));
  const HostCopies copies;
  std::optional<TensorData> result = derivation->compute(sources);
  if (!result || result->dtype != data.dtype || result->shape != data.shape) {
    fail(ErrorKind::invalid_argument,
         "cannot recompute a constant of the model: the values of its weights have changed since "
         "the export; export again");
  }
  return std::move(*result);
}

bool stream_derived(const TensorData& data, const Derivation::Sink& sink) {
  const Derivation* derivation = derivation_of(data);
  if (!derivation || !derivation->stream) return false;
  const ReadScope unrecorded(nullptr);
  derivation->stream(derivation->sources.at(0), sink);
  return true;
}

const std::byte* start_of(const TensorData& data) {
  require(!is_on_demand(data), "a constant that is computed on demand holds no elements");
  if (const DeviceWeight* remote = remote_weight_of(data)) return host_copy(*remote, data);
  const Weight* weight = weight_of(data);
  return weight ? weight->data() + (data.data - weight->origin()) : data.data;
}

void WeightReads::add(const TensorData& data) {
  // Search backward: a tensor is usually read element by element.
  const bool known = std::any_of(reads_.rbegin(), reads_.rend(), [&data](const Read& read) {
    return is_same_memory(read.data, data);
  });
  if (!known) reads_.push_back({data, hash_of(data)});
}

void WeightReads::check() const {
  for (const Read& read : reads_) {
    if (hash_of(read.data) == read.hash) continue;
    fail(ErrorKind::invalid_argument, "the values of ", weight_of(read.data)->name(),
         " have changed since the export, and the structure of the model depends on them; export "
         "again");
  }
}

ReadScope::ReadScope(WeightReads* reads) : outer_(std::exchange(current_reads, reads)) {}

ReadScope::~ReadScope() { current_reads = outer_; }

void note_read(const TensorData& data) {
  if (!current_reads) return;
  if (weight_of(data)) current_reads->add(data);
  const Derivation* derivation = derivation_of(data);
  if (!derivation) return;
  for (const TensorData& source : derivation->sources) note_read(source);
}

}  // namespace onnx_native
