#include "readers/pt2/archive.h"

#include <c10/util/Exception.h>
#include <caffe2/serialize/inline_container.h>
#include <caffe2/serialize/read_adapter_interface.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace onnx_native::readers::pt2 {

struct Archive::Mapping {
  explicit Mapping(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) fail(ErrorKind::io, "cannot open ", path, ": ", std::strerror(errno));
    struct stat status {};
    const bool regular = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
    size = regular ? static_cast<size_t>(status.st_size) : 0;
    void* memory = size == 0 ? MAP_FAILED : mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    const int problem = errno;
    close(file);
    if (size == 0) fail(ErrorKind::invalid_program, path, " is empty, or no file");
    if (memory == MAP_FAILED)
      fail(ErrorKind::io, "cannot map ", path, ": ", std::strerror(problem));
    data = static_cast<const std::byte*>(memory);
  }
  ~Mapping() { munmap(const_cast<std::byte*>(data), size); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  const std::byte* data = nullptr;
  size_t size = 0;
};

namespace {

class MemoryAdapter : public caffe2::serialize::ReadAdapterInterface {
 public:
  explicit MemoryAdapter(std::span<const std::byte> memory) : memory_(memory) {}
  size_t size() const override { return memory_.size(); }
  size_t read(uint64_t position, void* to, size_t count, const char* /*what*/) const override {
    if (position >= memory_.size()) return 0;
    count = std::min(count, memory_.size() - static_cast<size_t>(position));
    std::memcpy(to, memory_.data() + position, count);
    return count;
  }

 private:
  std::span<const std::byte> memory_;
};

// Runs what may throw torch's exceptions.
template <class Action>
auto guarded(const std::string& path, const Action& action) {
  try {
    return action();
  } catch (const c10::Error& error) {
    fail(ErrorKind::invalid_program, path,
         " is not a readable .pt2 archive: ", error.what_without_backtrace());
  }
}

}  // namespace

struct Archive::Reader {
  explicit Reader(std::span<const std::byte> memory)
      : records(std::make_shared<MemoryAdapter>(memory)) {}
  caffe2::serialize::PyTorchStreamReader records;
};

Archive::Archive(const std::string& path)
    : path_(path), mapping_(std::make_shared<Mapping>(path)), reader_(guarded(path, [&] {
        return std::make_unique<Reader>(std::span(mapping_->data, mapping_->size));
      })) {}

Archive::~Archive() = default;

bool Archive::has(const std::string& record) const {
  return guarded(path_, [&] { return reader_->records.hasRecord(record); });
}

std::span<const std::byte> Archive::bytes(const std::string& record) const {
  if (!has(record)) fail(ErrorKind::invalid_program, path_, " has no record ", record);
  const auto [offset, size] = guarded(path_, [&] {
    return std::pair(reader_->records.getRecordOffset(record),
                     reader_->records.getRecordSize(record));
  });
  if (offset > mapping_->size || size > mapping_->size - offset)
    fail(ErrorKind::invalid_program, path_, " ends before its record ", record, " does");
  return {mapping_->data + offset, size};
}

std::string_view Archive::text(const std::string& record) const {
  const auto memory = bytes(record);
  return {reinterpret_cast<const char*>(memory.data()), memory.size()};
}

std::shared_ptr<const void> Archive::owner() const { return mapping_; }

}  // namespace onnx_native::readers::pt2
