// Weights of a live module: their memory may change between the export and the writing of the file.
// They are what TensorData::owner may be.
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

// The memory of a tensor that belongs to a module. The owner of the module may resize, replace or
// overwrite it at any time.
class Weight {
 public:
  Weight(std::string name, const std::byte* origin) : name_(std::move(name)), origin_(origin) {}
  Weight(const Weight&) = delete;
  Weight& operator=(const Weight&) = delete;
  virtual ~Weight() = default;

  const std::string& name() const { return name_; }
  // Where the first element was at the export: TensorData::data of a constant in this memory counts
  // from here.
  const std::byte* origin() const { return origin_; }
  // Where the first element is now. Throws ExportError(invalid_argument) with the name when the
  // memory no longer holds the tensor.
  virtual const std::byte* data() const = 0;

 private:
  std::string name_;
  const std::byte* origin_;
};

// How the elements of a constant follow from weights: computed again whenever they are written.
struct Derivation {
  std::vector<TensorData> sources;  // dtype undefined: an optional input that is absent
  std::function<std::optional<TensorData>(std::span<const TensorData>)> compute;
};

// A TensorData::owner that these functions find again.
std::shared_ptr<const void> as_owner(std::shared_ptr<Weight> weight);
// The weight that the tensor lies in; nullptr: memory that nobody else changes.
Weight* weight_of(const TensorData& data);

// Gives a computed tensor its derivation, if a source can change.
void derive(TensorData& data, Derivation derivation);
// Whether the elements may change after the export.
bool can_change(const TensorData& data);
// The tensor with the elements of now: computed again if they follow from weights.
TensorData current(const TensorData& data);
// Where the first element is now: TensorData::data, unless a weight has moved.
const std::byte* start_of(const TensorData& data);

// The weights whose elements decided how the graph looks, with what they held.
class WeightReads {
 public:
  void add(const TensorData& data);
  // Throws ExportError(invalid_argument) with the weight's name when one has changed.
  void check() const;

 private:
  struct Read {
    TensorData data;
    uint64_t hash;
  };
  std::vector<Read> reads_;
};

// While one lives, the elements of weights that this thread reads are recorded in `reads`; with
// nullptr they are not. The innermost one counts.
class ReadScope {
 public:
  explicit ReadScope(WeightReads* reads);
  ReadScope(const ReadScope&) = delete;
  ReadScope& operator=(const ReadScope&) = delete;
  ~ReadScope();

 private:
  WeightReads* outer_;
};

// Records a read of these elements, if they may change.
void note_read(const TensorData& data);

}  // namespace onnx_native
