#include "writer/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/weight.h"

namespace onnx_native::writer {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBufferSize = size_t{1} << 18;
// In bytes. Progress is reported after each write.
constexpr size_t kLargestWrite = size_t{1} << 26;

[[noreturn]] void fail_to_write(const fs::path& path, int error) {
  fail(ErrorKind::io, "cannot write ", path.string(), ": ", std::strerror(error));
}

// Returns a hidden name in the target's folder that this process has not used yet.
fs::path unused_name(const fs::path& target, const char* purpose) {
  static std::atomic<unsigned> count{0};
  return target.parent_path() / ("." + target.filename().string() + "." + std::to_string(getpid()) +
                                 "-" + std::to_string(count++) + "." + purpose);
}

bool is_device(const fs::path& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

}  // namespace

void Progress::add(int64_t bytes) {
  written += bytes;
  if (report) report(written, total);
}

OutputFile::OutputFile(fs::path target, Progress& progress)
    : target_(std::move(target)), progress_(progress) {
  const fs::path folder = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    fail(ErrorKind::io, "cannot write ", target_.string(), ": there is no folder ", folder.string(),
         "; create it first");
  }
  if (fs::is_directory(target_, ignored)) {
    fail(ErrorKind::io, "cannot write ", target_.string(), ": it is a folder");
  }
  if (is_device(target_)) {
    descriptor_ = ::open(target_.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    do {
      temporary_ = unused_name(target_, "tmp");
      descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (descriptor_ < 0 && errno == EEXIST);
  }
  if (descriptor_ < 0) {
    temporary_.clear();
    fail_to_write(target_, errno);
  }
  buffer_.reserve(kBufferSize);
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::write(std::span<const std::byte> bytes) {
  offset_ += static_cast<int64_t>(bytes.size());
  if (buffer_.size() + bytes.size() > kBufferSize) flush();
  if (bytes.size() >= kBufferSize) {
    write_out(bytes);
  } else {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
}

void OutputFile::write(const TensorData& data) {
  current(data).stream([this](std::span<const std::byte> piece) { write(piece); });
}

void OutputFile::pad_to(int64_t offset) {
  static constexpr std::byte kZeros[4096] = {};
  while (offset_ < offset) {
    write(std::span(kZeros).first(
        static_cast<size_t>(std::min<int64_t>(offset - offset_, sizeof(kZeros)))));
  }
}

void OutputFile::flush() {
  write_out(buffer_);
  buffer_.clear();
}

void OutputFile::write_out(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        ::write(descriptor_, bytes.data(), std::min(bytes.size(), kLargestWrite));
    if (written < 0) {
      if (errno == EINTR) continue;
      fail_to_write(target_, errno);
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
    progress_.add(written);
  }
}

void OutputFile::close() {
  flush();
  if (::close(std::exchange(descriptor_, -1)) != 0) fail_to_write(target_, errno);
}

void OutputFile::rename() {
  if (temporary_.empty()) return;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail_to_write(target_, errno);
  temporary_.clear();
}

void rename_together(std::span<OutputFile* const> files) {
  // Hard links to the replaced files, to restore them if a later rename fails.
  std::vector<std::pair<OutputFile*, fs::path>> replaced;
  const auto forget_old = [&replaced] {
    for (const auto& [file, old] : replaced) {
      if (!old.empty()) ::unlink(old.c_str());
    }
  };
  try {
    for (size_t i = 0; i < files.size(); ++i) {
      const bool last = i + 1 == files.size();
      fs::path old = last ? fs::path() : unused_name(files[i]->target(), "old");
      if (!last && ::link(files[i]->target().c_str(), old.c_str()) != 0) old.clear();
      files[i]->rename();
      if (!last) replaced.emplace_back(files[i], std::move(old));
    }
  } catch (...) {
    for (const auto& [file, old] : replaced) {
      if (old.empty()) {
        ::unlink(file->target().c_str());
      } else {
        ::rename(old.c_str(), file->target().c_str());
      }
    }
    throw;
  }
  forget_old();
}

}  // namespace onnx_native::writer
