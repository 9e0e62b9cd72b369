#include "onnx_native/check.h"

#include <dlfcn.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "api/entry.h"
#include "api/program_contents.h"
#include "writer/writer.h"

namespace onnx_native {
namespace {

namespace fs = std::filesystem;

// In bytes. Smaller constants stay in the checked model, because shape inference reads some of
// them.
constexpr int64_t kInlineBelow = 1 << 16;

using CheckFile = const char* (*)(const char* path);

// Loads the checker, which is next to this library, at its first use: registering all schemas takes
// 0.1 seconds.
CheckFile checker() {
  static const CheckFile function = [] {
    void* library = dlopen("libonnx_native_check.so", RTLD_NOW | RTLD_LOCAL);
    void* symbol = library ? dlsym(library, "onnx_native_check_file") : nullptr;
    if (!symbol)
      fail(ErrorKind::unsupported,
           "cannot load onnx's checker (was this built without ONNX_NATIVE_CHECKER?): ", dlerror());
    return reinterpret_cast<CheckFile>(symbol);
  }();
  return function;
}

class TemporaryFolder {
 public:
  TemporaryFolder() : path_((fs::temp_directory_path() / "onnx_native_XXXXXX").string()) {
    if (!mkdtemp(path_.data()))
      fail(ErrorKind::io, "cannot create the folder ", path_, ": ", std::strerror(errno));
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  fs::path operator/(const char* name) const { return fs::path(path_) / name; }

 private:
  std::string path_;
};

}  // namespace

void check_file(const fs::path& path) {
  entry([&] {
    if (const char* problem = checker()(path.c_str()))
      fail(ErrorKind::invalid_program, path.string(), ": ", problem);
  });
}

void Program::check() const {
  entry([&] {
    const CheckFile check = checker();
    const TemporaryFolder folder;
    const fs::path path = folder / "model.onnx";
    writer::save_without_weights(*contents_->model, path,
                                 {.inline_below = kInlineBelow, .progress = {}});
    if (const char* problem = check(path.c_str()))
      fail(ErrorKind::internal, "onnx's checker rejects the model: ", problem);
  });
}

}  // namespace onnx_native
