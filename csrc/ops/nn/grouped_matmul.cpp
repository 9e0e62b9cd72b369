// Grouped matrix products, in which each group of rows has its own matrix (mixtures of experts),
// and products of narrow dtypes.
#include "aten/int4_pack.h"
#include "base/packed.h"
#include "ops/families.h"
#include "ops/formulas/loop.h"

namespace onnx_native::ops {
namespace {

constexpr int64_t kSplitOpset = 13;  // sizes of Split are an input

// Groups along an axis: group i ends at offsets[i], where group i + 1 starts.
struct Ranges {
  Value starts, ends;  // int64, 1-d
};

Ranges ranges_of(Builder& b, Value offsets) {
  const Value ends = b.cast(offsets, DType::i64);
  const Value before = b.concat({b.i64s({0}), b.slice(ends, 0, 0, ends->dim(0) - 1)}, 0);
  return {before, ends};
}

// Returns positions [start, end) of an axis; the bounds are tensors of one element.
Value slice_between(Builder& b, Value x, Value start, Value end, int64_t axis) {
  return b.op("Slice", {x, start, end, b.i64s({axis})});
}

// Returns the number of rows after the last group, 1-d.
Value rest_of(Builder& b, Value x, const Ranges& groups) {
  const Dim& count = groups.ends->dim(0);
  return b.Sub(b.dim_value(x->dim(0)), b.slice(groups.ends, 0, count - 1, count));
}

Value zeros(Builder& b, Value x, Value rows, const Dim& columns) {
  return b.full(x->dtype, 0.0, {b.dim_of(rows, DimRange::size()), columns});
}

// Returns the matrices of a weight: of the stack itself, or of its transpose. None if it is no
// weight.
Values matrices_of_weight(Builder& b, Value stack) {
  const onnx::Node* turn = stack->producer;
  const bool is_turned =
      turn && turn->is("Transpose") && turn->attribute_ints("perm") == Ints{0, 2, 1};
  if (is_turned) stack = turn->inputs[0];
  if (!stack->is_constant() || stack->dim(0).equals(0) || b.opset() < kSplitOpset) return {};
  Values parts = b.split(stack, 0, Shape(static_cast<size_t>(*stack->dim(0).constant()), 1));
  for (Value& part : parts) {
    part = b.squeeze(part, {0});
    if (is_turned) part = b.transpose(part, {1, 0});
  }
  return parts;
}

// Multiplies the rows of each group by a matrix of its own. Products of no rows cost nothing, and
// unlike a part of a stack, a weight is not copied in every run.
Value rows_by_weights(Builder& b, Value x, const Values& matrices, const Ranges& groups) {
  const Value rest = rest_of(b, x, groups);
  const Value sizes = b.concat({b.Sub(groups.ends, groups.starts), rest}, 0);
  Values parts = b.ops("Split", matrices.size() + 1, {x, sizes}, {{"axis", 0}});
  for (size_t i = 0; i < matrices.size(); ++i) parts[i] = b.matmul(parts[i], matrices[i]);
  parts.back() = zeros(b, x, rest, matrices[0]->dim(1));
  return b.concat(std::move(parts), 0);
}

// Likewise, with one matrix after the other. Skips empty groups.
Value rows_by_stack(Builder& b, Value x, Value matrices, const Ranges& groups) {
  const Dim& columns = matrices->dim(2);
  const Value used = b.squeeze(b.op("NonZero", {b.Greater(groups.ends, groups.starts)}), {0});
  const Value unused = zeros(b, x, b.Max(rest_of(b, x, groups), b.i64(0)), columns);
  const Dim count = used->dim(0);
  // Iterates from the last group to the first and prepends each product.
  return loop(b, b.dim_value(count), {unused},
              [&](Value i, const Values& states) -> Values {
                const Value place = b.Sub(b.dim_value(count - 1), b.reshape(i, {1}));
                const Value group = b.gather(used, place, 0);
                const Value rows = slice_between(b, x, b.gather(groups.starts, group, 0),
                                                 b.gather(groups.ends, group, 0), 0);
                const Value matrix = b.squeeze(b.gather(matrices, group, 0), {0});
                return {b.concat({b.matmul(rows, matrix), states[0]}, 0)};
              },
              {Shape{Dim::fresh(), columns}})[0];
}

// Multiplies the rows of each group of x (rows, k) by the group's matrix from (groups, k, n). Rows
// after the last group give zeros.
Value rows_by_matrices(Builder& b, Value x, Value matrices, Value offsets) {
  const Ranges groups = ranges_of(b, offsets);
  const Values weights = matrices_of_weight(b, matrices);
  const Value result = weights.empty() ? rows_by_stack(b, x, matrices, groups)
                                       : rows_by_weights(b, x, weights, groups);
  b.refine(result, {x->dim(0), matrices->dim(2)});
  return result;
}

// Multiplies each group of columns of x (m, k) by the same rows of y (k, n): (groups, m, n).
Value inner_groups(Builder& b, Value x, Value y, Value offsets) {
  const Ranges groups = ranges_of(b, offsets);
  return loop(b, b.dim_value(groups.ends->dim(0)), {}, [&](Value i, const Values&) -> Values {
    const Value group = b.reshape(i, {1});
    const Value start = b.gather(groups.starts, group, 0), end = b.gather(groups.ends, group, 0);
    Value product =
        b.matmul(slice_between(b, x, start, end, 1), slice_between(b, y, start, end, 0));
    b.refine(product, {x->dim(0), y->dim(1)});
    return {product};
  })[0];
}

Value grouped_mm(Builder& b, Value self, Value mat2, std::optional<Value> offs,
                 std::optional<Value> bias, std::optional<DType> out_dtype) {
  b.check(!bias, "`bias` is not supported");
  Value y = nullptr;
  if (self->rank() == 3 && mat2->rank() == 3) {
    y = b.matmul(self, mat2);
  } else {
    b.check(offs.has_value(), "`offs` is required unless both operands are 3-D");
    if (self->rank() == 2 && mat2->rank() == 2) {
      y = inner_groups(b, self, mat2, *offs);
    } else if (self->rank() == 2) {
      y = rows_by_matrices(b, self, mat2, *offs);
    } else {
      y = b.transpose(
          rows_by_matrices(b, b.transpose(mat2, {1, 0}), b.transpose(self, {0, 2, 1}), *offs),
          {1, 0});
    }
  }
  return b.cast(y, out_dtype);
}

// --- Narrow dtypes.

// Each scale is a single number, or one number per row (scale_a) or column (scale_b).
Value scaled_mm(Builder& b, Value self, Value mat2, Value scale_a, Value scale_b,
                std::optional<Value> bias, std::optional<Value> scale_result,
                std::optional<DType> out_dtype, Ignored) {
  const auto wide = [&](Value v) { return b.cast(v, DType::f32); };
  const auto one_or_all = [&](Value v) {
    return numel(v->known_shape()).equals(1) ? b.reshape(v, {}) : v;
  };
  Value y =
      b.matmul(b.Mul(wide(self), one_or_all(scale_a)), b.Mul(wide(mat2), one_or_all(scale_b)));
  if (bias) y = b.Add(y, wide(*bias));
  if (scale_result) y = b.Mul(y, one_or_all(*scale_result));
  return b.cast(y, out_dtype.value_or(self->dtype));
}

// (q - 8) * scales, where groups of `size` rows of q share scales; opset 21 has it as an operator.
Value int4_weight(Builder& b, Value packed, const Shape& shape, int64_t size, Value scales) {
  const int64_t rows = *shape[0].constant(), columns = *shape[1].constant();
  const TensorData codes = aten::unpacked_int4(*packed->constant, rows, columns);
  const int64_t groups = rows / size;
  constexpr int64_t kBlockOpset = 21;
  if (b.opset() < kBlockOpset) {
    const Value grouped = b.reshape(b.tensor(codes), {groups, size, columns});
    const Value centered = b.Sub(b.cast(grouped, DType::f32), b.scalar(DType::f32, 8));
    return b.reshape(b.Mul(centered, b.unsqueeze(scales, {1})), shape);
  }
  const std::vector<std::byte> middles(static_cast<size_t>(groups * columns), std::byte{8});
  const TensorData middle = make_tensor(DType::u8, {groups, columns}, middles);
  return b.op("DequantizeLinear",
              {b.tensor(onnx_native::packed(codes, kUint4)), scales,
               b.tensor(onnx_native::packed(middle, kUint4))},
              {{"axis", int64_t{0}}, {"block_size", size}});
}

// x @ ((q - 8) * scales + zeros). The zeros multiply the sums of x over the groups.
Value int4_product(Builder& b, Value x, Value packed, int64_t size, Value scales_and_zeros) {
  const Dim& rows = x->dim(1);
  const Dim& columns = scales_and_zeros->dim(1);
  b.check(packed->is_constant() && rows.is_constant() && columns.is_constant(),
          "the packed weight must be a constant");
  const DType dtype = x->dtype;
  x = b.cast(x, DType::f32);
  const Value parameters = b.cast(scales_and_zeros, DType::f32);
  const Value scales = b.select(parameters, 2, 0), zeros = b.select(parameters, 2, 1);
  const Value weight = int4_weight(b, packed, {rows, columns}, size, scales);
  const Value groups = b.reshape(x, {x->dim(0), Dim::floor_div(rows, size), size});
  const Value sums = b.reduce("ReduceSum", groups, {2}, false);
  return b.cast(b.Add(b.matmul(x, weight), b.matmul(sums, zeros)), dtype);
}

}  // namespace

void register_grouped_matmul(OpTable& ops) {
  ops.def("aten::_grouped_mm", grouped_mm);
  ops.def("transformers::grouped_mm_fallback",
          [](Builder& b, Value input, Value weight, Value offs) {
            return rows_by_matrices(b, input, weight, offs);
          });
  ops.def("aten::_weight_int8pack_mm", [](Builder& b, Value self, Value mat2, Value scales) {
    const Value weight = b.cast(b.transpose(mat2, {1, 0}), DType::f32);
    const Value y = b.matmul(b.cast(self, DType::f32), weight);
    return b.cast(b.Mul(y, b.cast(scales, DType::f32)), self->dtype);
  });
  ops.def("aten::_weight_int4pack_mm_for_cpu", int4_product);
  ops.def("aten::_scaled_mm", scaled_mm);
}

}  // namespace onnx_native::ops
