#include "aten/torch_types.h"

#include <ATen/core/operator_name.h>

#include "base/error.h"

namespace onnx_native::aten {

std::optional<DType> to_dtype(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Byte:
    case c10::ScalarType::QUInt8:
      return DType::u8;
    case c10::ScalarType::Char:
    case c10::ScalarType::QInt8:
      return DType::i8;
    case c10::ScalarType::Short:
      return DType::i16;
    case c10::ScalarType::Int:
    case c10::ScalarType::QInt32:
      return DType::i32;
    case c10::ScalarType::Long:
      return DType::i64;
    case c10::ScalarType::UInt16:
      return DType::u16;
    case c10::ScalarType::UInt32:
      return DType::u32;
    case c10::ScalarType::UInt64:
      return DType::u64;
    case c10::ScalarType::Half:
      return DType::f16;
    case c10::ScalarType::Float:
      return DType::f32;
    case c10::ScalarType::Double:
      return DType::f64;
    case c10::ScalarType::ComplexHalf:
      return DType::c32;
    case c10::ScalarType::ComplexFloat:
      return DType::c64;
    case c10::ScalarType::ComplexDouble:
      return DType::c128;
    case c10::ScalarType::Bool:
      return DType::boolean;
    case c10::ScalarType::BFloat16:
      return DType::bf16;
    case c10::ScalarType::Float8_e4m3fn:
      return DType::f8e4m3fn;
    case c10::ScalarType::Float8_e4m3fnuz:
      return DType::f8e4m3fnuz;
    case c10::ScalarType::Float8_e5m2:
      return DType::f8e5m2;
    case c10::ScalarType::Float8_e5m2fnuz:
      return DType::f8e5m2fnuz;
    default:
      return std::nullopt;
  }
}

c10::ScalarType to_scalar_type(DType dtype) {
  for (int i = 0; i < static_cast<int>(c10::ScalarType::NumOptions); ++i) {
    const auto type = static_cast<c10::ScalarType>(i);
    if (!c10::isQIntType(type) && to_dtype(type) == dtype) return type;
  }
  fail(ErrorKind::unsupported, "PyTorch has no element type ", name(dtype));
}

std::string memory_format_name(c10::MemoryFormat format) {
  switch (format) {
    case c10::MemoryFormat::Contiguous:
      return "contiguous_format";
    case c10::MemoryFormat::ChannelsLast:
      return "channels_last";
    case c10::MemoryFormat::ChannelsLast3d:
      return "channels_last_3d";
    default:
      return "preserve_format";
  }
}

std::string key_of(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

}  // namespace onnx_native::aten
