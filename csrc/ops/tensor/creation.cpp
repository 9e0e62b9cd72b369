// Tensors created from sizes and numbers.
#include <algorithm>
#include <cmath>

#include "ops/families.h"
#include "ops/formulas/numeric.h"

namespace onnx_native::ops {
namespace {

using OptionalDType = std::optional<DType>;

// Returns a tensor of this shape filled with argument i.
Value filled(const Call& call, size_t i, const OptionalDType& dtype, const Shape& shape) {
  Builder& b = call.builder();
  const Number value = call.any_number(i);
  if (dtype) return b.full(*dtype, value, shape);
  const DType recorded = call.result_type(0).dtype;
  return b.full(recorded == DType::undefined ? call.result_type_of({i}) : recorded, value, shape);
}

template <int kValue>
void register_constant(OpTable& ops, const std::string& name) {
  ops.def("aten::" + name, [](Builder& b, Shape size, OptionalDType dtype) {
    return b.full(dtype.value_or(default_dtype()), kValue, size);
  });
  ops.def("aten::" + name + "_like", [](Builder& b, Value self, OptionalDType dtype) {
    return b.full(dtype.value_or(self->dtype), kValue, self->known_shape());
  });
  ops.def("aten::new_" + name, [](Builder& b, Value self, Shape size, OptionalDType dtype) {
    return b.full(dtype.value_or(self->dtype), kValue, size);
  });
}

void register_filled(OpTable& ops) {
  register_constant<0>(ops, "zeros");
  register_constant<1>(ops, "ones");
  ops.def("aten::full", [](Builder&, Shape size, Ignored, OptionalDType dtype, const Call& call) {
    return filled(call, 1, dtype, size);
  });
  ops.def("aten::full_like",
          [](Builder&, Value self, Ignored, OptionalDType dtype, const Call& call) {
            return filled(call, 1, dtype.value_or(self->dtype), self->known_shape());
          });
  ops.def("aten::new_full",
          [](Builder&, Value self, Shape size, Ignored, OptionalDType dtype, const Call& call) {
            return filled(call, 2, dtype.value_or(self->dtype), size);
          });
  // Uninitialized memory exports as zeros.
  ops.def("aten::empty.memory_format", [](Builder& b, Shape size, OptionalDType dtype) {
    return b.full(dtype.value_or(default_dtype()), 0, size);
  });
  ops.def({"aten::empty_strided", "aten::empty_permuted"},
          [](Builder& b, Shape size, Ignored, OptionalDType dtype) {
            return b.full(dtype.value_or(default_dtype()), 0, size);
          });
  ops.def("aten::empty_like", [](Builder& b, Value self, OptionalDType dtype) {
    return b.full(dtype.value_or(self->dtype), 0, self->known_shape());
  });
  ops.def("aten::new_empty", [](Builder& b, Value self, Shape size, OptionalDType dtype) {
    return b.full(dtype.value_or(self->dtype), 0, size);
  });
  ops.def("aten::new_empty_strided",
          [](Builder& b, Value self, Shape size, Ignored, OptionalDType dtype) {
            return b.full(dtype.value_or(self->dtype), 0, size);
          });
  ops.def("aten::scalar_tensor", [](Builder&, Ignored, OptionalDType dtype, const Call& call) {
    return argument_as(call, 0, dtype.value_or(default_dtype()));
  });
}

// The bounds of a range. int64 truncates them before it computes the length; every integer dtype
// truncates them before it computes the elements.
struct Bounds {
  Number start, end, step;

  bool are_constant() const {
    return start.is_constant() && end.is_constant() && step.is_constant();
  }
};

Number whole(Builder& b, const Number& number) {
  if (number.is_constant()) return std::trunc(number.to_double());
  return {b, b.cast(b.cast(number.value(), DType::i64), DType::f64), "start"};
}

Bounds whole(Builder& b, const Bounds& bounds) {
  return {whole(b, bounds.start), whole(b, bounds.end), whole(b, bounds.step)};
}

// Returns start + step * i for i in [0, count); `count` is 0-d and float64.
Value progression(Builder& b, const Bounds& bounds, Value count, DType dtype) {
  const Value none = b.like(count, 0);
  const Dim length = b.dim_of(b.cast(b.Max(count, none), DType::i64), DimRange::size());
  const Value index = b.cast(b.range(length), DType::f64);
  const Value distance = b.Mul(index, b.like(index, bounds.step));
  return b.cast(b.Add(distance, b.like(index, bounds.start)), dtype);
}

Value progression(Builder& b, const Bounds& bounds, double count, DType dtype) {
  const double first = bounds.start.to_double();
  const double step = bounds.step.to_double();
  std::vector<double> values(b.constant_size(std::max(0.0, count)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = first + step * static_cast<double>(i);
  if (is_integral(dtype)) {
    Ints wrapping(values.size());
    std::ranges::transform(values, wrapping.begin(),
                           [&](double value) { return wrapped(Scalar(value).to_int(), dtype); });
    return b.tensor(make_tensor(dtype, {static_cast<int64_t>(values.size())}, wrapping));
  }
  return b.tensor(make_tensor(dtype, {static_cast<int64_t>(values.size())}, values));
}

bool is_whole(const Call& call, size_t i) {
  const aten::Value* value = call.argument(i).as_value();
  if (!value) return call.argument(i).get<double>() == nullptr;
  const Lowered& known = call.lowered(value);
  return known.dim || !is_floating(known.value->dtype);
}

// Reads `start`, `end` and `step` by argument index; start defaults to 0 and step to 1.
Value arange(const Call& call, std::optional<size_t> start, size_t end, std::optional<size_t> step,
             const OptionalDType& dtype) {
  Builder& b = call.builder();
  const auto is_integer = [&](std::optional<size_t> i) { return !i || is_whole(call, *i); };
  if (is_integer(start) && is_integer(end) && is_integer(step)) {
    const Value range =
        b.range(start ? call.dim(*start) : Dim(0), call.dim(end), step ? call.dim(*step) : Dim(1));
    return b.cast(range, dtype.value_or(DType::i64));
  }
  const DType type = dtype.value_or(default_dtype());
  const auto number = [&](std::optional<size_t> i, int otherwise) {
    return i ? call.any_number(*i) : Number(otherwise);
  };
  const Bounds given{number(start, 0), number(end, 0), number(step, 1)};
  const Bounds counted = type == DType::i64 ? whole(b, given) : given;
  const Bounds elements = is_integral(type) ? whole(b, given) : given;
  const Number count = (counted.end - counted.start) / counted.step;
  if (given.are_constant()) return progression(b, elements, std::ceil(count.to_double()), type);
  return progression(b, elements, b.Ceil(b.scalar(DType::f64, count)), type);
}

// Matches ATen's kernel: the first half counts up from the start, the second half down from the
// end.
std::vector<double> linspace(Builder& b, const Scalar& from, const Scalar& to, int64_t steps,
                             DType dtype) {
  const bool single = accumulation_dtype(dtype) == DType::f32;
  // Integer dtypes truncate the bounds first.
  const auto bound = [&](const Scalar& number) {
    return is_floating(dtype) ? number.to_double() : std::trunc(number.to_double());
  };
  const double start = bound(from);
  const double end = bound(to);
  const auto rounded = [&](double x) { return single ? static_cast<float>(x) : x; };
  const double step = steps > 1 ? rounded((end - start) / static_cast<double>(steps - 1)) : 0;
  std::vector<double> values(b.constant_size(static_cast<double>(steps)));
  for (int64_t i = 0; i < steps; ++i) {
    values[i] = i < steps / 2 || steps == 1
                    ? rounded(start + step * static_cast<double>(i))
                    : rounded(end - step * static_cast<double>(steps - i - 1));
  }
  return values;
}

// The same for computed bounds or a computed length.
Value linspace(Builder& b, Value start, Value end, const Dim& steps) {
  const DType dtype = start->dtype;
  const Value last = b.cast(b.dim_value(steps - 1), dtype);
  const Value step = b.Div(b.Sub(end, start), b.Max(last, b.like(last, 1)));
  const Value index = b.range(steps);
  const Value place = b.cast(index, dtype);
  const Value up = b.Add(start, b.Mul(step, place));
  const Value down = b.Sub(end, b.Mul(step, b.Sub(last, place)));
  const Dim half = Dim::max(1, Dim::floor_div(steps, 2));
  return b.where(b.Less(index, b.dim_value(half)), up, down);
}

// Returns evenly spaced numbers from argument 0 to argument 1. Integer dtypes truncate the bounds
// and compute in float64.
Value linspace(const Call& call, const Dim& steps, DType result) {
  Builder& b = call.builder();
  const DType dtype = is_floating(result) ? accumulation_dtype(result) : DType::f64;
  const auto bound = [&](size_t i) {
    return b.cast(argument_as(call, i, is_floating(result) ? dtype : DType::i64), dtype);
  };
  return linspace(b, bound(0), bound(1), steps);
}

// Returns the numbers if the bounds and the length are constant.
std::optional<std::vector<double>> known_linspace(const Call& call, const Dim& steps,
                                                  DType result) {
  if (!steps.is_constant()) return std::nullopt;
  for (size_t i : {0, 1}) {
    const aten::Value* bound = call.argument(i).as_value();
    if (bound && bound->type.is_tensor()) return std::nullopt;
    if (!call.any_number(i).is_constant()) return std::nullopt;
  }
  return linspace(call.builder(), call.scalar(0), call.scalar(1), *steps.constant(), result);
}

Value constant_of(Builder& b, std::vector<double> values, DType dtype) {
  if (!is_floating(dtype)) {
    for (double& value : values) value = std::trunc(value);
  }
  return b.tensor(make_tensor(dtype, {static_cast<int64_t>(values.size())}, values));
}

Value linspace_of(Builder& b, Ignored, Ignored, const Dim& steps, OptionalDType dtype,
                  const Call& call) {
  const DType type = dtype.value_or(default_dtype());
  if (const auto values = known_linspace(call, steps, type)) return constant_of(b, *values, type);
  return b.cast(linspace(call, steps, type), type);
}

Value logspace_of(Builder& b, Ignored, Ignored, const Dim& steps, const Number& base,
                  OptionalDType dtype, const Call& call) {
  const DType type = dtype.value_or(default_dtype());
  auto values = known_linspace(call, steps, type);
  if (values && base.is_constant()) {
    for (double& value : *values) value = std::pow(base.to_double(), value);
    return constant_of(b, *values, type);
  }
  const Value exponents = linspace(call, steps, type);
  return b.cast(b.Pow(b.like(exponents, base), exponents), type);
}

// Includes both bounds.
Value closed_range(Builder& b, const Number& start, const Number& end, const Number& step,
                   OptionalDType dtype) {
  const DType type = dtype.value_or(default_dtype());
  const Bounds bounds{start, end, step};
  const Number steps = (end - start) / step;
  if (!bounds.are_constant()) {
    const Value last = b.Floor(b.scalar(DType::f64, steps));
    return progression(b, bounds, b.Add(last, b.like(last, 1)), type);
  }
  b.check(step.to_double() != 0, "the step of a range must not be 0");
  const double count = std::floor(steps.to_double()) + 1;
  b.check(count > 0, "the end of a range must not be before its start");
  return progression(b, bounds, count, type);
}

void register_ranges(OpTable& ops) {
  ops.def("aten::range.step", closed_range);
  ops.def("aten::arange", [](Builder&, Ignored, OptionalDType dtype, const Call& call) {
    return arange(call, std::nullopt, 0, std::nullopt, dtype);
  });
  ops.def("aten::arange.start",
          [](Builder&, Ignored, Ignored, OptionalDType dtype, const Call& call) {
            return arange(call, 0, 1, std::nullopt, dtype);
          });
  ops.def("aten::arange.start_step", [](Builder&, Ignored, Ignored, Ignored, OptionalDType dtype,
                                        const Call& call) { return arange(call, 0, 1, 2, dtype); });
  ops.def({"aten::linspace", "aten::linspace.Tensor_Tensor", "aten::linspace.Tensor_Scalar",
           "aten::linspace.Scalar_Tensor"},
          linspace_of);
  ops.def({"aten::logspace", "aten::logspace.Tensor_Tensor", "aten::logspace.Tensor_Scalar",
           "aten::logspace.Scalar_Tensor"},
          logspace_of);
}

Value eye(Builder& b, const Dim& rows, const Dim& columns, const OptionalDType& dtype) {
  const Value identity = b.op("EyeLike", {b.full(DType::f32, 0, {rows, columns})});
  return b.cast(identity, dtype.value_or(default_dtype()));
}

Value trilu(Builder& b, Value self, const Dim& diagonal, bool upper) {
  return b.op("Trilu", {self, b.dim_value(diagonal)}, {{"upper", int64_t{upper}}});
}

// Returns the row and column indices of the elements on one side of a diagonal.
Value triangle(Builder& b, const Dim& height, const Dim& width, const Dim& diagonal, bool upper,
               const OptionalDType& dtype) {
  if (!height.is_constant() || !width.is_constant() || !diagonal.is_constant()) {
    const Value ones = b.full(DType::f32, 1, {height, width});
    return b.cast(b.op("NonZero", {trilu(b, ones, diagonal, upper)}), dtype.value_or(DType::i64));
  }
  const int64_t rows = *height.constant(), columns = *width.constant();
  const int64_t offset = *diagonal.constant();
  b.constant_size(static_cast<double>(rows) * static_cast<double>(columns));
  Ints row_numbers;
  Ints column_numbers;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      if (upper ? column - row < offset : column - row > offset) continue;
      row_numbers.push_back(row);
      column_numbers.push_back(column);
    }
  }
  const auto count = static_cast<int64_t>(row_numbers.size());
  row_numbers.insert(row_numbers.end(), column_numbers.begin(), column_numbers.end());
  return b.tensor(make_tensor(dtype.value_or(DType::i64), {2, count}, row_numbers));
}

void register_triangles(OpTable& ops) {
  ops.def("aten::eye", [](Builder& b, Dim n, OptionalDType dtype) { return eye(b, n, n, dtype); });
  ops.def("aten::eye.m",
          [](Builder& b, Dim n, Dim m, OptionalDType dtype) { return eye(b, n, m, dtype); });
  ops.def("aten::tril",
          [](Builder& b, Value self, Dim diagonal) { return trilu(b, self, diagonal, false); });
  ops.def("aten::triu",
          [](Builder& b, Value self, Dim diagonal) { return trilu(b, self, diagonal, true); });
  ops.def("aten::tril_indices", [](Builder& b, Dim row, Dim col, Dim offset, OptionalDType dtype) {
    return triangle(b, row, col, offset, false, dtype);
  });
  ops.def("aten::triu_indices", [](Builder& b, Dim row, Dim col, Dim offset, OptionalDType dtype) {
    return triangle(b, row, col, offset, true, dtype);
  });
}

// num_classes = -1 selects one more than the largest class.
Value one_hot(Builder& b, Value self, const Dim& num_classes) {
  const Value classes =
      num_classes.constant_or(0) >= 0
          ? b.shape_value({num_classes})
          : b.Add(b.reduce("ReduceMax", b.reshape(self, {numel(self->known_shape())}), {0}, true),
                  b.i64s({1}));
  const Value indices = self->rank() == 0 ? b.unsqueeze(self, {0}) : self;
  const Value hot = b.op("OneHot", {indices, classes, b.i64s({0, 1})}, {{"axis", -1}});
  return self->rank() == 0 ? b.squeeze(hot, {0}) : hot;
}

}  // namespace

void register_creation(OpTable& ops) {
  register_filled(ops);
  register_ranges(ops);
  register_triangles(ops);
  ops.def("aten::one_hot", one_hot);
}

}  // namespace onnx_native::ops
