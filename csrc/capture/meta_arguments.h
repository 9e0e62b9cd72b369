// The arguments with which PyTorch's meta kernels compute the types of a call's results.
#pragma once

#include "capture/call.h"

namespace onnx_native::capture {

// Returns the argument with meta tensors in place of tensors, and numbers in place of symbols:
// those of the example, or others that stand for them. `small_data` makes it 0 for an integer that
// depends on data.
c10::IValue meta_argument(const Call& call, const c10::IValue& value, const aten::SchemaType& type,
                          bool small_data = false);
torch::jit::Stack meta_arguments(const Call& call, bool small_data = false);

}  // namespace onnx_native::capture
