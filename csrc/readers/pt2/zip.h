// The directory of a zip file, for records that lie in it as they are.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <unordered_map>

namespace onnx_native::readers::pt2 {

// Where the records of a zip file are, zip64 included. The memory must outlive it.
class Zip {
 public:
  // Throws ExportError(invalid_program): no zip file, one that ends too early, two records of one
  // name.
  explicit Zip(std::span<const std::byte> memory);

  // By name within the folder that the first record is in, as torch's archives have one around
  // everything.
  bool has(const std::string& name) const { return records_.contains(name); }
  // Throws ExportError where there is none, it is compressed or encrypted, or the file ends before
  // it does.
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
