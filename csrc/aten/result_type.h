// Type promotion of an operator's operands (torch.result_type).
#pragma once

#include "base/dtype.h"

namespace onnx_native::aten {

// Accumulates operands. Tensors with dimensions take priority over 0-d tensors, and these over
// numbers: an operand of lower priority changes the result only if it is of a higher kind (bool <
// integer < floating < complex).
class ResultType {
 public:
  void add_tensor(DType dtype, bool has_dims);
  // Adds a number: int64, bool, or the dtype that the default dtype implies.
  void add_number(DType dtype);
  // Returns `undefined` if nothing was added.
  DType get() const;

 private:
  DType dimensioned_ = DType::undefined;
  DType zero_dim_ = DType::undefined;
  DType number_ = DType::undefined;
};

}  // namespace onnx_native::aten
