// Random numbers: the program chooses the distribution, the runtime draws the numbers.
#include "ops/formulas/random.h"

#include <limits>
#include <numbers>

#include "ops/families.h"
#include "ops/formulas/numeric.h"

namespace onnx_native::ops {
namespace {

using OptionalDType = std::optional<DType>;

Value bernoulli(Builder& b, Value probability, DType dtype, const Shape& shape) {
  const DType drawn = drawn_dtype(probability->dtype);
  const Value hit = b.Less(uniform(b, drawn, shape), b.cast(probability, drawn));
  return b.cast(hit, dtype);
}

Value normal(Builder& b, DType dtype, const Shape& shape) {
  return draw(b, "Normal", dtype, shape);
}

// Returns integers in [low, high).
Value integers(Builder& b, Value low, Value high, DType dtype, const Shape& shape) {
  const Value range = b.cast(b.Sub(high, low), DType::f64);
  const Value steps = b.Floor(b.Mul(uniform(b, DType::f64, shape), range));
  return b.cast(b.Add(b.cast(steps, DType::i64), low), dtype);
}

void define_like(OpTable& ops, const std::string& name,
                 Value (*sample)(Builder&, DType, const Shape&)) {
  ops.def("aten::" + name, [sample](Builder& b, Shape size, OptionalDType dtype) {
    return sample(b, dtype.value_or(default_dtype()), size);
  });
  ops.def("aten::" + name + ".generator",
          [sample](Builder& b, Shape size, Ignored, OptionalDType dtype) {
            return sample(b, dtype.value_or(default_dtype()), size);
          });
  ops.def("aten::" + name + "_like", [sample](Builder& b, Value self, OptionalDType dtype) {
    return sample(b, dtype.value_or(self->dtype), self->known_shape());
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
    return integers(b, b.i64(0), value(b, high), dtype.value_or(self->dtype), self->known_shape());
  });
  ops.def("aten::randint_like.low_dtype",
          [value](Builder& b, Value self, Dim low, Dim high, OptionalDType dtype) {
            return integers(b, value(b, low), value(b, high), dtype.value_or(self->dtype),
                            self->known_shape());
          });
  // The order of random numbers is a random permutation.
  ops.def("aten::randperm", [](Builder& b, Dim n, OptionalDType dtype) {
    const Values sorted =
        b.ops("TopK", 2, {uniform(b, DType::f32, {n}), b.shape_value({n})}, {{"axis", 0}});
    return b.cast(sorted[1], dtype.value_or(DType::i64));
  });
}

// Returns the exclusive upper bound of the integers that aten::random draws for this dtype.
Scalar random_limit(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return 2;
    case DType::f16:
      return (1 << 11) + 1;
    case DType::bf16:
      return (1 << 8) + 1;
    case DType::f32:
      return (1 << 24) + 1;
    case DType::f64:
      return (int64_t{1} << 53) + 1;
    case DType::i64:
    case DType::u64:
      return std::numeric_limits<int64_t>::max();
    default:
      return static_cast<int64_t>(max_value(dtype)) + 1;
  }
}

void register_filling_integers(OpTable& ops) {
  const auto fill = [](Builder& b, Value self, const Number& from, const Number& to) {
    return integers(b, b.scalar(DType::i64, from), b.scalar(DType::i64, to), self->dtype,
                    self->known_shape());
  };
  ops.def("aten::random",
          [fill](Builder& b, Value self) { return fill(b, self, 0, random_limit(self->dtype)); });
  ops.def("aten::random.to",
          [fill](Builder& b, Value self, Number to) { return fill(b, self, 0, to); });
}

// Draws `count` indices along the last axis, with probabilities proportional to the weights.
// Without replacement, those with the greatest weight / exponential number are drawn (Efraimidis
// and Spirakis, 2006).
Value multinomial(Builder& b, Value self, const Dim& count, bool replacement) {
  const int64_t rank = self->rank();
  const DType dtype = drawn_dtype(self->dtype);
  b.check(rank > 0, "the weights must have at least 1 dimension");
  const Value weights = b.cast(self, dtype);
  Shape shape = self->known_shape();
  if (!replacement) {
    const Value waits = b.Neg(b.Log(b.Sub(b.scalar(dtype, 1), uniform(b, dtype, shape))));
    return b.ops("TopK", 2, {b.Div(weights, waits), b.shape_value({count})}, {{"axis", -1}})[1];
  }
  const Dim classes = shape.back();
  shape.back() = count;
  const Value sums = b.op("CumSum", {weights, b.i64(rank - 1)});
  const Value total = b.slice(sums, rank - 1, classes - 1, classes);
  const Value drawn = b.unsqueeze(b.Mul(uniform(b, dtype, shape), total), {-1});
  const Value passed = b.LessOrEqual(b.unsqueeze(sums, {-2}), drawn);
  const Value row = b.reduce("ReduceSum", b.cast(passed, DType::i64), {-1}, /*keepdims=*/false);
  return b.Min(row, b.dim_value(classes - 1));
}

// Distributions that apply their inverse CDF to uniform numbers in [0, 1).
void register_inverse_distributions(OpTable& ops) {
  ops.def("aten::cauchy", [](Builder& b, Value self, Number median, Number sigma) {
    const Value unit = uniform(b, DType::f32, self->known_shape());
    const Value angle = b.Mul(b.Sub(unit, b.like(unit, 0.5)), b.like(unit, std::numbers::pi));
    const Value wide = b.Mul(b.op("Tan", {angle}), b.like(unit, sigma));
    return b.cast(b.Add(wide, b.like(unit, median)), self->dtype);
  });
  ops.def("aten::geometric", [](Builder& b, Value self, Number p) {
    const Value unit = uniform(b, drawn_dtype(self->dtype), self->known_shape());
    const Value tries =
        b.Div(b.Log(b.Sub(b.like(unit, 1), unit)), log1p(b, b.Neg(b.like(unit, p))));
    return b.cast(b.Max(b.Ceil(tries), b.like(unit, 1)), self->dtype);
  });
}

void register_normal(OpTable& ops) {
  const auto scaled_normal = [](Builder& b, Value mean, Value std, DType dtype,
                                const Shape& shape) {
    return b.Add(b.Mul(normal(b, dtype, shape), std), mean);
  };
  ops.def("aten::normal.float_float", [scaled_normal](Builder& b, Number mean, Number std,
                                                      Shape size, Ignored, OptionalDType dtype) {
    const DType type = dtype.value_or(default_dtype());
    return scaled_normal(b, b.scalar(type, mean), b.scalar(type, std), type, size);
  });
  ops.def("aten::normal.Tensor_float", [scaled_normal](Builder& b, Value mean, Number std) {
    return scaled_normal(b, mean, b.like(mean, std), mean->dtype, mean->known_shape());
  });
  ops.def("aten::normal.float_Tensor", [scaled_normal](Builder& b, Number mean, Value std) {
    return scaled_normal(b, b.like(std, mean), std, std->dtype, std->known_shape());
  });
  ops.def("aten::normal.Tensor_Tensor", Promote::standard,
          [scaled_normal](Builder& b, Value mean, Value std) {
            const Shape shape = onnx::broadcast(mean->known_shape(), std->known_shape());
            return scaled_normal(b, mean, std, mean->dtype, shape);
          });
  ops.def("aten::normal_functional",
          [scaled_normal](Builder& b, Value self, Number mean, Number std) {
            return scaled_normal(b, b.like(self, mean), b.like(self, std), self->dtype,
                                 self->known_shape());
          });
  ops.def("aten::log_normal", [scaled_normal](Builder& b, Value self, Number mean, Number std) {
    return b.Exp(
        scaled_normal(b, b.like(self, mean), b.like(self, std), self->dtype, self->known_shape()));
  });
}

}  // namespace

void register_random(OpTable& ops) {
  define_like(ops, "rand", uniform);
  define_like(ops, "randn", normal);
  register_integers(ops);
  register_normal(ops);
  register_filling_integers(ops);
  register_inverse_distributions(ops);
  ops.def("aten::multinomial", multinomial);
  ops.def("aten::uniform", [](Builder& b, Value self, Number from, Number to) {
    const Value unit = uniform(b, self->dtype, self->known_shape());
    return b.Add(b.Mul(unit, b.like(self, to - from)), b.like(self, from));
  });
  ops.def("aten::exponential", [](Builder& b, Value self, Number lambd) {
    const Value unit = uniform(b, self->dtype, self->known_shape());
    return b.Div(b.Log(b.Sub(b.like(self, 1), unit)), b.like(self, -lambd));
  });
  ops.def("aten::bernoulli", [](Builder& b, Value self) {
    return bernoulli(b, self, self->dtype, self->known_shape());
  });
  ops.def("aten::bernoulli.p", [](Builder& b, Value self, Number p) {
    return bernoulli(b, b.scalar(DType::f32, p), self->dtype, self->known_shape());
  });
  ops.def("aten::bernoulli.Tensor", [](Builder& b, Value self, Value p) {
    return bernoulli(b, p, self->dtype, self->known_shape());
  });
}

}  // namespace onnx_native::ops
