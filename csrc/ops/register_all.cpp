#include "ops/families.h"

namespace onnx_native::ops {

void register_all(OpTable& ops) {
  register_control_flow(ops);
  register_view(ops);
  register_slice(ops);
  register_join(ops);
  register_pad(ops);
  register_index(ops);
}

}  // namespace onnx_native::ops
