// The layout of a data file: where the weights of a model, or of several models, are in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
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

// Assigns each large weight an offset in the data file. Weights that share the same memory, also
// those of several models, share an offset. Does not own the weights.
class DataFile {
 public:
  // Throws ExportError(invalid_argument) if the alignment is not positive.
  DataFile(std::string location, const Options& options);

  // Places the weights of a model: in the data file, or where `places` says that they are already.
  void add(const std::vector<const onnx::Value*>& weights,
           const std::map<std::string, std::pair<std::string, int64_t>>& places);
  // Tells the places of all weights by the present name of the file. This object outlives it.
  Place place() const;
  // Gives the file another name.
  void rename(const std::string& location) { location_ = location; }
  int64_t size() const { return size_; }
  void write(OutputFile& file) const;

 private:
  // The memory of a tensor. Two tensors with the same memory have the same elements.
  using Memory = std::tuple<const std::byte*, int64_t, std::vector<int64_t>, std::vector<int64_t>,
                            const std::vector<double>*>;
  static Memory memory_of(const TensorData& data);

  std::string location_;
  int64_t inline_below_;
  int64_t alignment_;
  std::map<Memory, int64_t> offsets_;
  std::unordered_map<const TensorData*, External> places_;      // no location: in this file
  std::vector<std::pair<const TensorData*, int64_t>> tensors_;  // with their offsets
  int64_t size_ = 0;
};

}  // namespace onnx_native::writer
