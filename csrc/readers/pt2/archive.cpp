#include "readers/pt2/archive.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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
    if (size == 0) fail(ErrorKind::invalid_program, path, " is empty or not a file");
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

Archive::Archive(const std::string& path)
    : path_(path),
      mapping_(std::make_shared<Mapping>(path)),
      records_({mapping_->data, mapping_->size}) {}

std::string_view Archive::text(const std::string& record) const {
  const auto memory = bytes(record);
  return {reinterpret_cast<const char*>(memory.data()), memory.size()};
}

std::shared_ptr<const void> Archive::owner() const { return mapping_; }

}  // namespace onnx_native::readers::pt2
