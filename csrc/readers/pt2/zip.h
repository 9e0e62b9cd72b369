// Reads the directory of a zip file whose records are stored without compression.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <unordered_map>

namespace onnx_native::readers::pt2 {

// Locates the records of a zip file; supports zip64. The memory must outlive it.
class Zip {
 public:
  // Throws ExportError(invalid_program) if this is not a zip file, if it is truncated, or if two
  // records have the same name.
  explicit Zip(std::span<const std::byte> memory);

  // Names are relative to the first record's folder, because torch archives put everything in one
  // folder.
  bool has(const std::string& name) const { return records_.contains(name); }
  // Throws ExportError if the record is missing, compressed, encrypted or truncated.
  std::span<const std::byte> bytes(const std::string& name) const;
  template <class Visit>
  void for_each_name(const Visit& visit) const {
    for (const auto& [name, record] : records_) visit(name);
  }

 private:
  struct Record {
    size_t header;  // offset of its local header
    size_t size;
    bool stored;
  };

  std::span<const std::byte> memory_;
  std::unordered_map<std::string, Record> records_;
};

}  // namespace onnx_native::readers::pt2
