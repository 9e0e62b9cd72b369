// The default floating-point dtype.
#pragma once

#include "base/dtype.h"

namespace onnx_native::aten {

// Returns the dtype of this thread's innermost DefaultDType scope; without one, torch's own default
// (torch.set_default_dtype).
DType default_dtype();

// Sets the default dtype of this thread while in scope.
class DefaultDType {
 public:
  explicit DefaultDType(DType dtype);
  ~DefaultDType();
  DefaultDType(const DefaultDType&) = delete;
  DefaultDType& operator=(const DefaultDType&) = delete;

 private:
  DType outer_;
};

}  // namespace onnx_native::aten
