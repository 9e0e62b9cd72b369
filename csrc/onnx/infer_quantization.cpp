#include "onnx/infer_rules.h"

namespace onnx_native::onnx {
namespace {

void quantize(Inference& i) {
  const DType without_zero_point = i.attribute_dtype("output_dtype", DType::u8);
  i.set(0,
        i.optional(2)                            ? i.dtype(2)
        : without_zero_point == DType::undefined ? DType::u8
                                                 : without_zero_point,
        i.in(0).shape);
}

void dequantize(Inference& i) {
  const DType given = i.attribute_dtype("output_dtype", DType::undefined);
  i.set(0, given == DType::undefined ? i.dtype(1) : given, i.in(0).shape);
}

void dynamic_quantize(Inference& i) {
  i.set(0, DType::u8, i.in(0).shape);
  i.set(1, DType::f32, Shape{});
  i.set(2, DType::u8, Shape{});
}

}  // namespace

void add_quantization_rules(Rules& rules) {
  rules["DequantizeLinear"] = dequantize;
  rules["DynamicQuantizeLinear"] = dynamic_quantize;
  rules["QuantizeLinear"] = quantize;
}

}  // namespace onnx_native::onnx
