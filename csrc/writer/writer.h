// ModelProto and external data: the only room that sees protobuf.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "onnx/graph.h"

namespace onnx_native::writer {

struct Options {
  // Weights in `<file>.data` beside the model (true), inside it (false), or outside when the model
  // would pass 1.5 GiB (nullopt).
  std::optional<bool> external_data;
  // Tensors below this many bytes stay inside the model even with external data.
  int64_t inline_below = 1024;
  // Alignment of tensors in the data file, for memory mapping.
  int64_t alignment = 4096;
  bool metadata = true;  // node metadata_props, doc strings
  // Called with the bytes written so far and the total; may be empty.
  std::function<void(int64_t, int64_t)> progress;
};

// Writes the model; the file (and its data file) appear whole or not at all. Weights stream from
// their storage. Throws ExportError(io), and ExportError(invalid_argument) with the name of a
// weight that changed after the export in a way that the model cannot follow; so do the other
// functions.
void save(const onnx::Model& model, const std::filesystem::path& path, const Options& options = {});
// Writes the model with empty data: large weights are outside, in a data file of the right length
// and no content, which takes no space on the disk. For a checker, which does not look at them.
void save_without_weights(const onnx::Model& model, const std::filesystem::path& path,
                          const Options& options = {});
// A weight that `serialize_without_weights` left out of the bytes: in the order of the
// initializers.
struct Weight {
  std::string name;
  const TensorData* data;
};
// The ModelProto's bytes with all weights inside. Throws ExportError(invalid_argument) when over 2
// GiB.
std::string serialize(const onnx::Model& model, const Options& options = {});
// The ModelProto's bytes where initializers of `inline_below` bytes or more, and those that may
// change, are external with location "onnx_native" and offset their index in `weights`: for onnx_ir
// to map without copies.
std::string serialize_without_weights(const onnx::Model& model, std::vector<Weight>& weights,
                                      const Options& options = {});

}  // namespace onnx_native::writer
