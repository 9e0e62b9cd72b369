// Checks that the running PyTorch is the version that this library was built for.
#pragma once

#include <cstdint>
#include <string>

namespace onnx_native {

// Returns an empty string if PyTorch's major.minor matches, otherwise a message for the user. With
// another version the library would load and give wrong results, because interned symbols have
// other numbers there. `running` is the result of `aoti_torch_abi_version()`.
std::string torch_version_problem(uint64_t running);
// The same for the PyTorch in this process.
std::string torch_version_problem();

}  // namespace onnx_native
