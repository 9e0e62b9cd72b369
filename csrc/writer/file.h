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

// A file with a temporary name in its target's folder. The destructor deletes it unless it was
// renamed. Large pieces are written without a copy. If `target` is a device or a pipe, it is
// written directly; if it is a symbolic link, the file behind it is. A file that is replaced keeps
// its mode and its hard links. Throws ExportError(io).
class OutputFile {
 public:
  OutputFile(std::filesystem::path target, Progress& progress);
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
  bool has_links() const { return has_links_; }

  const std::filesystem::path& target() const { return target_; }

 private:
  void flush();
  void write_out(std::span<const std::byte> bytes);

  std::filesystem::path target_;
  std::filesystem::path temporary_;  // empty if written directly, or already renamed
  Progress& progress_;
  bool has_links_ = false;  // the target has other hard links
  int descriptor_ = -1;
  int64_t offset_ = 0;
  std::vector<std::byte> buffer_;
};

// Renames closed files to their targets, all or none.
void rename_together(std::span<OutputFile* const> files);

}  // namespace onnx_native::writer
