// The floating dtype in which a model computes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/dtype.h"

namespace onnx_native {

enum class Precision {
  program,   // as the program does
  float16,   // float32 becomes float16, except where that is not precise enough
  bfloat16,  // likewise bfloat16
};

// Returns "program", "float16" or "bfloat16" as a precision. Throws ExportError(invalid_argument)
// with the known names for any other text.
Precision parse_precision(std::string_view text);
// Returns f16 or bf16; f32 for `program`.
DType dtype_of(Precision precision);

// The nodes of floats in a model whose precision was lowered. Casts do not count.
struct PrecisionCounts {
  DType dtype = DType::f32;  // the dtype that half_nodes compute in
  int64_t half_nodes = 0;
  std::map<std::string, int64_t> float32_nodes;  // by operator
};

}  // namespace onnx_native
