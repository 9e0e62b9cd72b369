#include "ops/formulas/random.h"

#include "ops/formulas/numeric.h"

namespace onnx_native::ops {

DType drawn_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

Value draw(Builder& b, std::string_view distribution, DType dtype, const Shape& shape) {
  const DType drawn = drawn_dtype(dtype);
  const std::string name = "Random" + std::string(distribution);
  if (const auto sizes = constant_shape(shape)) {
    return b.cast(b.op(name, {}, {{"dtype", drawn}, {"shape", *sizes}}), dtype);
  }
  return b.cast(b.op(name + "Like", {b.full(drawn, 0, shape)}, {{"dtype", drawn}}), dtype);
}

Value uniform(Builder& b, DType dtype, const Shape& shape) {
  return draw(b, "Uniform", dtype, shape);
}

Dropped dropped(Builder& b, Value x, const Number& p) {
  if (is_one(p)) return {b.Mul(x, b.like(x, 0)), filled_like(b, x, DType::boolean, false)};
  const Values results = b.ops("Dropout", 2, {x, b.scalar(DType::f32, p), b.boolean(true)});
  return {results[0], results[1]};
}

}  // namespace onnx_native::ops
