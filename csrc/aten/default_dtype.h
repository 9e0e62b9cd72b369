// The floating dtype that programs mean where they name none.
#pragma once

#include "base/dtype.h"

namespace onnx_native::aten {

// That of the innermost DefaultDType scope of this thread; without one, torch's own
// (torch.set_default_dtype).
DType default_dtype();

// Sets the default dtype of this thread while it lives.
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
