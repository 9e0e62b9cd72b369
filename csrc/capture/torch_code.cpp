#include "capture/torch_code.h"

#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

namespace onnx_native::capture {
namespace {

bool is_torch_library(const Dl_info& info) {
  const std::string_view file = info.dli_fname ? info.dli_fname : "";
  return file.substr(file.rfind('/') + 1).starts_with("libtorch_cpu.");
}

// Mangled names of members of torch::nn.
bool is_in_torch_nn(const Dl_info& info) {
  const std::string_view name = info.dli_sname ? info.dli_sname : "";
  return name.starts_with("_ZN5torch2nn") || name.starts_with("_ZNK5torch2nn");
}

}  // namespace

// Inline functions have no symbols, but what calls them has: looks at the frames of PyTorch's
// library from the innermost out, until other code calls it.
bool is_torch_nn(const void* address) {
  constexpr int kDeepest = 48;
  std::array<void*, kDeepest> found;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  const int depth = ::backtrace(found.data(), kDeepest);
  std::span<void*> frames(found.data(), static_cast<size_t>(depth));
  if (address)
    frames =
        frames.subspan(static_cast<size_t>(std::ranges::find(frames, address) - frames.begin()));
  bool inside = address != nullptr;
  for (const void* frame : frames) {
    Dl_info info;
    if (!::dladdr(frame, &info)) return false;
    if (is_torch_library(info)) {
      if (is_in_torch_nn(info)) return true;
      inside = true;
    } else if (inside) {
      return false;
    }
  }
  return false;
}

}  // namespace onnx_native::capture
