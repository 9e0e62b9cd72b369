// Conversion of torch's enumerations and names to those of the graph; for readers and schemas.
#pragma once

#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <string>

#include "base/dtype.h"

namespace c10 {
struct OperatorName;
}

namespace onnx_native::aten {

// Returns the element type; nullopt if ONNX has none. Quantized types map to their storage types.
std::optional<DType> to_dtype(c10::ScalarType type);
// The inverse of to_dtype; never returns a quantized type. Throws ExportError(unsupported) if torch
// has no such type.
c10::ScalarType to_scalar_type(DType dtype);
// Returns the Python name without "torch.".
std::string memory_format_name(c10::MemoryFormat format);
// Returns the key of an operator's schema: "aten::add.Tensor", "aten::relu".
std::string key_of(const c10::OperatorName& name);

}  // namespace onnx_native::aten
