#include "onnx/builder.h"
#include "ops/families.h"

namespace onnx_native::ops {

void register_embedding(OpTable& ops) {
  ops.def("aten::embedding", [](Builder& b, Value weight, Value indices, Ignored, Ignored,
                                Ignored) { return b.gather(weight, indices, 0); });
}

}  // namespace onnx_native::ops
