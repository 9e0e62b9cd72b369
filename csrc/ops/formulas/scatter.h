// Writes at computed positions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ops/engine/call.h"

namespace onnx_native::ops {

// Runs `write` with a bool tensor cast to integers: a sum acts as Or, a product as And.
template <class Write>
Value on_numbers(Builder& b, Value self, Write&& write) {
  if (self->dtype != DType::boolean) return write(self);
  return b.cast(write(b.cast(self, DType::i32)), DType::boolean);
}

// ScatterElements or ScatterND. Reduces f16 and bf16 in float32: ONNX Runtime cannot reduce them.
Value scatter_into(Builder& b, std::string_view op_type, Value data, Value indices, Value updates,
                   std::string_view reduction, std::vector<onnx::Attribute> attributes = {});
// torch.scatter: `index` may be smaller than `src` and `self`.
Value scatter(Builder& b, Value self, int64_t dim, Value index, Value src,
              std::string_view reduction = "none");
// torch.scatter_reduce; "add" and "multiply" are aliases of "sum" and "prod".
Value scatter_reduce(Builder& b, Value self, int64_t dim, Value index, Value src,
                     const std::string& reduce, bool include_self);

}  // namespace onnx_native::ops
