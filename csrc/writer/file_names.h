// The names of the files that belong to a model.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace onnx_native::writer {

// One of the data files of a model.
struct Shard {
  size_t index = 0;
  size_t count = 1;
};

// The names of the files that saves put beside the model at one path. All are at most 255 bytes
// long; data files, which the model refers to, are UTF-8. The middle of a name that is too long is
// replaced by a hash.
class FileNames {
 public:
  explicit FileNames(const std::filesystem::path& model);

  // The usual name: "<model>.data", or that of a shard, "<model>-00001-of-00003.data".
  std::string data(Shard shard = {}) const { return data(shard, ""); }
  // "<model>.<digest>.data", for data that must not replace others; likewise that of a shard.
  std::string data(Shard shard, const std::string& digest) const;
  // Returns true for a usual name, of any shard.
  bool is_usual_data(std::string_view name) const;
  // Returns true for a name with a digest, of any shard.
  bool is_digested_data(std::string_view name) const;
  // The file that a save locks while it replaces the model.
  std::string lock() const { return hidden_ + "lock"; }
  // Returns a hidden name that no other file has: ".<model>.<16 hexadecimal digits>.tmp".
  std::string temporary() const;
  // Returns true for a name that temporary() returns, for the model or its data file.
  bool is_temporary(std::string_view name) const;
  // Returns the process for a name that earlier versions gave to a temporary file; 0 for others.
  int process_of_temporary(std::string_view name) const;

 private:
  std::string_view middle_of_temporary(std::string_view name) const;

  std::string data_;
  std::string digested_;     // what names with a digest start with
  std::string sharded_;      // what names of shards start with
  std::string hidden_;       // what hidden names start with
  std::string hidden_data_;  // the same for the data file
};

// Returns 32 hexadecimal digits that depend on the contents of a file. Throws ExportError(io).
std::string digest_of(const std::filesystem::path& file);
// Returns true for text that is UTF-8, as ONNX wants names to be.
bool is_utf8(std::string_view text);
// Returns the folder of a file, `.` if the path names none.
std::filesystem::path folder_of(const std::filesystem::path& path);
// Returns a path for messages, in UTF-8.
std::string printable(const std::filesystem::path& path);

}  // namespace onnx_native::writer
