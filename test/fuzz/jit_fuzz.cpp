// Fuzzes the export of torch.jit.save files, from their bytes to a serialized model. The mutator
// unpacks the archive and mutates mostly the program's source, sometimes pickles or raw bytes.
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
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "api/file.h"
#include "base/error.h"
#include "fuzz/archive.h"
#include "fuzz/export.h"
#include "fuzz/source.h"
#include "readers/pt2/archive.h"

namespace onnx_native::fuzz {
namespace {

// The archive record in which a seed lists its input specs, one per line.
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

long peak_memory(int of) {  // in KiB
  rusage used = {};
  getrusage(of, &used);
  return used.ru_maxrss;
}

// Returns true if torch::jit::load, which is not under test, terminates normally on this file. Runs
// it in a child process, for at most 20 seconds. Growing by 1 GiB counts as a crash: a corrupt
// pickle can declare a string of any length.
bool torch_loads(const std::string& path) {
  const long most_memory = peak_memory(RUSAGE_SELF) + (1 << 20);
  const pid_t child = fork();
  if (child == 0) {
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM})
      ::signal(signal, SIG_DFL);
    alarm(20);
    try {
      torch::jit::load(path);
    } catch (const std::exception&) {  // read_file reports it
    }
    _exit(peak_memory(RUSAGE_SELF) < most_memory ? 0 : 1);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
  std::fprintf(stderr, "torch::jit::load crashes, with status %d\n", status);
  return false;
}

// Replaces a size of an input, in "x:float32[batch,4]".
void change_size(std::string& text, Random& random) {
  static constexpr const char* kSizes[] = {
      "0", "1", "-1", "n", "2,3", "1099511627776", "4611686018427387904"};
  std::vector<size_t> places;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[' || text[i] == ',') places.push_back(i + 1);
  }
  if (places.empty()) return;
  const size_t begin = places[random() % places.size()];
  const size_t end = std::min(text.find_first_of(",]", begin), text.size());
  text.replace(begin, end - begin, kSizes[random() % std::size(kSizes)]);
}

void mutate_record(Record& record, Random& random) {
  if (record.name == kInputs && random() % 2 == 0) return change_size(record.content, random);
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
  if (!torch_loads(file.path())) return 0;
  export_all(
      [&] { return onnx_native::read_file(file.path(), {.inputs = inputs_of(file.path())}); });
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  using namespace onnx_native::fuzz;  // NOLINT(google-build-using-namespace)
  return mutate_archive(data, size, most, seed, {.chances = chances, .mutate = mutate_record});
}
