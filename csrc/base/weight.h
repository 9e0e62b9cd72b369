// Weights of a live module, whose memory may change between the export and the writing of the file.
// TensorData::owner may be a Weight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/tensor_data.h"

namespace onnx_native {

// The memory of a module's tensor. The module may resize, replace or overwrite it at any time.
class Weight {
 public:
  Weight(std::string name, const std::byte* origin) : name_(std::move(name)), origin_(origin) {}
  Weight(const Weight&) = delete;
  Weight& operator=(const Weight&) = delete;
  virtual ~Weight() = default;

  const std::string& name() const { return name_; }
  // Returns the address of the first element at the time of the export. TensorData::data of a
  // constant in this memory is relative to it.
  const std::byte* origin() const { return origin_; }
  // Returns the current address of the first element. Throws ExportError(invalid_argument) with the
  // name if the memory no longer holds the tensor.
  virtual const std::byte* data() const = 0;
  // Returns false while the tensor has no elements, as on the meta device; data() throws then.
  virtual bool has_elements() const { return true; }

 private:
  std::string name_;
  const std::byte* origin_;
};

// A recipe that computes a constant from weights. It runs again whenever the constant is written.
struct Derivation {
  using Sink = std::function<void(std::span<const std::byte>)>;

  std::vector<TensorData> sources;  // an absent optional input has dtype undefined
  std::function<std::optional<TensorData>(std::span<const TensorData>)> compute;
  // Calls the sink with consecutive pieces of the elements, which compute() would return at once.
  // Takes the only source as it is. May be empty.
  std::function<void(const TensorData&, const Sink&)> stream = {};
  // Each element is that of the only source at the same place, converted.
  bool is_conversion = false;
};

// Wraps a weight as a TensorData::owner that weight_of() recognizes.
std::shared_ptr<const void> as_owner(std::shared_ptr<Weight> weight);
// Returns the weight that holds the tensor; nullptr if nobody else can change the memory.
Weight* weight_of(const TensorData& data);

// Attaches the derivation to a computed tensor if one of the sources can change.
void derive(TensorData& data, Derivation derivation);
// Returns a constant that is computed whenever it is written, and never held. Only current() may
// read its elements.
TensorData on_demand(DType dtype, std::vector<int64_t> shape, Derivation derivation);
bool is_on_demand(const TensorData& data);
// Returns how a constant on demand is converted, element by element; nullptr if it is not.
const Derivation* conversion_of(const TensorData& data);
// Returns a constant that is computed now, and again whenever it is written if one of the sources
// can change; on demand if a source has no elements.
TensorData derived(DType dtype, std::vector<int64_t> shape, Derivation derivation);
// Returns true if the elements may change after the export.
bool can_change(const TensorData& data);
// Returns the tensors that a constant is computed from; none if it is not computed from weights.
std::span<const TensorData> sources_of(const TensorData& data);
// Returns true if the elements can be read: false without a tensor, and if weights without elements
// determine it.
bool has_elements(const TensorData* data);
// Returns the tensor with its current elements, recomputed if it is derived from weights. Throws
// ExportError(invalid_argument) if that fails.
TensorData current(const TensorData& data);
// Calls the sink with consecutive pieces of a constant that is computed in pieces. Returns false,
// and does nothing, if it is not.
bool stream_derived(const TensorData& data, const Derivation::Sink& sink);
// Returns the current address of the first element: TensorData::data unless a weight has moved.
const std::byte* start_of(const TensorData& data);

// Records the weights whose elements affected the structure of the graph, with a hash of their
// contents.
class WeightReads {
 public:
  void add(const TensorData& data);
  // Throws ExportError(invalid_argument) with the weight's name if a recorded weight has changed.
  void check() const;

 private:
  struct Read {
    TensorData data;
    uint64_t hash;
  };
  std::vector<Read> reads_;
};

// While in scope, records the weight elements that this thread reads in `reads`; nullptr disables
// recording. The innermost scope wins.
class ReadScope {
 public:
  explicit ReadScope(WeightReads* reads);
  ReadScope(const ReadScope&) = delete;
  ReadScope& operator=(const ReadScope&) = delete;
  ~ReadScope();

 private:
  WeightReads* outer_;
};

// Records a read of these elements if they may change.
void note_read(const TensorData& data);

}  // namespace onnx_native
