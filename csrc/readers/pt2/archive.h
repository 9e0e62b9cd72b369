// A `.pt2` file: an uncompressed zip archive, mapped into memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "readers/pt2/zip.h"

namespace onnx_native::readers::pt2 {

// Throws ExportError(io) if the file cannot be opened, and ExportError(invalid_program) if it is
// not a zip archive or is truncated.
class Archive {
 public:
  explicit Archive(const std::string& path);

  const std::string& path() const { return path_; }
  const Zip& records() const { return records_; }
  bool has(const std::string& record) const { return records_.has(record); }
  // Returns the record's bytes in the mapped file. They are valid as long as `owner()`.
  std::span<const std::byte> bytes(const std::string& record) const {
    return records_.bytes(record);
  }
  std::string_view text(const std::string& record) const;
  std::shared_ptr<const void> owner() const;

 private:
  struct Mapping;
  std::string path_;
  std::shared_ptr<const Mapping> mapping_;
  Zip records_;
};

}  // namespace onnx_native::readers::pt2
