// Archives taken apart, changed and put together again.
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

// A file that is nowhere but in memory.
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

// The records but for those that `pack` adds by itself. Throws c10::Error where torch's own reader
// does.
std::vector<Record> unpack(std::span<const uint8_t> bytes);
std::string pack(const std::vector<Record>& records);

// libFuzzer's own mutation, of at most `most` bytes more.
void mutate_bytes(std::string& text, size_t most);

// What a target mutates archives by: how likely a record is chosen, and what becomes of it.
struct ArchiveMutator {
  std::function<size_t(std::string_view name)> chances;
  std::function<void(Record& record, Random& random)> mutate;
};
// LLVMFuzzerCustomMutator: one record in nine of ten calls, the raw bytes in the others.
size_t mutate_archive(uint8_t* data, size_t size, size_t most, unsigned seed,
                      const ArchiveMutator& mutator);

}  // namespace onnx_native::fuzz
