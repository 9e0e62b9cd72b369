// torch's enumerations as the graph holds them; for readers and schemas.
#pragma once

#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <string>

#include "base/dtype.h"

namespace onnx_native::aten {

// The element type; nullopt where ONNX has none. Quantised types give their storage type.
std::optional<DType> to_dtype(c10::ScalarType type);
// The opposite; never a quantised type.
c10::ScalarType to_scalar_type(DType dtype);
// As Python prints it, without "torch.".
std::string memory_format_name(c10::MemoryFormat format);

}  // namespace onnx_native::aten
