// Tells the code of torch::nn from the user's.
#pragma once

namespace onnx_native::capture {

// Returns true if `address` is in code of torch::nn in PyTorch's library. If it is nullptr, returns
// true if such code made the operator call that is in progress. Returns false if that is not known.
bool is_torch_nn(const void* address = nullptr);

}  // namespace onnx_native::capture
