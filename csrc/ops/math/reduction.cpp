// Reductions over axes.
#include <array>

#include "ops/families.h"
#include "ops/formulas/axes.h"
#include "ops/formulas/index.h"
#include "ops/formulas/numeric.h"

namespace onnx_native::ops {
namespace {

using Axes = std::optional<Ints>;

Axes one_axis(const std::optional<int64_t>& dim) { return dim ? Axes(Ints{*dim}) : std::nullopt; }

Value sum(Builder& b, Value self, Axes dim, bool keepdim, std::optional<DType> dtype) {
  return sum_over(b, for_sum(b, self, dtype), axes_of(self, dim), keepdim);
}

Value product(Builder& b, Value self, Axes dim, bool keepdim, std::optional<DType> dtype) {
  return reduced(b, "ReduceProd", for_sum(b, self, dtype), axes_of(self, dim), keepdim);
}

Value mean(Builder& b, Value self, Axes dim, bool keepdim, std::optional<DType> dtype) {
  return mean_over(b, b.cast(self, dtype), axes_of(self, dim), keepdim);
}

Value nan_sum(Builder& b, Value self, Axes dim, bool keepdim, std::optional<DType> dtype) {
  Value x = for_sum(b, self, dtype);
  if (is_floating(x->dtype)) x = b.where(b.IsNaN(x), b.like(x, 0), x);
  return sum_over(b, x, axes_of(self, dim), keepdim);
}

Value nan_mean(Builder& b, Value self, Axes dim, bool keepdim, std::optional<DType> dtype) {
  const Value x = b.cast(self, dtype);
  const Ints axes = axes_of(self, dim);
  const Value nan = b.IsNaN(x);
  const Value total = sum_over(b, b.where(nan, b.like(x, 0), x), axes, keepdim);
  const Value count = sum_over(b, b.cast(b.Not(nan), DType::i64), axes, keepdim);
  return b.Div(total, b.cast(count, x->dtype));
}

Value count_nonzero(Builder& b, Value self, const Axes& dim) {
  const Value nonzero = b.cast(b.cast(self, DType::boolean), DType::i64);
  return sum_over(b, nonzero, axes_of(self, dim), false);
}

// Returns true if any element of a bool tensor is true; false over an empty axis.
Value any_over(Builder& b, Value x, const Ints& axes, bool keepdim) {
  if (axes.empty()) return x;
  if (count_over(x, axes).known_positive(false)) {
    const Value most = b.reduce("ReduceMax", b.cast(x, DType::i32), axes, keepdim);
    return b.cast(most, DType::boolean);
  }
  return b.cast(b.reduce("ReduceSum", b.cast(x, DType::i64), axes, keepdim), DType::boolean);
}

// Returns uint8 for uint8 input, else bool.
Value any(Builder& b, Value self, const Ints& axes, bool keepdim) {
  const Value any = any_over(b, b.cast(self, DType::boolean), axes, keepdim);
  return b.cast(any, self->dtype == DType::u8 ? DType::u8 : DType::boolean);
}

Value all(Builder& b, Value self, const Ints& axes, bool keepdim) {
  const Value zero = b.Not(b.cast(self, DType::boolean));
  const Value all = b.Not(any_over(b, zero, axes, keepdim));
  return b.cast(all, self->dtype == DType::u8 ? DType::u8 : DType::boolean);
}

// Returns the first index of the extreme. NaN counts as extreme, but ONNX Runtime ignores it.
Value index_of_extreme(Builder& b, const std::string& onnx_op, Value x, int64_t axis,
                       bool keepdim) {
  if (x->dtype == DType::boolean || (is_integral(x->dtype) && item_size(x->dtype) < 4)) {
    x = b.cast(x, DType::i32);
  }
  const std::vector<onnx::Attribute> attributes = {{"axis", axis}, {"keepdims", int64_t{keepdim}}};
  const Value index = b.op(onnx_op, {x}, attributes);
  if (!is_floating(x->dtype)) return index;
  const Value nan = b.cast(b.IsNaN(x), DType::i32);
  const Value any_nan = b.cast(b.reduce("ReduceMax", nan, {axis}, keepdim), DType::boolean);
  return b.where(any_nan, b.op("ArgMax", {nan}, attributes), index);
}

Value arg_extreme(Builder& b, const std::string& onnx_op, Value self, std::optional<int64_t> dim,
                  bool keepdim) {
  if (self->rank() == 0) return b.i64(0);
  if (dim) {
    return index_of_extreme(b, onnx_op, self, normalize_axis(*dim, self->rank()), keepdim);
  }
  const Value flat = b.reshape(self, {numel(self->known_shape())});
  const Value index = index_of_extreme(b, onnx_op, flat, 0, false);
  return keepdim ? b.reshape(index, Shape(self->rank(), Dim(1))) : index;
}

Value extreme(Builder& b, const std::string& onnx_op, Value self, const Axes& dim, bool keepdim) {
  return extreme_over(b, onnx_op, self, axes_of(self, dim), keepdim);
}

std::array<Value, 2> extreme_with_index(Builder& b, const char* which, Value self, int64_t dim,
                                        bool keepdim) {
  const std::string name = which;
  return {extreme(b, "Reduce" + name, self, Ints{dim}, keepdim),
          arg_extreme(b, "Arg" + name, self, dim, keepdim)};
}

struct Moments {
  Value variance;
  Value mean;
};

Moments moments(Builder& b, Value self, const Axes& dim, const Number& correction, bool keepdim) {
  const Value x = b.cast(self, accumulation_dtype(self->dtype));
  const Ints axes = axes_of(self, dim);
  const Value center = mean_over(b, x, axes, true);
  const Value difference = b.Sub(x, center);
  const Value squares = sum_over(b, b.Mul(difference, difference), axes, keepdim);
  const Value freedom =
      b.Max(b.Sub(count_like(b, x, count_over(x, axes)), b.like(x, correction)), b.like(x, 0));
  const Value mean = keepdim || axes.empty() ? center : b.squeeze(center, axes);
  return {b.cast(b.Div(squares, freedom), self->dtype), b.cast(mean, self->dtype)};
}

// Defines all three overloads of var or std, alone or with the mean; `make` selects the results.
template <class Make>
void define_moments(OpTable& ops, const std::string& name, Make make) {
  ops.def(name, [make](Builder& b, Value self, bool unbiased) {
    return make(b, moments(b, self, std::nullopt, unbiased, false));
  });
  ops.def(name + ".dim", [make](Builder& b, Value self, Axes dim, bool unbiased, bool keepdim) {
    return make(b, moments(b, self, dim, unbiased, keepdim));
  });
  ops.def(name + ".correction",
          [make](Builder& b, Value self, Axes dim, std::optional<Number> correction, bool keepdim) {
            return make(b, moments(b, self, dim, correction.value_or(1), keepdim));
          });
}

Value log_sum_exp(Builder& b, Value self, Ints dim, bool keepdim) {
  return reduced(b, "ReduceLogSumExp", self, axes_of(self, dim), keepdim);
}

void register_sums(OpTable& ops) {
  ops.def("aten::sum", [](Builder& b, Value self, std::optional<DType> dtype) {
    return sum(b, self, std::nullopt, false, dtype);
  });
  ops.def("aten::sum.dim_IntList", sum);
  ops.def("aten::nansum", nan_sum);
  ops.def("aten::prod", [](Builder& b, Value self, std::optional<DType> dtype) {
    return product(b, self, std::nullopt, false, dtype);
  });
  ops.def("aten::prod.dim_int",
          [](Builder& b, Value self, int64_t dim, bool keepdim, std::optional<DType> dtype) {
            return product(b, self, Ints{dim}, keepdim, dtype);
          });
  ops.def("aten::mean", [](Builder& b, Value self, std::optional<DType> dtype) {
    return mean(b, self, std::nullopt, false, dtype);
  });
  ops.def("aten::mean.dim", mean);
  ops.def("aten::nanmean", nan_mean);
  ops.def("aten::count_nonzero", [](Builder& b, Value self, std::optional<int64_t> dim) {
    return count_nonzero(b, self, one_axis(dim));
  });
  ops.def("aten::count_nonzero.dim_IntList",
          [](Builder& b, Value self, Ints dim) { return count_nonzero(b, self, dim); });
  ops.def({"aten::logsumexp", "aten::special_logsumexp"}, Promote::int_to_float, log_sum_exp);
}

void register_extremes(OpTable& ops) {
  for (const char* which : {"Max", "Min"}) {
    const std::string name = which == std::string("Max") ? "max" : "min";
    const std::string reduce = std::string("Reduce") + which;
    const std::string arg = std::string("Arg") + which;
    ops.def("aten::a" + name, [reduce](Builder& b, Value self, Ints dim, bool keepdim) {
      return extreme(b, reduce, self, dim, keepdim);
    });
    ops.def("aten::" + name, [reduce](Builder& b, Value self) {
      return extreme(b, reduce, self, std::nullopt, false);
    });
    ops.def("aten::" + name + ".dim", [which](Builder& b, Value self, int64_t dim, bool keepdim) {
      return extreme_with_index(b, which, self, dim, keepdim);
    });
    ops.def("aten::arg" + name,
            [arg](Builder& b, Value self, std::optional<int64_t> dim, bool keepdim) {
              return arg_extreme(b, arg, self, dim, keepdim);
            });
  }
  ops.def("aten::_aminmax", [](Builder& b, Value self) {
    return std::array{extreme(b, "ReduceMin", self, std::nullopt, false),
                      extreme(b, "ReduceMax", self, std::nullopt, false)};
  });
  ops.def("aten::_aminmax.dim", [](Builder& b, Value self, int64_t dim, bool keepdim) {
    return std::array{extreme(b, "ReduceMin", self, Ints{dim}, keepdim),
                      extreme(b, "ReduceMax", self, Ints{dim}, keepdim)};
  });
  ops.def("aten::aminmax", [](Builder& b, Value self, std::optional<int64_t> dim, bool keepdim) {
    if (!dim && keepdim) {
      Ints all = axes_of(self, std::nullopt);
      return std::array{extreme(b, "ReduceMin", self, all, true),
                        extreme(b, "ReduceMax", self, all, true)};
    }
    return std::array{extreme(b, "ReduceMin", self, one_axis(dim), keepdim),
                      extreme(b, "ReduceMax", self, one_axis(dim), keepdim)};
  });
}

void register_truth(OpTable& ops) {
  using Over = Value (*)(Builder&, Value, const Ints&, bool);
  const auto define_whole = [&](const std::string& name, Over over) {
    ops.def(name, [over](Builder& b, Value self) {
      return over(b, self, axes_of(self, std::nullopt), false);
    });
  };
  const auto define = [&](const std::string& name, Over over) {
    define_whole(name, over);
    ops.def(name + ".dim", [over](Builder& b, Value self, int64_t dim, bool keepdim) {
      return over(b, self, axes_of(self, Ints{dim}), keepdim);
    });
    // Only in these overloads does an empty list of axes reduce nothing.
    ops.def(name + ".dims", [over](Builder& b, Value self, Axes dim, bool keepdim) {
      return over(b, self, dim && dim->empty() ? Ints{} : axes_of(self, dim), keepdim);
    });
  };
  define("aten::any", any);
  define("aten::all", all);
  define_whole("aten::_is_any_true", any);
  define_whole("aten::_is_all_true", all);
}

}  // namespace

void register_reduction(OpTable& ops) {
  register_sums(ops);
  register_extremes(ops);
  register_truth(ops);
  define_moments(ops, "aten::var", [](Builder&, const Moments& m) { return m.variance; });
  define_moments(ops, "aten::std", [](Builder& b, const Moments& m) { return b.Sqrt(m.variance); });
  define_moments(ops, "aten::var_mean", [](Builder&, const Moments& m) {
    return std::array{m.variance, m.mean};
  });
  define_moments(ops, "aten::std_mean", [](Builder& b, const Moments& m) {
    return std::array{b.Sqrt(m.variance), m.mean};
  });
}

}  // namespace onnx_native::ops
