#include "writer/file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/device_weight.h"
#include "base/error.h"
#include "writer/file_names.h"

namespace onnx_native::writer {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBufferSize = size_t{1} << 18;
// In bytes. Progress is reported after each write.
constexpr size_t kLargestWrite = size_t{1} << 26;

[[noreturn]] void fail_to_write(const fs::path& path, int error) {
  fail(ErrorKind::io, "cannot write ", printable(path), ": ", std::strerror(error));
}

// Returns true for a link like /proc/self/fd/1, which stands for an open file.
bool is_open_file(const fs::path& link) {
  struct statfs folder {};
  return ::statfs(link.parent_path().c_str(), &folder) == 0 && folder.f_type == PROC_SUPER_MAGIC;
}

// Returns the file that a path names through symbolic links, which need not exist yet. Links in
// /proc remain.
fs::path behind_links(fs::path path) {
  constexpr int kMostLinks = 40;
  std::error_code none;
  for (int i = 0; fs::is_symlink(fs::symlink_status(path, none)); ++i) {
    if (i == kMostLinks) fail_to_write(path, ELOOP);
    const fs::path target = fs::read_symlink(path, none);
    const fs::path next = target.is_absolute() ? target : path.parent_path() / target;
    if (is_open_file(path) && !fs::is_directory(next, none)) return path;
    path = next;
  }
  return path;
}

// Gives a new file the owner and the mode of the file that it replaces.
void give_rights(int descriptor, const struct stat& from) {
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

// Returns true for what has no folder to put a new file into: a device, a pipe, an open file.
bool must_be_written_directly(const fs::path& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (!fs::exists(status) || fs::is_directory(status)) return false;
  return !fs::is_regular_file(status) || fs::is_symlink(fs::symlink_status(path, ignored));
}

// Returns the file to write: the link itself, if the file behind it cannot have data beside it.
fs::path file_for(fs::path path, Target kind) {
  if (kind == Target::data) return path;
  fs::path behind = behind_links(path);
  std::error_code ignored;
  const bool replaces_link = kind == Target::model_with_data && behind != path &&
                             !must_be_written_directly(behind) &&
                             fs::is_directory(folder_of(behind), ignored) &&
                             !fs::equivalent(folder_of(behind), folder_of(path), ignored);
  return replaces_link ? path : behind;
}

}  // namespace

void Progress::add(int64_t bytes) {
  written += bytes;
  if (report) report(written, total);
}

void take_rights(const fs::path& file, const fs::path& from) {
  struct stat old {};
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return;
  if (::stat(from.c_str(), &old) == 0) give_rights(descriptor, old);
  ::close(descriptor);
}

bool is_direct(const fs::path& path) { return must_be_written_directly(behind_links(path)); }

OutputFile::OutputFile(fs::path target, Progress& progress, Target kind)
    : target_(file_for(std::move(target), kind)), progress_(progress) {
  const fs::path folder = folder_of(target_);
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    fail(ErrorKind::io, "cannot write ", printable(target_), ": there is no folder ",
         printable(folder), "; create it first");
  }
  if (fs::is_directory(target_, ignored)) {
    fail(ErrorKind::io, "cannot write ", printable(target_), ": it is a folder");
  }
  struct stat present {};
  const bool exists = ::stat(target_.c_str(), &present) == 0;
  if (exists && ::access(target_.c_str(), W_OK) != 0) fail_to_write(target_, errno);
  const bool replaces_link = kind == Target::model_with_data && !is_open_file(target_) &&
                             fs::is_symlink(fs::symlink_status(target_, ignored));
  is_direct_ = kind != Target::data && !replaces_link && must_be_written_directly(target_);
  if (is_direct_) {
    descriptor_ = ::open(target_.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
    if (descriptor_ < 0) fail_to_write(target_, errno);
  } else {
    open_temporary();
    if (exists) give_rights(descriptor_, present);
  }
  buffer_.reserve(kBufferSize);
}

void OutputFile::open_temporary() {
  const FileNames names(target_);
  while (true) {
    const fs::path path = target_.parent_path() / names.temporary();
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0 && errno == EEXIST) continue;
    if (descriptor < 0) fail_to_write(target_, errno);
    struct stat present {};
    const bool is_taken = ::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (is_taken || ::fstat(descriptor, &present) != 0 || present.st_nlink == 0) {
      ::close(descriptor);  // another save took it for abandoned
      continue;
    }
    descriptor_ = descriptor;
    lock_ = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    temporary_ = path;
    return;
  }
}

OutputFile::~OutputFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  if (descriptor_ >= 0) ::close(descriptor_);
  if (lock_ >= 0) ::close(lock_);
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
  stream_current(data, [this](std::span<const std::byte> piece) { write(piece); });
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
  struct stat present {};
  if (::lstat(target_.c_str(), &present) == 0 && S_ISREG(present.st_mode) && present.st_nlink > 1) {
    copy_into(temporary_, target_);
    ::unlink(temporary_.c_str());
  } else if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
    fail_to_write(target_, errno);
  }
  temporary_.clear();
}

}  // namespace onnx_native::writer
