// Tells the code of torch::nn from the user's.
#pragma once

namespace onnx_native::capture {

// Returns true if `address`, or an operator call in progress if it is nullptr, is in code of
// torch::nn inside PyTorch's library. False where that is not known.
bool is_torch_nn(const void* address = nullptr);

}  // namespace onnx_native::capture
