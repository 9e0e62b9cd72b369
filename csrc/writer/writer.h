// Writes ModelProto and external data. No other room uses protobuf.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/metadata.h"
#include "onnx/graph.h"

namespace onnx_native::writer {

using Properties = std::vector<std::pair<std::string, std::string>>;  // keys and values

// A call of the program, as torch.export prints it; empty if it is not known.
struct CallText {
  std::string target;   // "aten.linear.default"
  std::string fx_node;  // "%linear : [num_users=1] = call_function[...](...)"
};

// Facts about the program that the model records beside the locations of its nodes.
struct Origin {
  std::function<CallText(const Location&)> describe_call;
  std::unordered_map<const onnx::Value*, Properties> values;  // of inputs, outputs and weights
  Properties graph;                                           // of the main graph
};

struct Options {
  // true: large weights go to `<file>.data` next to the model, or a name of their own (see
  // replacement.h). false, or the path is a device or a pipe: all stay in the model.
  // nullopt: true if they exceed 1.5 GiB in total.
  std::optional<bool> external_data;
  // Files, beside the model, and offsets in bytes where the elements of weights are already, by the
  // names of the weights. Used with external data; the contents are not checked.
  std::map<std::string, std::pair<std::string, int64_t>> places = {};
  // Tensors smaller than this, in bytes, stay in the model even with external data.
  int64_t inline_below = 1024;
  // Alignment of tensors in the data file, in bytes, for memory mapping.
  int64_t alignment = 4096;
  // The largest size of a data file, in bytes. Weights that do not fit go to further files,
  // `<name>-00001-of-00002.data`; a larger weight has a file of its own. nullopt: one file.
  std::optional<int64_t> shard_bytes = std::nullopt;
  Metadata metadata = Metadata::full;              // metadata_props
  std::shared_ptr<const Origin> origin = nullptr;  // may be nullptr; written with `metadata`
  // Called with the bytes written so far and the total; may be empty.
  std::function<void(int64_t, int64_t)> progress;
};

// Writes the model. The file and its data file are written completely or not at all. Weights stream
// from their storage. Like the other functions, throws ExportError(io), and
// ExportError(invalid_argument) with the name of a weight that changed after the export in a way
// that the model does not support.
void save(const onnx::Model& model, const std::filesystem::path& path, const Options& options = {});
// One of several models that share a data file.
struct Part {
  const onnx::Model* model;
  std::filesystem::path path;
  Options options;  // its places and metadata
};
// Writes models in one folder, with a data file `<name>+<name>.data`, or several, beside them.
// Elements in the same memory are written once. All files are written before the first one is put
// in place.
void save_together(const std::vector<Part>& parts, const std::filesystem::path& folder,
                   const Options& options = {});
// Writes the model without weight data, for a checker that does not read it. Large weights are
// external, in a sparse data file of the right length that takes no disk space.
void save_without_weights(const onnx::Model& model, const std::filesystem::path& path,
                          const Options& options = {});
// A weight that `serialize_without_weights` left out. Weights are in initializer order.
struct Weight {
  std::string name;
  const TensorData* data;
};
// Returns the ModelProto's bytes with all weights inside. Throws ExportError(invalid_argument) if
// they exceed 2 GiB.
std::string serialize(const onnx::Model& model, const Options& options = {});
// Returns the ModelProto's bytes for onnx_ir, which maps the weights without copies. Initializers
// of at least `inline_below` bytes, and all that can change, are external: their location is
// "onnx_native" and their offset is their index in `weights`. Unlike in files, sizes of
// intermediate values have names.
std::string serialize_without_weights(const onnx::Model& model, std::vector<Weight>& weights,
                                      const Options& options = {});

}  // namespace onnx_native::writer
