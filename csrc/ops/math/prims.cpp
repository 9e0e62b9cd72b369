// PyTorch's primitives, the results of its decompositions. Their arguments have one dtype or are
// numbers.
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ops/families.h"
#include "ops/formulas/axes.h"
#include "ops/formulas/numeric.h"

namespace onnx_native::ops {
namespace {

// Maps a primitive to the ATen operator with the same arguments.
constexpr std::array<std::pair<std::string_view, std::string_view>, 65> kSame = {{
    {"abs", "abs"},
    {"acos", "acos"},
    {"acosh", "acosh"},
    {"asin", "asin"},
    {"asinh", "asinh"},
    {"atan", "atan"},
    {"atan2", "atan2"},
    {"atanh", "atanh"},
    {"bitwise_and", "bitwise_and.Tensor"},
    {"bitwise_not", "bitwise_not"},
    {"bitwise_or", "bitwise_or.Tensor"},
    {"bitwise_xor", "bitwise_xor.Tensor"},
    {"cat", "cat"},
    {"ceil", "ceil"},
    {"clone", "clone"},
    {"cos", "cos"},
    {"cosh", "cosh"},
    {"digamma", "digamma"},
    {"eq", "eq.Tensor"},
    {"erf", "erf"},
    {"erfc", "erfc"},
    {"exp", "exp"},
    {"exp2", "exp2"},
    {"expm1", "expm1"},
    {"fill", "fill.Scalar"},
    {"floor", "floor"},
    {"fmax", "fmax"},
    {"fmin", "fmin"},
    {"fmod", "fmod.Tensor"},
    {"ge", "ge.Tensor"},
    {"gt", "gt.Tensor"},
    {"hypot", "hypot"},
    {"isfinite", "isfinite"},
    {"le", "le.Tensor"},
    {"lgamma", "lgamma"},
    {"log", "log"},
    {"log10", "log10"},
    {"log1p", "log1p"},
    {"log2", "log2"},
    {"lt", "lt.Tensor"},
    {"maximum", "maximum"},
    {"minimum", "minimum"},
    {"mul", "mul.Tensor"},
    {"ne", "ne.Tensor"},
    {"neg", "neg"},
    {"pow", "pow.Tensor_Tensor"},
    {"reciprocal", "reciprocal"},
    {"remainder", "remainder.Tensor"},
    {"reshape", "reshape"},
    {"rev", "flip"},
    {"round", "round"},
    {"rsqrt", "rsqrt"},
    {"scalar_tensor", "scalar_tensor"},
    {"shift_left", "bitwise_left_shift.Tensor"},
    {"shift_right_arithmetic", "bitwise_right_shift.Tensor"},
    {"sign", "sign"},
    {"sin", "sin"},
    {"sinh", "sinh"},
    {"sqrt", "sqrt"},
    {"squeeze", "squeeze.dims"},
    {"tan", "tan"},
    {"tanh", "tanh"},
    {"transpose", "permute"},
    {"trunc", "trunc"},
    {"where", "where.self"},
}};

using Reduction = Value (*)(Builder&, std::string_view, Value, const Ints&, bool);

void register_prim_reduction(OpTable& ops, std::string_view name, std::string_view onnx_op,
                             Reduction reduction) {
  ops.def("prims::" + std::string(name),
          [=](Builder& b, Value inp, std::optional<Ints> dims, std::optional<DType> dtype) {
            const Value x = b.cast(inp, dtype);
            return reduction(b, onnx_op, x, axes_of(inp, dims), /*keepdim=*/false);
          });
}

// Returns the sizes of x's axes before `end`.
Shape leading(Value x, int64_t end) { return part_of(x, 0, end); }

}  // namespace

void register_prims(OpTable& ops) {
  for (const auto& [name, same] : kSame) {
    ops.alias("prims::" + std::string(name), "aten::" + std::string(same));
  }
  ops.def("prims::add", Promote::standard, sum_of);
  ops.def("prims::sub", Promote::standard,
          [](Builder& b, Value x, Value y) { return b.Sub(x, y); });
  ops.def("prims::div", Promote::standard,
          [](Builder& b, Value x, Value y) { return b.Div(x, y); });
  ops.def({"prims::view_of", "prims::device_put"}, [](Builder&, Value a) { return a; });
  ops.def("prims::convert_element_type",
          [](Builder& b, Value a, DType dtype) { return b.cast(a, dtype); });
  register_prim_reduction(ops, "sum", "ReduceSum", reduced);
  register_prim_reduction(ops, "prod", "ReduceProd", reduced);
  register_prim_reduction(ops, "amax", "ReduceMax", extreme_over);
  register_prim_reduction(ops, "amin", "ReduceMin", extreme_over);
  ops.def("prims::var", [](Builder& b, Value inp, std::optional<Ints> dims,
                           std::optional<Number> correction, std::optional<DType> dtype) {
    const Value x = b.cast(inp, dtype);
    const Ints axes = axes_of(inp, dims);
    const Value centered = b.Sub(x, reduced(b, "ReduceMean", x, axes, /*keepdim=*/true));
    const Value squares = sum_over(b, b.Mul(centered, centered), axes, /*keepdim=*/false);
    const Value divisor = b.Sub(b.cast(b.dim_value(count_over(x, axes)), x->dtype),
                                b.like(x, correction.value_or(1)));
    return b.Div(squares, b.Max(divisor, b.like(x, 0)));
  });
  ops.def("prims::broadcast_in_dim", [](Builder& b, Value a, const Shape& shape,
                                        const Ints& broadcast_dimensions) {
    Shape aligned(shape.size(), Dim(1));
    for (size_t i = 0; i < broadcast_dimensions.size(); ++i) {
      aligned[static_cast<size_t>(broadcast_dimensions[i])] = a->dim(static_cast<int64_t>(i));
    }
    return b.expand(b.reshape(a, aligned), shape);
  });
  ops.def({"prims::collapse", "prims::collapse_view"},
          [](Builder& b, Value a, int64_t start, int64_t end) {
            return a->rank() == 0 ? b.reshape(a, {1}) : b.flatten(a, start, end);
          });
  ops.def("prims::split_dim", [](Builder& b, Value a, int64_t dim, const Dim& outer_length) {
    Shape shape = leading(a, dim);
    shape.push_back(outer_length);
    shape.push_back(Dim::floor_div(a->dim(dim), outer_length));
    const Shape rest = part_of(a, dim + 1);
    shape.insert(shape.end(), rest.begin(), rest.end());
    return b.reshape(a, shape);
  });
  ops.def("prims::iota",
          [](Builder& b, const Dim& length, const Dim& start, const Dim& step, DType dtype, Ignored,
             Ignored) { return b.cast(b.range(start, start + step * length, step), dtype); });
}

}  // namespace onnx_native::ops
