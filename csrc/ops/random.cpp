// Random numbers: the distribution is the program's, the numbers are the runtime's.
#include <limits>

#include "ops/families.h"
#include "ops/numeric.h"

namespace onnx_native::ops {
namespace {

using OptionalDType = std::optional<DType>;

DType drawn_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

// RandomUniform or RandomNormal of this shape.
Value draw(Builder& b, std::string_view distribution, DType dtype, const Shape& shape) {
  const DType drawn = drawn_dtype(dtype);
  const std::string name = "Random" + std::string(distribution);
  if (const auto sizes = constant_shape(shape)) {
    return b.cast(b.op(name, {}, {{"dtype", drawn}, {"shape", *sizes}}), dtype);
  }
  return b.cast(b.op(name + "Like", {b.full(drawn, 0, shape)}, {{"dtype", drawn}}), dtype);
}

Value normal(Builder& b, DType dtype, const Shape& shape) {
  return draw(b, "Normal", dtype, shape);
}

// In [0, 1).
Value uniform(Builder& b, DType dtype, const Shape& shape) {
  return draw(b, "Uniform", dtype, shape);
}

// Integers from low to high - 1.
Value integers(Builder& b, Value low, Value high, DType dtype, const Shape& shape) {
  const Value range = b.cast(b.Sub(high, low), DType::f64);
  const Value steps = b.Floor(b.Mul(uniform(b, DType::f64, shape), range));
  return b.cast(b.Add(b.cast(steps, DType::i64), low), dtype);
}

Value bernoulli(Builder& b, Value probability, DType dtype, const Shape& shape) {
  const DType drawn = drawn_dtype(probability->dtype);
  const Value hit = b.Less(uniform(b, drawn, shape), b.cast(probability, drawn));
  return b.cast(hit, dtype);
}

void define_like(OpTable& ops, const std::string& name,
                 Value (*sample)(Builder&, DType, const Shape&)) {
  ops.def("aten::" + name, [sample](Builder& b, Shape size, OptionalDType dtype) {
    return sample(b, dtype.value_or(DType::f32), size);
  });
  ops.def("aten::" + name + ".generator",
          [sample](Builder& b, Shape size, Ignored, OptionalDType dtype) {
            return sample(b, dtype.value_or(DType::f32), size);
          });
  ops.def("aten::" + name + "_like", [sample](Builder& b, Value self, OptionalDType dtype) {
    return sample(b, dtype.value_or(self->dtype), *b.known_shape(self));
  });
}

void register_integers(OpTable& ops) {
  const auto value = [](Builder& b, const Dim& dim) { return b.dim_value(dim); };
  ops.def("aten::randint", [value](Builder& b, Dim high, Shape size, OptionalDType dtype) {
    return integers(b, b.i64(0), value(b, high), dtype.value_or(DType::i64), size);
  });
  ops.def("aten::randint.low",
          [value](Builder& b, Dim low, Dim high, Shape size, OptionalDType dtype) {
            return integers(b, value(b, low), value(b, high), dtype.value_or(DType::i64), size);
          });
  ops.def("aten::randint_like", [value](Builder& b, Value self, Dim high, OptionalDType dtype) {
    return integers(b, b.i64(0), value(b, high), dtype.value_or(self->dtype), *b.known_shape(self));
  });
  ops.def("aten::randint_like.low_dtype",
          [value](Builder& b, Value self, Dim low, Dim high, OptionalDType dtype) {
            return integers(b, value(b, low), value(b, high), dtype.value_or(self->dtype),
                            *b.known_shape(self));
          });
  // The order of random numbers.
  ops.def("aten::randperm", [](Builder& b, Dim n, OptionalDType dtype) {
    const Values sorted =
        b.ops("TopK", 2, {uniform(b, DType::f32, {n}), b.shape_value({n})}, {{"axis", 0}});
    return b.cast(sorted[1], dtype.value_or(DType::i64));
  });
}

void register_normal(OpTable& ops) {
  const auto scaled_normal = [](Builder& b, Value mean, Value std, DType dtype,
                                const Shape& shape) {
    return b.Add(b.Mul(normal(b, dtype, shape), std), mean);
  };
  ops.def("aten::normal.float_float", [scaled_normal](Builder& b, double mean, double std,
                                                      Shape size, Ignored, OptionalDType dtype) {
    const DType type = dtype.value_or(DType::f32);
    return scaled_normal(b, b.scalar(type, mean), b.scalar(type, std), type, size);
  });
  ops.def("aten::normal.Tensor_float", [scaled_normal](Builder& b, Value mean, double std) {
    return scaled_normal(b, mean, b.like(mean, std), mean->dtype, *b.known_shape(mean));
  });
  ops.def("aten::normal.float_Tensor", [scaled_normal](Builder& b, double mean, Value std) {
    return scaled_normal(b, b.like(std, mean), std, std->dtype, *b.known_shape(std));
  });
  ops.def("aten::normal.Tensor_Tensor", Promote::standard,
          [scaled_normal](Builder& b, Value mean, Value std) {
            const Shape shape = onnx::broadcast(*b.known_shape(mean), *b.known_shape(std));
            return scaled_normal(b, mean, std, mean->dtype, shape);
          });
  ops.def("aten::normal_functional",
          [scaled_normal](Builder& b, Value self, double mean, double std) {
            return scaled_normal(b, b.like(self, mean), b.like(self, std), self->dtype,
                                 *b.known_shape(self));
          });
}

}  // namespace

void register_random(OpTable& ops) {
  define_like(ops, "rand", uniform);
  define_like(ops, "randn", normal);
  register_integers(ops);
  register_normal(ops);
  ops.def("aten::uniform", [](Builder& b, Value self, double from, double to) {
    const Value unit = uniform(b, self->dtype, *b.known_shape(self));
    return b.Add(b.Mul(unit, b.like(self, to - from)), b.like(self, from));
  });
  ops.def("aten::exponential", [](Builder& b, Value self, double lambd) {
    const Value unit = uniform(b, self->dtype, *b.known_shape(self));
    return b.Div(b.Log(b.Sub(b.like(self, 1), unit)), b.like(self, -lambd));
  });
  ops.def("aten::bernoulli", [](Builder& b, Value self) {
    return bernoulli(b, self, self->dtype, *b.known_shape(self));
  });
  ops.def("aten::bernoulli.p", [](Builder& b, Value self, double p) {
    return bernoulli(b, b.scalar(DType::f32, p), self->dtype, *b.known_shape(self));
  });
  ops.def("aten::bernoulli.Tensor", [](Builder& b, Value self, Value p) {
    return bernoulli(b, p, self->dtype, *b.known_shape(self));
  });
}

}  // namespace onnx_native::ops
