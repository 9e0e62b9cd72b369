// Files that are written completely or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/tensor_data.h"

namespace onnx_native::writer {

// Counts the bytes written to all files of one save, for a progress display.
struct Progress {
  std::function<void(int64_t, int64_t)> report;  // (written, total); may be empty
  int64_t total = 0;
  int64_t written = 0;
  void add(int64_t bytes);
};

// The kind of a file that is replaced.
enum class Target {
  model,            // also a device, a pipe, an open file by its name in /proc, or a link to a file
  model_with_data,  // the same, but a link to another folder is replaced: data is beside the model
  data,             // a file beside the model; readers accept no link for it
};

// Returns true for a device, a pipe, or an open file by its name in /proc: no new file can replace
// these, and no data file can be beside them.
bool is_direct(const std::filesystem::path& path);

// A file with a temporary name in its target's folder. The destructor deletes it unless it was
// renamed. While it exists it is locked (flock), so that others can tell whether its writer still
// runs. Large pieces are written without a copy. A target that is_direct() is written itself; if it
// is a symbolic link, the file behind it is, see Target. A file that is replaced keeps its mode
// and its hard links. Throws ExportError(io).
class OutputFile {
 public:
  OutputFile(std::filesystem::path target, Progress& progress, Target kind = Target::model);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  void write(const TensorData& data);
  void pad_to(int64_t offset);
  int64_t offset() const { return offset_; }
  // Flushes the buffer and closes the file.
  void close();
  // Renames the closed file to its target, replacing an existing file. A target that has other
  // hard links is overwritten instead.
  void rename();

  bool is_direct() const { return is_direct_; }
  const std::filesystem::path& target() const { return target_; }
  const std::filesystem::path& temporary() const { return temporary_; }

 private:
  void open_temporary();
  void flush();
  void write_out(std::span<const std::byte> bytes);

  std::filesystem::path target_;
  std::filesystem::path temporary_;  // empty if written directly, or already renamed
  Progress& progress_;
  bool is_direct_ = false;
  int descriptor_ = -1;
  int lock_ = -1;  // the same open file, which stays open until the file is renamed
  int64_t offset_ = 0;
  std::vector<std::byte> buffer_;
};

// Gives a new file the owner and the mode of the file that it replaces.
void take_rights(const std::filesystem::path& file, const std::filesystem::path& from);

}  // namespace onnx_native::writer
