#include "api/torch_version.h"

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/headeronly/version.h>

#include "api/entry.h"
#include "onnx_native/version.h"

namespace onnx_native {

std::string torch_version_problem(uint64_t running) {
  if (running >> 48 == TORCH_ABI_VERSION >> 48) return {};
  return concat("onnx_native ", ONNX_NATIVE_VERSION, " was built for PyTorch ",
                ONNX_NATIVE_TORCH_VERSION, " but PyTorch ", running >> 56, ".",
                running >> 48 & 0xff,
                " is running; install an onnx_native that was built for it, or build it: "
                "pip install . in its sources takes the PyTorch that is installed");
}

std::string torch_version_problem() { return torch_version_problem(aoti_torch_abi_version()); }

void check_torch_version() {
  static const std::string problem = torch_version_problem();
  if (!problem.empty()) fail(ErrorKind::unsupported, problem);
}

std::string_view version() { return ONNX_NATIVE_VERSION; }
std::string_view torch_version() { return ONNX_NATIVE_TORCH_VERSION; }

}  // namespace onnx_native
