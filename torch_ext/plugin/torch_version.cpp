#include "plugin/torch_version.h"

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/headeronly/version.h>

#include "base/error.h"

namespace onnx_native::plugin {

std::string torch_version_problem(uint64_t running) {
  if (running >> 48 == TORCH_ABI_VERSION >> 48) return {};
  return concat("onnx_native ", ONNX_NATIVE_VERSION, " was built for PyTorch ",
                ONNX_NATIVE_TORCH_VERSION, " but PyTorch ", running >> 56, ".",
                running >> 48 & 0xff,
                " is running; install the onnx_native that was built for it, or build it again "
                "(pip install --no-build-isolation .)");
}

std::string torch_version_problem() { return torch_version_problem(aoti_torch_abi_version()); }

}  // namespace onnx_native::plugin
