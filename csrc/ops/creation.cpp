// Tensors made from sizes and numbers.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "ops/families.h"
#include "ops/numeric.h"

namespace onnx_native::ops {
namespace {

using OptionalDType = std::optional<DType>;

// A tensor of this shape with argument i's value everywhere.
Value filled(const Call& call, size_t i, const OptionalDType& dtype, const Shape& shape) {
  Builder& b = call.builder();
  if (is_literal(call, i)) {
    const Scalar value = call.scalar(i);
    return b.full(dtype.value_or(value.kind_dtype()), value, shape);
  }
  return b.expand(b.cast(call.tensor(i), dtype), shape);
}

template <int kValue>
void register_constant(OpTable& ops, const std::string& name) {
  ops.def("aten::" + name, [](Builder& b, Shape size, OptionalDType dtype) {
    return b.full(dtype.value_or(DType::f32), kValue, size);
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
  // Memory that nobody has written to: zeros.
  ops.def("aten::empty.memory_format", [](Builder& b, Shape size, OptionalDType dtype) {
    return b.full(dtype.value_or(DType::f32), 0, size);
  });
  ops.def({"aten::empty_strided", "aten::empty_permuted"},
          [](Builder& b, Shape size, Ignored, OptionalDType dtype) {
            return b.full(dtype.value_or(DType::f32), 0, size);
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
    return argument_as(call, 0, dtype.value_or(DType::f32));
  });
}

bool is_float_literal(const Call& call, size_t i) {
  return call.argument(i).get<double>() != nullptr;
}

// Arguments `start`, `end` and `step` by index; start 0 and step 1 where there is none.
Value arange(const Call& call, std::optional<size_t> start, size_t end, std::optional<size_t> step,
             const OptionalDType& dtype) {
  Builder& b = call.builder();
  const auto is_float = [&](std::optional<size_t> i) { return i && is_float_literal(call, *i); };
  if (!is_float(start) && !is_float(end) && !is_float(step)) {
    const Value range =
        b.range(start ? call.dim(*start) : Dim(0), call.dim(end), step ? call.dim(*step) : Dim(1));
    return b.cast(range, dtype.value_or(DType::i64));
  }
  const DType type = dtype.value_or(DType::f32);
  const auto number = [&](std::optional<size_t> i, double otherwise, bool cut) {
    const double value = i ? call.number(*i) : otherwise;
    return cut ? std::trunc(value) : value;
  };
  // As ATen: elements are of the dtype, but the count is computed in integers for int64 only.
  const double first = number(start, 0, is_integral(type));
  const double delta = number(step, 1, is_integral(type));
  const bool cut = type == DType::i64;
  const double length = number(end, 0, cut) - number(start, 0, cut);
  const double count = std::max(0.0, std::ceil(length / number(step, 1, cut)));
  std::vector<double> values(b.constant_size(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = first + delta * static_cast<double>(i);
  return b.tensor(make_tensor(type, {static_cast<int64_t>(values.size())}, values));
}

// As ATen's kernel: from the start in the first half, from the end in the second.
std::vector<double> linspace(Builder& b, Scalar from, Scalar to, int64_t steps, DType dtype) {
  const bool single = accumulation_dtype(dtype) == DType::f32;
  // Of integers, the bounds are cut off first.
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

Value linspace_of_numbers(Builder& b, Scalar start, Scalar end, int64_t steps,
                          OptionalDType dtype) {
  const DType type = dtype.value_or(DType::f32);
  std::vector<double> values = linspace(b, start, end, steps, type);
  if (!is_floating(type)) {
    for (double& value : values) value = std::trunc(value);
  }
  return b.tensor(make_tensor(type, {steps}, values));
}

Value logspace_of_numbers(Builder& b, Scalar start, Scalar end, int64_t steps, double base,
                          OptionalDType dtype) {
  const DType type = dtype.value_or(DType::f32);
  std::vector<double> values = linspace(b, start, end, steps, type);
  for (double& value : values) {
    value = std::pow(base, value);
    if (!is_floating(type)) value = std::trunc(value);
  }
  return b.tensor(make_tensor(type, {steps}, values));
}

// Of computed bounds: start + step * i in the first half, end - step * (n - 1 - i) in the second.
// Computed in float64 for integers, whose bounds are cut off first.
Value linspace_of_tensors(const Call& call, int64_t steps, DType result) {
  Builder& b = call.builder();
  const DType dtype = is_floating(result) ? accumulation_dtype(result) : DType::f64;
  const auto bound = [&](size_t i) {
    return b.cast(argument_as(call, i, is_floating(result) ? dtype : DType::i64), dtype);
  };
  const Value start = bound(0);
  const Value end = bound(1);
  if (steps == 1) return b.reshape(start, {1});
  b.constant_size(static_cast<double>(steps));
  std::vector<double> forward(steps);
  std::vector<double> backward(steps);
  std::vector<int64_t> first_half(steps);
  for (int64_t i = 0; i < steps; ++i) {
    forward[i] = static_cast<double>(i);
    backward[i] = static_cast<double>(steps - 1 - i);
    first_half[i] = i < steps / 2;
  }
  const Value step = b.Div(b.Sub(end, start), b.like(start, static_cast<double>(steps - 1)));
  const Value up = b.Add(start, b.Mul(step, b.tensor(make_tensor(dtype, {steps}, forward))));
  const Value down = b.Sub(end, b.Mul(step, b.tensor(make_tensor(dtype, {steps}, backward))));
  return b.where(b.tensor(make_tensor(DType::boolean, {steps}, first_half)), up, down);
}

// Both bounds are in it.
Value closed_range(Builder& b, Scalar start, Scalar end, Scalar step, OptionalDType dtype) {
  const double first = start.to_double();
  const double distance = step.to_double();
  b.check(distance != 0, "a range with step 0");
  const int64_t count = b.constant_size(std::floor((end.to_double() - first) / distance) + 1);
  b.check(count > 0, "a range whose end is before its start");
  std::vector<double> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = first + distance * static_cast<double>(i);
  return b.tensor(make_tensor(dtype.value_or(DType::f32), {count}, values));
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
  ops.def("aten::linspace", linspace_of_numbers);
  ops.def("aten::logspace", logspace_of_numbers);
  ops.def({"aten::linspace.Tensor_Tensor", "aten::linspace.Tensor_Scalar",
           "aten::linspace.Scalar_Tensor"},
          [](Builder& b, Ignored, Ignored, int64_t steps, OptionalDType dtype, const Call& call) {
            const DType type = dtype.value_or(DType::f32);
            return b.cast(linspace_of_tensors(call, steps, type), type);
          });
  ops.def({"aten::logspace.Tensor_Tensor", "aten::logspace.Tensor_Scalar",
           "aten::logspace.Scalar_Tensor"},
          [](Builder& b, Ignored, Ignored, int64_t steps, double base, OptionalDType dtype,
             const Call& call) {
            const DType type = dtype.value_or(DType::f32);
            const Value exponents = linspace_of_tensors(call, steps, type);
            return b.cast(b.Pow(b.like(exponents, base), exponents), type);
          });
}

Value eye(Builder& b, const Dim& rows, const Dim& columns, const OptionalDType& dtype) {
  const Value identity = b.op("EyeLike", {b.full(DType::f32, 0, {rows, columns})});
  return b.cast(identity, dtype.value_or(DType::f32));
}

Value trilu(Builder& b, Value self, const Dim& diagonal, bool upper) {
  return b.op("Trilu", {self, b.dim_value(diagonal)}, {{"upper", int64_t{upper}}});
}

// Row and column numbers of the elements on one side of a diagonal.
Value triangle(Builder& b, int64_t rows, int64_t columns, int64_t offset, bool upper,
               const OptionalDType& dtype) {
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
  ops.def("aten::tril_indices",
          [](Builder& b, int64_t row, int64_t col, int64_t offset, OptionalDType dtype) {
            return triangle(b, row, col, offset, false, dtype);
          });
  ops.def("aten::triu_indices",
          [](Builder& b, int64_t row, int64_t col, int64_t offset, OptionalDType dtype) {
            return triangle(b, row, col, offset, true, dtype);
          });
}

Value one_hot(Builder& b, Value self, int64_t num_classes) {
  const Value classes =
      num_classes >= 0
          ? b.i64s({num_classes})
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
