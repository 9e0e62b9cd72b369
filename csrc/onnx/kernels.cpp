#include "onnx/kernels.h"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <unordered_map>

namespace onnx_native::onnx {
namespace {

constexpr struct {
  std::string_view op_type;
  uint32_t dtypes;
} kKernels[] = {
#include "onnx/kernels.inc"
};

std::initializer_list<DType> wider(DType dtype) {
  static constexpr std::initializer_list<DType> kFloat = {DType::f32};
  static constexpr std::initializer_list<DType> kSmall = {DType::i32, DType::i64};
  static constexpr std::initializer_list<DType> kLong = {DType::i64};
  static constexpr std::initializer_list<DType> kBool = {DType::u8, DType::i32, DType::i64};
  switch (dtype) {
    case DType::bf16:
    case DType::f16:
      return kFloat;
    case DType::u8:
    case DType::i8:
    case DType::u16:
    case DType::i16:
      return kSmall;
    case DType::i32:
    case DType::u32:
      return kLong;
    case DType::boolean:
      return kBool;
    default:
      return {};
  }
}

}  // namespace

DType kernel_dtype(std::string_view op_type, DType dtype) {
  static const auto& kernels = *[] {
    auto* map = new std::unordered_map<std::string_view, uint32_t>;
    for (const auto& kernel : kKernels) map->emplace(kernel.op_type, kernel.dtypes);
    return map;
  }();
  if (dtype == DType::f32) return dtype;
  auto it = kernels.find(op_type);
  auto has = [&](DType d) {
    const auto bit = static_cast<int>(d);
    return bit < 32 && (it->second >> bit & 1) != 0;
  };
  if (it == kernels.end() || has(dtype)) return dtype;
  for (DType candidate : wider(dtype)) {
    if (has(candidate)) return candidate;
  }
  return dtype;
}

}  // namespace onnx_native::onnx
