// The layout of data files: where the weights of a model, or of several models, are in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "onnx/graph.h"
#include "writer/file.h"
#include "writer/messages.h"
#include "writer/writer.h"

namespace onnx_native::writer {

// Assigns each large weight a data file and an offset. Weights that share the same memory, also
// those of several models, share a place, and so do equal constants that are computed from the same
// weights. Does not own the weights.
class DataLayout {
 public:
  // Throws ExportError(invalid_argument) if the alignment or the size of shards is not positive.
  explicit DataLayout(const Options& options);

  // Places the weights of a model: in a data file, or where `places` says that they are already.
  void add(const std::vector<const onnx::Value*>& weights,
           const std::map<std::string, std::pair<std::string, int64_t>>& places);
  // Returns true if all weights stay in the models.
  bool is_empty() const { return places_.empty(); }
  // The number of data files.
  size_t count() const { return files_.size(); }
  // The size of all data files.
  int64_t size() const;
  // Tells the places of all weights for data files of these names. This object outlives it.
  Place place(std::vector<std::string> names) const;
  void write(size_t file, OutputFile& to) const;

 private:
  // The memory of a tensor. Two tensors with the same memory have the same elements.
  using Memory = std::tuple<const std::byte*, int64_t, std::vector<int64_t>, std::vector<int64_t>,
                            const std::vector<double>*>;
  struct File {
    std::vector<std::pair<const TensorData*, int64_t>> tensors;  // with their offsets
    int64_t size = 0;
  };
  // A range of a data file, or of the file of this name.
  struct Range {
    size_t file;
    std::string name;
    int64_t offset;
    int64_t length;
  };
  static Memory memory_of(const TensorData& data);
  // The memory of the weights that a constant is computed from.
  static std::vector<Memory> weights_of(const TensorData& data);
  // Returns the place of data with the same memory, or with the same elements computed from the
  // same weights, and otherwise adds the data.
  const Range& range_of(const TensorData& data, int64_t length);
  // Adds a tensor to the last data file, or to a new one.
  Range append(const TensorData& data, int64_t length);

  int64_t inline_below_;
  int64_t alignment_;
  std::optional<int64_t> shard_bytes_;
  std::map<Memory, Range> known_;
  std::map<std::vector<Memory>, std::vector<const TensorData*>> computed_;  // by their weights
  std::unordered_map<const TensorData*, Range> places_;
  std::vector<File> files_;
};

}  // namespace onnx_native::writer
