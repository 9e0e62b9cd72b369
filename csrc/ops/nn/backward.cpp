// Gradients that programs call by name.
#include "ops/families.h"
#include "ops/formulas/axes.h"
#include "ops/formulas/numeric.h"
#include "ops/formulas/scatter.h"

namespace onnx_native::ops {
namespace {

Value sum_along(Builder& b, Value x, int64_t dim) {
  return x->rank() == 0 ? x : b.reduce("ReduceSum", x, {normalize_axis(dim, x->rank())}, true);
}

// Returns the recorded dtype, which torch.export takes from the input. Without one, matches eager:
// only a float32 gradient with a float16 input changes its dtype.
DType gradient_dtype(const Call& call, Value grad_output, DType input_dtype) {
  const aten::Type& recorded = call.result_type(0);
  if (recorded.kind == aten::Type::Kind::tensor && is_floating(recorded.dtype))
    return recorded.dtype;
  const bool narrow = grad_output->dtype == DType::f32 && input_dtype == DType::f16;
  return narrow ? input_dtype : grad_output->dtype;
}

Value softmax_backward(Builder& b, Value grad_output, Value output, int64_t dim, DType input_dtype,
                       const Call& call) {
  const DType compute = accumulation_dtype(grad_output->dtype);
  const Value y = b.cast(output, compute);
  const Value weighted = b.Mul(b.cast(grad_output, compute), y);
  return b.cast(b.Sub(weighted, b.Mul(y, sum_along(b, weighted, dim))),
                gradient_dtype(call, grad_output, input_dtype));
}

Value log_softmax_backward(Builder& b, Value grad_output, Value output, int64_t dim,
                           DType input_dtype, const Call& call) {
  const DType compute = accumulation_dtype(grad_output->dtype);
  const Value grad = b.cast(grad_output, compute);
  const Value scaled = b.Mul(b.Exp(b.cast(output, compute)), sum_along(b, grad, dim));
  return b.cast(b.Sub(grad, scaled), gradient_dtype(call, grad_output, input_dtype));
}

// Adds each gradient at the position of its maximum; `indices` are positions in a flat image.
Value max_pool2d_backward(Builder& b, Value grad_output, Value self, Ignored, Ignored, Ignored,
                          Ignored, Ignored, Value indices) {
  const Shape& shape = self->known_shape();
  const Shape leading = part_of(shape, 0, -2);
  const auto flat = [&](Value x) { return b.flatten(x, -2, -1); };
  Shape image = leading;
  image.push_back(shape[shape.size() - 2] * shape.back());
  const Value zeros = b.full(grad_output->dtype, 0, image);
  return b.reshape(scatter_reduce(b, zeros, -1, flat(indices), flat(grad_output), "sum", true),
                   shape);
}

}  // namespace

void register_backward(OpTable& ops) {
  ops.def("aten::_softmax_backward_data", softmax_backward);
  ops.def("aten::_log_softmax_backward_data", log_softmax_backward);
  ops.def("aten::native_dropout_backward",
          [](Builder& b, Value grad_output, Value mask, Number scale) {
            const Value grad = b.cast(grad_output, float_dtype(grad_output->dtype));
            return b.Mul(b.Mul(grad, b.cast(mask, grad->dtype)), b.like(grad, scale));
          });
  ops.def("aten::max_pool2d_with_indices_backward", max_pool2d_backward);
}

}  // namespace onnx_native::ops
