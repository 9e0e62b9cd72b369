// The services that a recording needs from the language that runs the program.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/SymNodeImpl.h>

#include "base/error.h"

namespace onnx_native::capture {

class Host {
 public:
  virtual ~Host() = default;
  // Returns the user's source line and the modules around the current call.
  virtual Location location() = 0;
  // PyTorch makes tensors of numbers. Returns the symbolic number behind such a tensor; None if the
  // number is not symbolic.
  virtual c10::IValue symbol_behind(const at::Tensor& wrapped_number) = 0;
  // Returns false without Python: PyTorch has most of its meta kernels in Python.
  virtual bool has_meta_kernels() const { return true; }
  // Returns the recording's node behind the node of a float or bool.
  virtual c10::SymNode unwrapped(const c10::SymNode& node) { return node; }
  // Returns true if the current frame is code of the program, false if it is code of PyTorch.
  virtual bool is_in_program() { return true; }
};

}  // namespace onnx_native::capture
