#include <algorithm>

#include "onnx/builder.h"
#include "ops/families.h"
#include "ops/formulas/matrix_product.h"
#include "ops/formulas/numeric.h"
#include "ops/formulas/rounding.h"
#include "ops/formulas/view.h"

namespace onnx_native::ops {
namespace {

// A factor of a 2-D product: the input of a Transpose, if Gemm can transpose instead.
struct Factor {
  Value value;
  bool transposed = false;
};

Factor factor(Value value) {
  const onnx::Node* producer = value->producer;
  if (producer && producer->op_type == "Transpose" && value->rank_or(-1) == 2 &&
      producer->attribute_ints("perm") == Ints{1, 0})
    return {producer->inputs[0], true};
  return {value};
}

Value gemm(Builder& b, const Factor& x, const Factor& y, Value addend, const Number& alpha,
           const Number& beta) {
  std::vector<onnx::Attribute> attributes;
  if (x.transposed) attributes.push_back({"transA", 1});
  if (y.transposed) attributes.push_back({"transB", 1});
  if (!is_one(alpha)) attributes.push_back({"alpha", alpha.to_double()});
  if (addend && !is_one(beta)) attributes.push_back({"beta", beta.to_double()});
  return b.op("Gemm", addend ? Values{x.value, y.value, addend} : Values{x.value, y.value},
              std::move(attributes));
}

Value mm(Builder& b, Value self, Value mat2) {
  const Factor x = factor(self), y = factor(mat2);
  if (is_floating(self->dtype) && (x.transposed || y.transposed))
    return gemm(b, x, y, nullptr, 1, 1);
  return b.matmul(self, mat2);
}

// beta * self + alpha * product; with beta = 0, eager does not read `self`.
Value add_product(Builder& b, Value self, Value product, const Number& beta, const Number& alpha) {
  product = scaled(b, product, alpha);
  if (is_zero(beta)) return product;
  const Value sum = b.Add(scaled(b, self, beta), product);
  if (beta.is_constant()) return sum;
  return b.where(b.Equal(b.like(product, beta), b.like(product, 0)), product, sum);
}

// Gemm takes only floats, and ONNX Runtime's Gemm ignores beta if the inner dimension is 0.
Value addmm(Builder& b, Value self, Value mat1, Value mat2, Number beta, Number alpha) {
  const bool computed = !alpha.is_constant() || !beta.is_constant();
  if (!is_floating(self->dtype) || mat1->dim(1).equals(0) || computed)
    return add_product(b, self, b.matmul(mat1, mat2), beta, alpha);
  return gemm(b, factor(mat1), factor(mat2), is_zero(beta) ? nullptr : self, alpha, beta);
}

// Accumulates 16-bit floats over the batch in float32.
Value addbmm(Builder& b, Value self, Value batch1, Value batch2, Number beta, Number alpha) {
  const DType dtype = self->dtype;
  const bool narrow = is_floating(dtype) && item_size(dtype) == 2;
  const auto wide = [&](Value v) { return narrow ? b.cast(v, DType::f32) : v; };
  const Value sum = b.reduce("ReduceSum", b.matmul(wide(batch1), wide(batch2)), {0}, false);
  return b.cast(add_product(b, wide(self), sum, beta, alpha), dtype);
}

Value linear(Builder& b, Value input, Value weight, std::optional<Value> bias);

// Adds the bias before the sums are rounded. ONNX Runtime computes MatMul of bfloat16 in float32
// anyway.
Value linear_of_bfloat16(Builder& b, Value input, Value weight, Value bias) {
  const auto wide = [&b](Value v) { return b.cast(v, DType::f32); };
  return b.cast(linear(b, wide(input), wide(weight), wide(bias)), DType::bf16);
}

Value linear(Builder& b, Value input, Value weight, std::optional<Value> bias) {
  if (bias && input->dtype == DType::bf16) return linear_of_bfloat16(b, input, weight, *bias);
  if (weight->rank() == 2 && input->rank_or(-1) == 2 && is_floating(input->dtype))
    return gemm(b, factor(input), {weight, true}, bias.value_or(nullptr), 1, 1);
  const Value y = b.matmul(input, weight->rank() == 2 ? b.transpose(weight, {1, 0}) : weight);
  return bias ? b.Add(y, *bias) : y;
}

Value outer(Builder& b, Value x, Value y) {
  return b.Mul(b.unsqueeze(x, {-1}), b.unsqueeze(y, {0}));
}

// Repeats an axis whose size may be 1.
Value with_size(Builder& b, Value v, int64_t axis, const Dim& size) {
  if (v->dim(axis) == size) return v;
  Shape shape = v->known_shape();
  shape[axis] = size;
  return b.expand(v, shape);
}

// Contracts x_axes[i] with y_axes[i]. The result has the free axes of `x`, then those of `y`. If
// one axis of a pair has size 1, the other axis is summed on its own.
Value tensordot(Builder& b, Value x, Value y, Ints x_axes, Ints y_axes) {
  const Shape x_shape = x->known_shape(), y_shape = y->known_shape();
  b.check(x_axes.size() == y_axes.size(), "both lists of `dims` must have the same length");
  const auto rank = [](const Shape& s) { return static_cast<int64_t>(s.size()); };
  Ints x_single, y_single;
  for (size_t i = 0; i < x_axes.size(); ++i) {
    x_axes[i] = normalize_axis(x_axes[i], rank(x_shape));
    y_axes[i] = normalize_axis(y_axes[i], rank(y_shape));
    const bool x_one = x_shape[x_axes[i]].equals(1), y_one = y_shape[y_axes[i]].equals(1);
    if (x_one && !y_one) y_single.push_back(y_axes[i]);
    if (y_one && !x_one) x_single.push_back(x_axes[i]);
    if (x_one || y_one) continue;
    const Dim size = Dim::broadcast(x_shape[x_axes[i]], y_shape[y_axes[i]]);  // one may be 1
    x = with_size(b, x, x_axes[i], size);
    y = with_size(b, y, y_axes[i], size);
  }
  if (!x_single.empty()) x = b.reduce("ReduceSum", x, x_single, true);
  if (!y_single.empty()) y = b.reduce("ReduceSum", y, y_single, true);
  const auto free_axes = [](int64_t rank, const Ints& taken) {
    Ints free;
    for (int64_t i = 0; i < rank; ++i)
      if (std::find(taken.begin(), taken.end(), i) == taken.end()) free.push_back(i);
    return free;
  };
  const Ints x_free = free_axes(rank(x_shape), x_axes), y_free = free_axes(rank(y_shape), y_axes);
  const auto sizes = [](Value v, const Ints& axes) {
    Shape shape;
    for (int64_t axis : axes) shape.push_back(v->dim(axis));
    return shape;
  };
  const auto join = [](Ints a, const Ints& c) {
    a.insert(a.end(), c.begin(), c.end());
    return a;
  };
  const Dim contracted = numel(sizes(x, x_axes));
  Shape result = sizes(x, x_free);
  const Dim rows = numel(result);
  const Shape y_sizes = sizes(y, y_free);
  result.insert(result.end(), y_sizes.begin(), y_sizes.end());
  const Value left = b.reshape(b.transpose(x, join(x_free, x_axes)), {rows, contracted});
  const Value right = b.reshape(b.transpose(y, join(y_axes, y_free)), {contracted, numel(y_sizes)});
  return b.reshape(mm(b, left, right), result);
}

Value inner(Builder& b, Value self, Value other) {
  if (self->rank() == 0 || other->rank() == 0) return b.Mul(self, other);
  return tensordot(b, self, other, {-1}, {-1});
}

Value kron(Builder& b, Value self, Value other) {
  const size_t rank = std::max(self->shape->size(), other->shape->size());
  const auto padded = [rank](Value v) {
    Shape shape(rank - v->shape->size(), Dim(1));
    shape.insert(shape.end(), v->shape->begin(), v->shape->end());
    return shape;
  };
  const Shape x = padded(self), y = padded(other);
  Shape x_spread, y_spread, result;
  for (size_t i = 0; i < rank; ++i) {
    x_spread.insert(x_spread.end(), {x[i], Dim(1)});
    y_spread.insert(y_spread.end(), {Dim(1), y[i]});
    result.push_back(x[i] * y[i]);
  }
  return b.reshape(b.Mul(b.reshape(self, x_spread), b.reshape(other, y_spread)), result);
}

Value chain(Builder& b, const Values& matrices) {
  Value product = matrices.at(0);
  for (size_t i = 1; i < matrices.size(); ++i) product = b.matmul(product, matrices[i]);
  return product;
}

// sum_ij input1[..., i] * weight[o, i, j] * input2[..., j], with the weight as an (i, o*j) matrix.
Value bilinear(Builder& b, Value input1, Value input2, Value weight, std::optional<Value> bias) {
  const Dim& out = weight->dim(0);
  const Dim& in1 = weight->dim(1);
  const Dim& in2 = weight->dim(2);
  Shape left = input1->known_shape();
  left.back() = out;
  left.push_back(in2);
  const Value matrix = b.reshape(b.transpose(weight, {1, 0, 2}), {in1, out * in2});
  const Value partial = b.reshape(b.matmul(input1, matrix), left);
  const Value y = b.squeeze(b.matmul(partial, b.unsqueeze(input2, {-1})), {-1});
  return bias ? b.Add(y, *bias) : y;
}

// Sums the products of three tensors over `sumdim`. Each tensor is broadcast along the dimensions
// in its expand list.
Value trilinear(Builder& b, Value i1, Value i2, Value i3, const Ints& expand1, const Ints& expand2,
                const Ints& expand3, const Ints& sumdim, Ignored) {
  const int64_t rank = i1->rank() + static_cast<int64_t>(expand1.size());
  const auto letters = [&](const Ints& without) {
    std::string result;
    for (int64_t axis = 0; axis < rank; ++axis) {
      const bool lacks = std::ranges::any_of(
          without, [&](int64_t other) { return normalize_axis(other, rank) == axis; });
      if (!lacks) result += static_cast<char>('a' + axis);
    }
    return result;
  };
  const std::string equation =
      letters(expand1) + "," + letters(expand2) + "," + letters(expand3) + "->" + letters(sumdim);
  const DType dtype = i1->dtype;  // dtype of the result
  return b.op("Einsum", {i1, b.cast(i2, dtype), b.cast(i3, dtype)}, {{"equation", equation}});
}

Value cross(Builder& b, Value self, Value other, int64_t dim) {
  const auto shape = onnx::broadcast(self->known_shape(), other->known_shape());
  self = b.expand(self, shape);
  other = b.expand(other, shape);
  const Value next = b.i64s({1, 2, 0}), previous = b.i64s({2, 0, 1});
  return b.Sub(b.Mul(b.gather(self, next, dim), b.gather(other, previous, dim)),
               b.Mul(b.gather(self, previous, dim), b.gather(other, next, dim)));
}

// Without `dim`, torch.cross uses the first dimension of size 3.
Value cross_default(Builder& b, Value self, Value other, std::optional<int64_t> dim) {
  if (dim) return cross(b, self, other, *dim);
  for (int64_t i = 0; i < self->rank(); ++i)
    if (self->dim(i).equals(3)) return cross(b, self, other, i);
  b.unsupported("no dimension of the input has size 3");
}

}  // namespace

void register_matmul(OpTable& ops) {
  ops.def("aten::linear", linear);
  ops.def("aten::mm", mm);
  ops.def(
      {"aten::bmm", "aten::matmul", "aten::linalg_matmul", "aten::mv", "aten::dot", "aten::vdot"},
      matrix_product);
  ops.def("aten::addmm", addmm);
  ops.def("aten::addmv",
          [](Builder& b, Value self, Value mat, Value vec, Number beta, Number alpha) {
            return add_product(b, self, matrix_product(b, mat, vec), beta, alpha);
          });
  ops.def("aten::_int_mm", [](Builder& b, Value self, Value mat2) {
    return b.op("MatMulInteger", {self, mat2});
  });
  // These overloads compute in the dtype of the result.
  ops.def({"aten::mm.dtype", "aten::bmm.dtype"},
          [](Builder& b, Value self, Value mat2, DType dtype) {
            return b.matmul(b.cast(self, dtype), b.cast(mat2, dtype));
          });
  ops.def("aten::addmm.dtype",
          [](Builder& b, Value self, Value a, Value c, DType dtype, Number beta, Number alpha) {
            const Value product = b.matmul(b.cast(a, dtype), b.cast(c, dtype));
            return add_product(b, b.cast(self, dtype), product, beta, alpha);
          });
  ops.def("aten::baddbmm", rounded_once([](Builder& b, Value self, Value batch1, Value batch2,
                                           Number beta, Number alpha) {
            return add_product(b, self, b.matmul(batch1, batch2), beta, alpha);
          }));
  ops.def("aten::addbmm", rounded_once(addbmm));
  ops.def("aten::addr", Promote::standard,
          [](Builder& b, Value self, Value vec1, Value vec2, Number beta, Number alpha) {
            return add_product(b, self, outer(b, vec1, vec2), beta, alpha);
          });
  ops.def({"aten::outer", "aten::ger"}, Promote::standard, outer);
  ops.def("aten::inner", Promote::standard, inner);
  ops.def("aten::kron", Promote::standard, kron);
  ops.def("aten::tensordot", tensordot);
  ops.def({"aten::chain_matmul", "aten::linalg_multi_dot"}, chain);
  ops.def("aten::bilinear", bilinear);
  ops.def("aten::_trilinear", trilinear);
  ops.def("aten::linalg_cross", Promote::standard, cross);
  ops.def("aten::cross", Promote::standard, cross_default);
  ops.def("aten::linalg_vecdot", Promote::standard, [](Builder& b, Value x, Value y, int64_t dim) {
    return b.reduce("ReduceSum", b.Mul(x, y), {dim}, false);
  });
  ops.def("aten::linalg_vander", [](Builder& b, Value x, std::optional<Dim> n) {
    x = b.unsqueeze(at_least_1d(b, x), {-1});
    const Value powers = b.range(n ? *n : x->dim(-2));
    if (is_floating(x->dtype)) return b.Pow(x, b.cast(powers, x->dtype));
    return integer_power(b, b.cast(x, DType::i64), powers);
  });
}

}  // namespace onnx_native::ops
