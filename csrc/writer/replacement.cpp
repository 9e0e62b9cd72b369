#include "writer/replacement.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <deque>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "onnx/onnx_onnx_native_pb-ml.pb.h"
#include "writer/file_names.h"

namespace onnx_native::writer {
namespace {

namespace fs = std::filesystem;
namespace pb = ::onnx_native_pb;

constexpr auto kPatience = std::chrono::minutes(2);

// Keeps other saves to the same path away, also those of other threads and processes. The lock file
// exists only meanwhile. A file system without locks is used without.
class PathLock {
 public:
  explicit PathLock(const fs::path& model) : file_(folder_of(model) / FileNames(model).lock()) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!try_lock()) {
      if (std::chrono::steady_clock::now() > end) {
        fail(ErrorKind::io, "cannot write ", printable(model),
             ": another process is saving to this path; if there is none, remove ",
             printable(file_));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  PathLock(const PathLock&) = delete;
  PathLock& operator=(const PathLock&) = delete;
  ~PathLock() {
    if (descriptor_ < 0) return;
    ::unlink(file_.c_str());
    ::flock(descriptor_, LOCK_UN);  // a forked process may have the descriptor as well
    ::close(descriptor_);
  }

 private:
  // Returns true when there is no need to try again.
  bool try_lock() {
    int descriptor = ::open(file_.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0 && errno == ENOENT)
      descriptor = ::open(file_.c_str(), O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (descriptor < 0) return errno != EEXIST && errno != EACCES && errno != ENOENT;
    if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
      const bool is_taken = errno == EWOULDBLOCK || errno == EINTR;
      if (!is_taken) ::unlink(file_.c_str());
      ::close(descriptor);
      return !is_taken;
    }
    struct stat locked {
    }, present{};
    if (::fstat(descriptor, &locked) != 0 || ::stat(file_.c_str(), &present) != 0 ||
        locked.st_ino != present.st_ino || locked.st_dev != present.st_dev) {
      ::close(descriptor);  // the last save removed the file meanwhile
      return false;
    }
    descriptor_ = descriptor;
    return true;
  }

  fs::path file_;
  int descriptor_ = -1;
};

// Adds the data files that a part of a model refers to.
using Locations = std::set<std::string>;

void add_locations(const pb::TensorProto& tensor, Locations& to) {
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") to.insert(entry.value());
  }
}

template <class Nodes>
void add_locations_of_nodes(const Nodes& nodes, Locations& to);

void add_locations(const pb::GraphProto& graph, Locations& to) {
  for (const pb::TensorProto& weight : graph.initializer()) add_locations(weight, to);
  add_locations_of_nodes(graph.node(), to);
}

template <class Nodes>
void add_locations_of_nodes(const Nodes& nodes, Locations& to) {
  for (const pb::NodeProto& node : nodes) {
    for (const pb::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) add_locations(attribute.g(), to);
      if (attribute.has_t()) add_locations(attribute.t(), to);
    }
  }
}

std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator each(folder, error), end; !error && each != end;
       each.increment(error))
    names.push_back(each->path().filename().string());
  return names;
}

// Removes a temporary file or folder unless its writer, who has locked it, still runs. Writers look
// whether it is still there once they have the lock.
void remove_unlocked(const fs::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return;
  std::error_code ignored;
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) fs::remove_all(file, ignored);
  ::close(descriptor);
}

// Removes temporary files and folders of saves that were killed.
void remove_abandoned(const fs::path& model) {
  const FileNames names(model);
  for (const std::string& name : files_in(folder_of(model))) {
    const fs::path file = folder_of(model) / name;
    const int process = names.process_of_temporary(name);
    if (names.is_temporary(name)) remove_unlocked(file);
    if (process > 0 && ::kill(process, 0) != 0 && errno == ESRCH) ::unlink(file.c_str());
  }
}

bool is_regular(const fs::path& file) {
  std::error_code ignored;
  return fs::is_regular_file(fs::symlink_status(file, ignored));
}

bool have_same_bytes(const fs::path& a, const fs::path& b) {
  std::error_code error;
  if (fs::file_size(a, error) != fs::file_size(b, error) || error) return false;
  std::ifstream first(a, std::ios::binary), second(b, std::ios::binary);
  std::vector<char> x(size_t{1} << 20), y(x.size());
  while (first && second) {
    first.read(x.data(), static_cast<std::streamsize>(x.size()));
    second.read(y.data(), static_cast<std::streamsize>(y.size()));
    if (first.gcount() != second.gcount() ||
        std::memcmp(x.data(), y.data(), static_cast<size_t>(first.gcount())) != 0)
      return false;
  }
  return first.eof() && second.eof();
}

// Adds the data files that the model at a path refers to; does nothing if there is none.
void add_locations_of_file(const fs::path& model, Locations& to) {
  std::error_code ignored;
  std::ifstream file(model, std::ios::binary);
  pb::ModelProto present;
  if (!fs::is_regular_file(model, ignored) || !present.ParseFromIstream(&file)) return;
  add_locations(present.graph(), to);
  for (const auto& function : present.functions()) add_locations_of_nodes(function.node(), to);
}

// The data files of `owner` that saves made, beside the models that refer to them.
class DataFiles {
 public:
  DataFiles(const fs::path& owner, std::span<const fs::path> models)
      : names_(owner), folder_(folder_of(owner)) {
    std::vector<std::string> usual;
    for (const std::string& name : files_in(folder_)) {
      if (names_.is_digested_data(name) && is_regular(folder_ / name)) left_.push_back(name);
      if (names_.is_usual_data(name)) usual.push_back(name);
    }
    if (left_.empty() && usual.empty()) return;
    Locations locations;
    for (const fs::path& model : models) add_locations_of_file(model, locations);
    std::error_code ignored;
    for (const std::string& name : locations) {
      const bool is_ours = names_.is_usual_data(name) || names_.is_digested_data(name);
      if (is_ours && fs::exists(fs::symlink_status(folder_ / name, ignored))) used_.push_back(name);
    }
    // A save that left a usual name was killed before it removed that file.
    if (used_.empty()) return;
    for (const std::string& name : usual) {
      if (!is_used(name) && is_regular(folder_ / name)) left_.push_back(name);
    }
  }

  // Returns the name for new data: one that no present model gives to other contents.
  std::string name_for(const fs::path& data, Shard shard) const {
    if (used_.empty()) return names_.data(shard);
    for (const std::string& name : used_) {
      if (have_same_bytes(folder_ / name, data)) return name;
    }
    return names_.data(shard, digest_of(data));
  }
  bool is_used(const std::string& name) const { return std::ranges::count(used_, name) > 0; }
  // The file that new data replaces; empty if there is none.
  fs::path replaced() const {
    if (!used_.empty()) return folder_ / used_.front();
    return is_regular(folder_ / names_.data()) ? folder_ / names_.data() : fs::path();
  }
  fs::path path_of(const std::string& name) const { return folder_ / name; }
  fs::path unused_path() const { return folder_ / names_.temporary(); }

  // Removes what the old model used, and what killed saves left, when the new model is in place.
  void remove_all_but(std::span<const std::string> kept) const {
    for (const auto& names : {used_, left_}) {
      for (const std::string& name : names) {
        if (std::ranges::count(kept, name) == 0) ::unlink((folder_ / name).c_str());
      }
    }
  }

 private:
  FileNames names_;
  fs::path folder_;
  std::vector<std::string> used_;  // those that the present models refer to
  std::vector<std::string> left_;  // all with a digest in their names, and others of killed saves
};

// A data file at its final name. Unless it is kept, the destructor restores what was there.
class PlacedData {
 public:
  PlacedData(const fs::path& written, fs::path name, bool is_used, fs::path aside)
      : name_(std::move(name)), has_same_bytes_(is_used) {
    if (!is_used && ::rename(name_.c_str(), aside.c_str()) == 0) aside_ = std::move(aside);
    if (::rename(written.c_str(), name_.c_str()) == 0) return;
    const int error = errno;
    if (!aside_.empty()) ::rename(aside_.c_str(), name_.c_str());
    fail(ErrorKind::io, "cannot write ", printable(name_), ": ", std::strerror(error));
  }
  PlacedData(const PlacedData&) = delete;
  PlacedData& operator=(const PlacedData&) = delete;
  ~PlacedData() {
    if (is_kept_) {
      if (!aside_.empty()) ::unlink(aside_.c_str());
    } else if (!aside_.empty()) {
      ::rename(aside_.c_str(), name_.c_str());
    } else if (!has_same_bytes_) {
      ::unlink(name_.c_str());
    }
  }
  void keep() { is_kept_ = true; }

 private:
  fs::path name_;
  fs::path aside_;  // what had the name before; empty if nothing had
  bool has_same_bytes_;
  bool is_kept_ = false;
};

// Locks the paths of models, in one order for all saves, and removes what killed saves left there.
class PathLocks {
 public:
  PathLocks(std::span<const NewModel> models, const fs::path& owner) {
    std::set<fs::path> paths{owner}, targets;
    for (const NewModel& model : models) {
      paths.insert(model.path);
      targets.insert(model.file->target());
    }
    if (models.size() > 1) targets.insert(owner);
    for (const fs::path& target : targets) locks_.emplace_back(target);
    paths.merge(targets);
    std::ranges::for_each(paths, remove_abandoned);
  }

 private:
  std::deque<PathLock> locks_;
};

}  // namespace

void put_in_place(std::span<const NewModel> models, const fs::path& owner,
                  std::span<const fs::path> data, const WriteModels& write_models) {
  if (models.size() == 1 && models[0].file->is_direct()) {
    write_models({});
    return;
  }
  const PathLocks locks(models, owner);
  std::vector<fs::path> paths;
  for (const NewModel& model : models) paths.push_back(model.path);
  const DataFiles present(owner, paths);
  std::vector<DataFiles> others;  // of models that each had a data file of their own
  for (const fs::path& path : paths) {
    if (path != owner) others.emplace_back(path, std::span(&path, 1));
  }
  std::vector<std::string> names;
  for (const fs::path& file : data) {
    names.push_back(present.name_for(file, {names.size(), data.size()}));
    const fs::path path = present.path_of(names.back());
    std::error_code ignored;
    if (fs::is_directory(path, ignored))
      fail(ErrorKind::io, "cannot write ", printable(path), ": it is a folder");
  }
  write_models(names);
  const fs::path old = present.replaced();
  std::deque<PlacedData> placed;
  for (size_t i = 0; i < data.size(); ++i) {
    if (!old.empty()) take_rights(data[i], old);
    placed.emplace_back(data[i], present.path_of(names[i]), present.is_used(names[i]),
                        present.unused_path());
  }
  for (const NewModel& model : models) {
    model.file->rename();
    for (PlacedData& each : placed) each.keep();
  }
  present.remove_all_but(names);
  for (const DataFiles& each : others) each.remove_all_but({});
}

}  // namespace onnx_native::writer
