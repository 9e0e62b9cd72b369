#include "aten/int4_pack.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/_weight_int4pack_mm_for_cpu.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "aten/torch_tensor.h"
#include "base/weight.h"

namespace onnx_native::aten {

TensorData unpacked_int4(const TensorData& packed, int64_t inputs, int64_t outputs) {
  const std::vector<int64_t> shape{inputs, outputs};
  const auto compute = [inputs,
                        outputs](std::span<const TensorData> now) -> std::optional<TensorData> {
    // Groups of 32 with the scale 1 and the zero 0: the product is the integers minus 8.
    constexpr int64_t kGroup = 32, kMiddle = 8;
    const std::vector<int64_t> groups{inputs / kGroup, outputs};
    const at::Tensor scales = at::stack({at::ones(groups), at::zeros(groups)}, -1);
    const at::Tensor product =
        at::_weight_int4pack_mm_for_cpu(at::eye(inputs), to_tensor(now[0]).cpu(), kGroup, scales);
    return tensor_data(product.add(kMiddle).to(at::kByte), "int4");
  };
  return on_demand(DType::u8, shape, {.sources = {packed}, .compute = compute});
}

}  // namespace onnx_native::aten
