// Unpacks, mutates and repacks archives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/choices.h"

namespace onnx_native::fuzz {

// An anonymous file in memory that has a path. Aborts when it cannot be created.
class MemoryFile {
 public:
  explicit MemoryFile(std::span<const uint8_t> content);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

struct Record {
  std::string name;
  std::string content;
};

// Returns the records of an archive, except those that pack() adds itself. Throws c10::Error when
// torch's reader rejects the archive.
std::vector<Record> unpack(std::span<const uint8_t> bytes);
// Returns the bytes of an archive with these records.
std::string pack(const std::vector<Record>& records);

// Applies libFuzzer's default mutation; the text grows by at most `most` bytes.
void mutate_bytes(std::string& text, size_t most);

// A target's mutation of archives: the relative probability of each record, and its mutation.
struct ArchiveMutator {
  std::function<size_t(std::string_view name)> chances;
  std::function<void(Record& record, Random& random)> mutate;
};
// Implements LLVMFuzzerCustomMutator. Mutates one record in nine of ten calls, the raw bytes in the
// others and when `data` is not an archive or the result exceeds `most` bytes. Returns the new
// size.
size_t mutate_archive(uint8_t* data, size_t size, size_t most, unsigned seed,
                      const ArchiveMutator& mutator);

}  // namespace onnx_native::fuzz
