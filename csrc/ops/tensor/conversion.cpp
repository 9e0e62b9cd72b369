// Copies, which need no ONNX node, and dtype conversions.
#include "ops/families.h"

namespace onnx_native::ops {
namespace {

Value to_dtype(Builder& b, Value self, DType dtype, Ignored /*non_blocking*/, Ignored /*copy*/) {
  return b.cast(self, dtype);
}

}  // namespace

void register_conversion(OpTable& ops) {
  ops.def("aten::clone", [](Builder&, Value self, Ignored /*memory_format*/) { return self; });
  ops.def({"aten::detach", "aten::detach_copy", "aten::lift_fresh_copy", "aten::lift",
           "aten::positive", "aten::real", "aten::conj", "aten::conj_physical"},
          [](Builder&, Value self) { return self; });
  ops.def("aten::to.dtype", to_dtype);
  ops.def("aten::to.device",
          [](Builder& b, Value self, Ignored /*device*/, DType dtype, Ignored /*non_blocking*/,
             Ignored /*copy*/) { return b.cast(self, dtype); });
  ops.def("aten::to.dtype_layout",
          [](Builder& b, Value self, std::optional<DType> dtype, Ignored /*layout*/,
             Ignored /*device*/, Ignored /*pin_memory*/, Ignored /*non_blocking*/,
             Ignored /*copy*/) { return b.cast(self, dtype); });
  ops.def("aten::to.other", [](Builder& b, Value self, Value other, Ignored /*non_blocking*/,
                               Ignored /*copy*/) { return b.cast(self, other->dtype); });
  ops.def("aten::_to_copy", [](Builder& b, Value self, std::optional<DType> dtype,
                               Ignored /*layout*/, Ignored /*device*/, Ignored /*pin_memory*/,
                               Ignored /*non_blocking*/) { return b.cast(self, dtype); });
  ops.def("aten::type_as",
          [](Builder& b, Value self, Value other) { return b.cast(self, other->dtype); });
}

}  // namespace onnx_native::ops
