// Follows APPNOTE.TXT, the zip file format specification, sections 4.3 and 4.5.3.
#include "readers/pt2/zip.h"

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace onnx_native::readers::pt2 {
namespace {

constexpr size_t kEndSize = 22;
constexpr size_t kEnd64Size = 56;
constexpr size_t kLocatorSize = 20;
constexpr size_t kEntrySize = 46;
constexpr size_t kHeaderSize = 30;
constexpr size_t kLongestComment = 0xffff;
constexpr uint32_t kIn64 = 0xffffffff;  // the value is in the zip64 extra field

template <class... Parts>
[[noreturn]] void bad(const Parts&... parts) {
  fail(ErrorKind::invalid_program, "the archive ", parts...);
}

// Bounds-checked reads at byte offsets.
class Bytes {
 public:
  explicit Bytes(std::span<const std::byte> bytes) : bytes_(bytes) {}

  size_t size() const { return bytes_.size(); }
  std::span<const std::byte> part(uint64_t offset, uint64_t size) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset) bad("is truncated");
    return bytes_.subspan(offset, size);
  }
  // Reads a little-endian number of 2, 4 or 8 bytes.
  template <class Number>
  Number number(uint64_t offset) const {
    uint64_t value = 0;
    size_t shift = 0;
    for (const std::byte byte : part(offset, sizeof(Number))) {
      value |= std::to_integer<uint64_t>(byte) << shift;
      shift += 8;
    }
    return static_cast<Number>(value);
  }
  uint16_t u16(uint64_t offset) const { return number<uint16_t>(offset); }
  uint32_t u32(uint64_t offset) const { return number<uint32_t>(offset); }
  uint64_t u64(uint64_t offset) const { return number<uint64_t>(offset); }
  std::string_view text(uint64_t offset, uint64_t size) const {
    const auto memory = part(offset, size);
    return {reinterpret_cast<const char*>(memory.data()), memory.size()};
  }

 private:
  std::span<const std::byte> bytes_;
};

struct Directory {
  uint64_t entries;
  uint64_t offset;
};

// Returns the offset of the end record, which only a comment can follow.
size_t find_end(const Bytes& file) {
  for (size_t comment = 0; comment <= kLongestComment; ++comment) {
    if (file.size() < kEndSize + comment) break;
    const size_t at = file.size() - kEndSize - comment;
    if (file.u32(at) == 0x06054b50 && file.u16(at + 20) == comment) return at;
  }
  bad("is not a zip file, or it is truncated");
}

Directory find_directory(const Bytes& file) {
  const size_t end = find_end(file);
  const Directory directory{.entries = file.u16(end + 10), .offset = file.u32(end + 16)};
  if (end < kLocatorSize || file.u32(end - kLocatorSize) != 0x07064b50) return directory;
  const uint64_t end64 = file.u64(end - kLocatorSize + 8);
  file.part(end64, kEnd64Size);
  if (file.u32(end64) != 0x06064b50) bad("has a damaged directory");
  return {.entries = file.u64(end64 + 32), .offset = file.u64(end64 + 48)};
}

// The zip64 extra field of an entry: the numbers that exceed 32 bits, in order.
class Large {
 public:
  Large(const Bytes& file, uint64_t begin, uint64_t end) {
    while (begin + 4 <= end) {
      const uint64_t size = file.u16(begin + 2);
      if (file.u16(begin) == 1) {
        extra_ = Bytes(file.part(begin + 4, size));
        return;
      }
      begin += 4 + size;
    }
  }
  uint64_t or_next(uint32_t number) {
    if (number != kIn64 || !extra_) return number;
    const uint64_t value = extra_->u64(at_);
    at_ += 8;
    return value;
  }

 private:
  std::optional<Bytes> extra_;
  uint64_t at_ = 0;
};

}  // namespace

Zip::Zip(std::span<const std::byte> memory) : memory_(memory) {
  const Bytes file(memory);
  const Directory directory = find_directory(file);
  std::string folder;
  uint64_t at = directory.offset;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    file.part(at, kEntrySize);
    if (file.u32(at) != 0x02014b50) bad("has a damaged directory");
    const uint16_t flags = file.u16(at + 8), method = file.u16(at + 10);
    const uint64_t name_size = file.u16(at + 28), extra_size = file.u16(at + 30);
    const std::string_view name = file.text(at + kEntrySize, name_size);
    const uint64_t extra = at + kEntrySize + name_size;
    Large large(file, extra, extra + extra_size);
    const uint64_t size = large.or_next(file.u32(at + 24));
    const uint64_t stored_size = large.or_next(file.u32(at + 20));
    const uint64_t header = large.or_next(file.u32(at + 42));
    if (i == 0) folder = name.substr(0, name.find('/') + 1);
    const bool is_stored = method == 0 && (flags & 1) == 0 && stored_size == size;
    if (name.starts_with(folder)) {
      const auto [record, inserted] =
          records_.try_emplace(std::string(name.substr(folder.size())),
                               Record{.header = header, .size = size, .stored = is_stored});
      if (!inserted) bad("has two records ", name);
    }
    at = extra + extra_size + file.u16(at + 32);
  }
}

std::span<const std::byte> Zip::bytes(const std::string& name) const {
  const auto found = records_.find(name);
  if (found == records_.end()) bad("has no record ", name);
  const Record& record = found->second;
  if (!record.stored)
    fail(ErrorKind::unsupported, "the archive's record ", name,
         " is compressed or encrypted; load the archive with torch.export.load and save it again");
  const Bytes file(memory_);
  file.part(record.header, kHeaderSize);
  if (file.u32(record.header) != 0x04034b50) bad("has a damaged record ", name);
  const uint64_t begin =
      record.header + kHeaderSize + file.u16(record.header + 26) + file.u16(record.header + 28);
  return file.part(begin, record.size);
}

}  // namespace onnx_native::readers::pt2
