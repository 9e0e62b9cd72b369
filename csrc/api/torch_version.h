// Whether the PyTorch in this process is the one that this library was built for.
#pragma once

#include <cstdint>
#include <string>

namespace onnx_native {

// Empty when PyTorch's major.minor is ours; else what to tell the user. A library built for another
// version would load and give wrong results: interned symbols have other numbers there. Takes what
// `aoti_torch_abi_version()` returned.
std::string torch_version_problem(uint64_t running);
// The same, for the PyTorch in this process.
std::string torch_version_problem();

}  // namespace onnx_native
