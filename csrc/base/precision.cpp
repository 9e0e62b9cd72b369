#include "base/precision.h"

#include "base/error.h"

namespace onnx_native {

Precision parse_precision(std::string_view text) {
  if (text == "program") return Precision::program;
  if (text == "float16") return Precision::float16;
  if (text == "bfloat16") return Precision::bfloat16;
  fail(ErrorKind::invalid_argument, "there is no precision '", text,
       "': choose one of 'program', 'float16', 'bfloat16'");
}

DType dtype_of(Precision precision) {
  if (precision == Precision::float16) return DType::f16;
  return precision == Precision::bfloat16 ? DType::bf16 : DType::f32;
}

}  // namespace onnx_native
