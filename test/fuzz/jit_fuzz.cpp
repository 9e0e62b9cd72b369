// Bytes of a torch.jit.save file, to a serialized model. The mutator takes archives apart and
// changes the source text of the program; pickles and raw bytes now and then.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "api/file.h"
#include "base/error.h"
#include "fuzz/archive.h"
#include "fuzz/export.h"
#include "fuzz/source.h"
#include "readers/pt2/archive.h"

namespace onnx_native::fuzz {
namespace {

// What the seeds say of their inputs, one a line.
constexpr const char* kInputs = "extra/inputs";

std::vector<InputSpec> inputs_of(const std::string& path) {
  const readers::pt2::Archive archive(path);
  std::string_view text = archive.has(kInputs) ? archive.text(kInputs) : "x:float32[batch,4]";
  std::vector<InputSpec> inputs;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) inputs.push_back(parse_input(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return inputs;
}

enum class Loading { done, refused, crashed };

// Loads it in a process of its own. What takes much memory has crashed: pickles say how long their
// strings are.
Loading try_to_load(const std::string& path) {
  constexpr int kRefused = 2;
  constexpr long kMostMemory = 2 << 20;  // KiB
  const pid_t child = fork();
  if (child == 0) {
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM})
      ::signal(signal, SIG_DFL);
    alarm(20);
    try {
      torch::jit::load(path);
    } catch (const std::exception&) {
      _exit(kRefused);
    }
    _exit(0);
  }
  int status = 0;
  rusage used = {};
  while (wait4(child, &status, 0, &used) < 0 && errno == EINTR) continue;
  if (WIFEXITED(status) && used.ru_maxrss < kMostMemory) {
    if (WEXITSTATUS(status) == 0) return Loading::done;
    if (WEXITSTATUS(status) == kRefused) return Loading::refused;
  }
  std::fprintf(stderr, "torch::jit::load crashes, with status %d\n", status);
  return Loading::crashed;
}

// Whether torch's own loader, which is not ours to fuzz, comes to an end with this file. What it
// crashes on are the other records than source text; those that it has loaded or crashed on are not
// tried again. A file that it refuses may have been so for its source text.
bool torch_loads(std::span<const uint8_t> bytes, const std::string& path) {
  static std::unordered_map<size_t, bool> known;
  std::string content;
  try {
    for (const Record& record : unpack(bytes)) {
      if (!record.name.ends_with(".py")) content += record.name + '\0' + record.content + '\0';
    }
  } catch (const std::exception&) {
    content.assign(bytes.begin(), bytes.end());
  }
  const size_t key = std::hash<std::string>()(content);
  if (const auto found = known.find(key); found != known.end()) return found->second;
  const Loading loading = try_to_load(path);
  if (loading != Loading::refused) known.emplace(key, loading == Loading::done);
  return loading != Loading::crashed;
}

void mutate_record(Record& record, Random& random) {
  if (record.name.ends_with(".py") && random() % 32 != 0)
    return mutate_source(record.content, random);
  mutate_bytes(record.content, 64);
}

size_t chances(std::string_view name) {
  return name.ends_with(".py") ? 60 : name == kInputs ? 2 : name.ends_with(".pkl") ? 1 : 0;
}

}  // namespace
}  // namespace onnx_native::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace onnx_native::fuzz;  // NOLINT(google-build-using-namespace)
  const MemoryFile file({data, size});
  if (!torch_loads({data, size}, file.path())) return 0;
  export_all(
      [&] { return onnx_native::read_file(file.path(), {.inputs = inputs_of(file.path())}); });
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  using namespace onnx_native::fuzz;  // NOLINT(google-build-using-namespace)
  return mutate_archive(data, size, most, seed, {.chances = chances, .mutate = mutate_record});
}
