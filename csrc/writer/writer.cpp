#include "writer/writer.h"

#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>

#include "base/device_weight.h"
#include "base/packed.h"
#include "writer/data_layout.h"
#include "writer/file.h"
#include "writer/file_names.h"
#include "writer/messages.h"
#include "writer/replacement.h"

namespace onnx_native::writer {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLargestMessage = (int64_t{1} << 31) - 1;  // protobuf's limit
constexpr int64_t kInlineLimit = int64_t{3} << 29;           // 1.5 GiB

int64_t total_bytes(const std::vector<const onnx::Value*>& weights) {
  int64_t total = 0;
  for (const onnx::Value* weight : weights) total += stored_bytes(*weight->constant);
  return total;
}

using Places = std::unordered_map<const TensorData*, External>;

// Finds a tensor in the map, which must outlive the result.
Place place_in(const Places& places) {
  return [&places](const TensorData& data) {
    const auto found = places.find(&data);
    return found == places.end() ? std::nullopt : std::optional(found->second);
  };
}

constexpr SizeNames kInterface = SizeNames::inputs_and_outputs;
const Place kInside = [](const TensorData&) { return std::nullopt; };

void check_size(const Encoding& encoding) {
  if (encoding.bytes > kLargestMessage) {
    fail(ErrorKind::invalid_argument, "the model has ", encoding.bytes,
         " bytes, but protobuf allows at most 2 GiB; save the weights as external data");
  }
}

void write_model(const Encoding& encoding, OutputFile& file) {
  for (const Piece& piece : encoding.pieces) {
    file.write(piece.text);
    if (piece.data) file.write(*piece.data);
  }
  file.close();
}

std::string join(const Encoding& encoding) {
  check_size(encoding);
  std::string bytes;
  bytes.reserve(static_cast<size_t>(encoding.bytes));
  for (const Piece& piece : encoding.pieces) {
    bytes += piece.text;
    if (!piece.data) continue;
    stream_current(*piece.data, [&bytes](std::span<const std::byte> part) {
      bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
    });
  }
  return bytes;
}

// Writes models, of which several are in one folder, and the data files that they share. `owner`
// gives the data files their names.
void save_all(const std::vector<Part>& parts, const fs::path& owner, bool is_external,
              const Options& options) {
  Progress progress{options.progress};
  DataLayout layout(options);
  if (is_external) {
    for (const Part& part : parts) layout.add(weights_of(*part.model), part.options.places);
  }
  std::deque<OutputFile> files;
  std::vector<NewModel> models;
  for (const Part& part : parts) {
    const Target kind = layout.is_empty() ? Target::model : Target::model_with_data;
    models.push_back({part.path, &files.emplace_back(part.path, progress, kind)});
  }
  std::vector<Encoding> encodings;
  const auto encode_all = [&](const std::vector<std::string>& locations) {
    encodings.clear();
    progress.total = layout.size();
    for (const Part& part : parts) {
      encodings.push_back(encode(*part.model, part.options, kInterface, layout.place(locations)));
      check_size(encodings.back());
      progress.total += encodings.back().bytes;
    }
  };
  const FileNames names(owner);
  std::vector<std::string> usual;
  for (size_t i = 0; i < layout.count(); ++i) usual.push_back(names.data({i, layout.count()}));
  encode_all(usual);
  std::deque<OutputFile> data_files;
  std::vector<fs::path> data;
  for (size_t i = 0; i < layout.count(); ++i) {
    OutputFile& file =
        data_files.emplace_back(owner.parent_path() / usual[i], progress, Target::data);
    layout.write(i, file);
    file.close();
    data.push_back(file.temporary());
  }
  put_in_place(models, owner, data, [&](const std::vector<std::string>& locations) {
    if (locations != usual) encode_all(locations);
    for (size_t i = 0; i < parts.size(); ++i) write_model(encodings[i], files[i]);
  });
}

}  // namespace

void save(const onnx::Model& model, const fs::path& path, const Options& options) {
  if (!path.has_filename()) {
    fail(ErrorKind::io, "cannot write ", printable(path), ": the path has no file name");
  }
  const bool direct = is_direct(path);
  if (direct && !options.places.empty()) {
    fail(ErrorKind::io, "cannot write ", printable(path),
         ": a device or a pipe has no folder for the files that have the weights");
  }
  const bool is_external =
      !direct && options.external_data.value_or(total_bytes(weights_of(model)) > kInlineLimit);
  save_all({{&model, path, options}}, path, is_external, options);
}

void save_together(const std::vector<Part>& parts, const fs::path& folder, const Options& options) {
  std::string name;
  for (const Part& part : parts) {
    if (is_direct(part.path)) {
      fail(ErrorKind::io, "cannot write ", printable(part.path),
           ": a device or a pipe has no folder for the file that has the weights");
    }
    name += (name.empty() ? "" : "+") + part.path.stem().string();
  }
  save_all(parts, folder / name, true, options);
}

void save_without_weights(const onnx::Model& model, const std::filesystem::path& path,
                          const Options& options) {
  Progress progress{options.progress};
  OutputFile model_file(path, progress);
  DataLayout layout(options);
  layout.add(weights_of(model), options.places);
  const std::string name = FileNames(path).data();
  const Encoding encoding = encode(model, options, kInterface, layout.place({name}));
  check_size(encoding);
  progress.total = encoding.bytes;
  const fs::path data_path = path.parent_path() / name;
  OutputFile data_file(data_path, progress);
  data_file.close();
  data_file.rename();
  fs::resize_file(data_path, static_cast<uintmax_t>(layout.size()));
  write_model(encoding, model_file);
  model_file.rename();
}

std::string serialize(const onnx::Model& model, const Options& options) {
  return join(encode(model, options, kInterface, kInside));
}

std::string serialize_without_weights(const onnx::Model& model, std::vector<Weight>& weights,
                                      const Options& options) {
  Places places;
  for (const onnx::Value* value : weights_of(model)) {
    const int64_t length = value->constant->nbytes();
    const bool small = length < options.inline_below && !can_change(*value->constant);
    if (length == 0 || small) continue;
    const auto index = static_cast<int64_t>(weights.size());
    places.emplace(value->constant, External{"onnx_native", index, length});
    weights.push_back({value->name, value->constant});
  }
  return join(encode(model, options, SizeNames::everywhere, place_in(places)));
}

}  // namespace onnx_native::writer
