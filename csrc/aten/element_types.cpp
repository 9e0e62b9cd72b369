#include "aten/element_types.h"

#include "base/error.h"

namespace onnx_native::aten {

std::string no_element_type(c10::ScalarType type) {
  std::string text = concat("ONNX has no element type for ", c10::toString(type));
  if (type == c10::ScalarType::Float4_e2m1fn_x2)
    text +=
        ", a pair of elements: its float4e2m1, of opset 23 and newer, is one element; export the "
        "bytes, tensor.view(torch.uint8)";
  return text;
}

}  // namespace onnx_native::aten
