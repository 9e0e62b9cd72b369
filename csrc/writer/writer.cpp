#include "writer/writer.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/device_weight.h"
#include "base/packed.h"
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

// Returns true if the elements are those of a weight, in its layout: not computed from weights, as
// a folded convolution is.
bool is_as_in_module(const TensorData& data) {
  const onnx_native::Weight* weight = weight_of(data);
  return weight && data.is_contiguous() && data.data == weight->origin();
}

using Places = std::unordered_map<const TensorData*, External>;

// Finds a tensor in the map, which must outlive the result.
Place place_in(const Places& places) {
  return [&places](const TensorData& data) {
    const auto found = places.find(&data);
    return found == places.end() ? std::nullopt : std::optional(found->second);
  };
}

// Assigns each large weight an offset in the data file. Weights that share the same memory share an
// offset.
class DataFile {
 public:
  DataFile(const std::vector<const onnx::Value*>& weights, std::string location,
           const Options& options)
      : location_(std::move(location)) {
    if (options.alignment < 1) {
      fail(ErrorKind::invalid_argument, "the alignment of external data must be at least 1");
    }
    using Memory = std::tuple<const std::byte*, int64_t, std::vector<int64_t>, std::vector<int64_t>,
                              const std::vector<double>*>;
    std::map<Memory, int64_t> offsets;
    for (const onnx::Value* weight : weights) {
      const TensorData& data = *weight->constant;
      const int64_t length = stored_bytes(data);
      const auto known = options.places.find(weight->name);
      if (known != options.places.end() && is_as_in_module(data)) {
        places_.emplace(&data, External{known->second.first, known->second.second, length});
        continue;
      }
      if (length == 0 || length < options.inline_below) continue;
      // The shape of contiguous data does not matter.
      const Memory memory{weight_of(data) ? place_of(data) : data.data, length,
                          data.is_contiguous() ? std::vector<int64_t>() : data.shape, data.strides,
                          data.scale.get()};
      const int64_t aligned =
          (size_ + options.alignment - 1) / options.alignment * options.alignment;
      const auto [found, is_new] = offsets.emplace(memory, aligned);
      if (is_new) {
        tensors_.emplace_back(&data, aligned);
        size_ = aligned + length;
      }
      places_.emplace(&data, External{"", found->second, length});
    }
  }

  Place place() const {
    return [this](const TensorData& data) {
      std::optional<External> place = place_in(places_)(data);
      if (place && place->location.empty()) place->location = location_;
      return place;
    };
  }
  // Gives the file another name.
  void rename(const std::string& location) { location_ = location; }
  int64_t size() const { return size_; }
  void write(OutputFile& file) const {
    for (const auto& [data, offset] : tensors_) {
      file.pad_to(offset);
      file.write(*data);
    }
  }

 private:
  std::string location_;
  Places places_;                                               // without a location: in this file
  std::vector<std::pair<const TensorData*, int64_t>> tensors_;  // with their offsets
  int64_t size_ = 0;
};

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

}  // namespace

void save(const onnx::Model& model, const fs::path& path, const Options& options) {
  if (!path.has_filename()) {
    fail(ErrorKind::io, "cannot write ", printable(path), ": the path has no file name");
  }
  Progress progress{options.progress};
  const bool direct = is_direct(path);
  if (direct && !options.places.empty()) {
    fail(ErrorKind::io, "cannot write ", printable(path),
         ": a device or a pipe has no folder for the files that have the weights");
  }
  const auto weights = weights_of(model);
  const bool is_external = options.external_data.value_or(total_bytes(weights) > kInlineLimit);
  const std::string usual = FileNames(path).data();
  std::optional<DataFile> data;
  if (is_external && !direct) data.emplace(weights, usual, options);
  const bool has_data = data && (data->size() > 0 || !options.places.empty());
  OutputFile model_file(path, progress, has_data ? Target::model_with_data : Target::model);
  std::optional<Encoding> encoding =
      encode(model, options, kInterface, data ? data->place() : kInside);
  check_size(*encoding);
  progress.total = encoding->bytes;
  if (!data || data->size() == 0) {
    put_in_place(path, model_file, {},
                 [&](const std::string&) { write_model(*encoding, model_file); });
    return;
  }
  progress.total += data->size();
  OutputFile data_file(path.parent_path() / usual, progress, Target::data);
  data->write(data_file);
  data_file.close();
  put_in_place(path, model_file, data_file.temporary(), [&](const std::string& location) {
    if (location != usual) {
      data->rename(location);
      encoding = encode(model, options, kInterface, data->place());
      check_size(*encoding);
      progress.total = encoding->bytes + data->size();
    }
    write_model(*encoding, model_file);
  });
}

void save_without_weights(const onnx::Model& model, const std::filesystem::path& path,
                          const Options& options) {
  Progress progress{options.progress};
  OutputFile model_file(path, progress);
  std::filesystem::path data_path = path;
  data_path += ".data";
  const DataFile data(weights_of(model), data_path.filename().string(), options);
  const Encoding encoding = encode(model, options, kInterface, data.place());
  check_size(encoding);
  progress.total = encoding.bytes;
  OutputFile data_file(data_path, progress);
  data_file.close();
  data_file.rename();
  std::filesystem::resize_file(data_path, static_cast<uintmax_t>(data.size()));
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
