// The dtype that an operator's operands promote to (torch.result_type).
#pragma once

#include "base/dtype.h"

namespace onnx_native::aten {

// Tensors with dimensions come before 0-d tensors, and these before numbers: one that comes later
// changes the result only where it is of a higher kind (bool < integer < floating < complex).
class ResultType {
 public:
  void add_tensor(DType dtype, bool has_dims);
  // A number's dtype is int64, bool, or that which the default dtype gives it.
  void add_number(DType dtype);
  // `undefined` when nothing was added.
  DType get() const;

 private:
  DType dimensioned_ = DType::undefined;
  DType zero_dim_ = DType::undefined;
  DType number_ = DType::undefined;
};

}  // namespace onnx_native::aten
