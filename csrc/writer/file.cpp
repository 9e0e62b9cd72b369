#include "writer/file.h"

#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
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

// Returns the file that a path names through symbolic links, which need not exist yet.
fs::path behind_links(fs::path path) {
  constexpr int kMostLinks = 40;
  std::error_code none;
  for (int i = 0; fs::is_symlink(fs::symlink_status(path, none)); ++i) {
    if (i == kMostLinks) fail_to_write(path, ELOOP);
    const fs::path target = fs::read_symlink(path, none);
    path = target.is_absolute() ? target : path.parent_path() / target;
  }
  return path;
}

// Gives a new file the owner and the mode of the file that it replaces.
void take_rights(int descriptor, const struct stat& from) {
  // Only root may change the owner; without the owner's rights, the special bits are wrong.
  const bool same_owner = ::fchown(descriptor, from.st_uid, from.st_gid) == 0;
  ::fchmod(descriptor, from.st_mode & (same_owner ? 07777U : 0777U));
}

// Copies a file over another one, which keeps its hard links. Takes the disk space first, so that
// the copy does not end halfway.
void copy_into(const fs::path& from, const fs::path& to) {
  const int source = ::open(from.c_str(), O_RDONLY | O_CLOEXEC);
  const int target = ::open(to.c_str(), O_WRONLY | O_CLOEXEC);
  const auto finish = [&](int error) {
    if (source >= 0) ::close(source);
    if (target >= 0 && ::close(target) != 0 && error == 0) error = errno;
    if (error != 0) fail_to_write(to, error);
  };
  struct stat old {
  }, wanted{};
  if (source < 0 || target < 0 || ::fstat(source, &wanted) != 0 || ::fstat(target, &old) != 0)
    return finish(errno);
  if (wanted.st_size > old.st_size) {
    const int error = ::posix_fallocate(target, 0, wanted.st_size);
    if (error != 0 && error != EOPNOTSUPP && error != EINVAL) {
      if (::ftruncate(target, old.st_size) != 0) return finish(errno);
      return finish(error);
    }
  }
  for (off_t done = 0; done < wanted.st_size;) {
    const ssize_t copied = ::sendfile(target, source, nullptr, kLargestWrite);
    if (copied < 0 && errno == EINTR) continue;
    if (copied <= 0) return finish(copied < 0 ? errno : EIO);
    done += copied;
  }
  finish(::ftruncate(target, wanted.st_size) != 0 ? errno : 0);
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
    : target_(behind_links(std::move(target))), progress_(progress) {
  const fs::path folder = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    fail(ErrorKind::io, "cannot write ", target_.string(), ": there is no folder ", folder.string(),
         "; create it first");
  }
  if (fs::is_directory(target_, ignored)) {
    fail(ErrorKind::io, "cannot write ", target_.string(), ": it is a folder");
  }
  struct stat present {};
  const bool exists = ::stat(target_.c_str(), &present) == 0;
  if (exists && ::access(target_.c_str(), W_OK) != 0) fail_to_write(target_, errno);
  has_links_ = exists && S_ISREG(present.st_mode) && present.st_nlink > 1;
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
  if (exists && !temporary_.empty()) take_rights(descriptor_, present);
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
  if (has_links_) {
    copy_into(temporary_, target_);
    ::unlink(temporary_.c_str());
  } else if (::rename(temporary_.c_str(), target_.c_str()) != 0)
    fail_to_write(target_, errno);
  temporary_.clear();
}

namespace {

// The present contents of a file that is about to be replaced.
class Backup {
 public:
  explicit Backup(const OutputFile& file) : file_(file), old_(unused_name(file.target(), "old")) {
    if (file.has_links()) {  // the file itself is overwritten
      std::error_code error;
      if (!fs::copy_file(file.target(), old_, error))
        fail_to_write(file.target(), error ? error.value() : EIO);
    } else if (::link(file.target().c_str(), old_.c_str()) != 0) {
      old_.clear();  // there is no file yet
    }
  }
  Backup(const Backup&) = delete;
  Backup& operator=(const Backup&) = delete;
  ~Backup() {
    if (!old_.empty()) ::unlink(old_.c_str());
  }

  void restore() {
    if (old_.empty()) {
      ::unlink(file_.target().c_str());
    } else if (file_.has_links()) {
      copy_into(old_, file_.target());
    } else if (::rename(old_.c_str(), file_.target().c_str()) == 0) {
      old_.clear();
    }
  }

 private:
  const OutputFile& file_;
  fs::path old_;
};

}  // namespace

void rename_together(std::span<OutputFile* const> files) {
  std::deque<Backup> replaced;
  for (OutputFile* file : files.first(files.size() - 1)) replaced.emplace_back(*file);
  size_t done = 0;
  try {
    for (OutputFile* file : files) {
      file->rename();
      ++done;
    }
  } catch (...) {
    for (size_t i = 0; i < std::min(done, replaced.size()); ++i) replaced[i].restore();
    throw;
  }
}

}  // namespace onnx_native::writer
