#include "scaled_gelu.h"

#include <ATen/ATen.h>
#include <onnx_native/lowering.h>
#include <torch/library.h>

namespace {

at::Tensor scaled_gelu(const at::Tensor& x, double scale) { return at::gelu(x).mul(scale); }

}  // namespace

// The operator, for LibTorch.
TORCH_LIBRARY(cpp_app, library) { library.def("scaled_gelu(Tensor x, float scale=1.0) -> Tensor"); }
TORCH_LIBRARY_IMPL(cpp_app, CPU, library) { library.impl("scaled_gelu", scaled_gelu); }

// The operator, for ONNX.
void register_scaled_gelu_lowering() {
  using onnx_native::Builder;
  using onnx_native::Value;
  onnx_native::register_lowering("cpp_app::scaled_gelu", [](Builder& b, Value x, double scale) {
    return b.Mul(b.op("Gelu", {x}), b.like(x, scale));
  });
}
