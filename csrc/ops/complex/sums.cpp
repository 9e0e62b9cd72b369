// Sums and products of complex tensors.
#include <bit>
#include <functional>

#include "ops/complex/real_call.h"
#include "ops/formulas/axes.h"
#include "ops/formulas/complex.h"

namespace onnx_native::ops {
namespace {

// Runs an operator that is linear in each tensor argument on all choices of parts, and adds up the
// results, each times i per imaginary part. `conjugate` conjugates the first argument.
Complex expanded(const Call& call, const Lowering& dense, const aten::Node& node, bool conjugate) {
  Builder& b = call.builder();
  size_t operands = 0;  // complex arguments and elements of list arguments
  const std::function<void(const aten::Argument&)> collect = [&](const aten::Argument& argument) {
    if (const auto* list = argument.get<aten::Argument::List>()) {
      for (const aten::Argument& element : *list) collect(element);
    } else if (argument.as_value() && is_complex(argument)) {
      ++operands;
    }
  };
  for (const aten::Argument& argument : node.arguments) collect(argument);
  const bool conjugated = conjugate && is_complex(node.arguments[0]);
  Complex sum;
  for (uint32_t choice = 0; choice < 1U << operands; ++choice) {
    RealCall real(call);
    real.node() = node;
    size_t next = 0;
    for (size_t i = 0; i < node.arguments.size(); ++i) {
      real.rewrite(i, [&](const aten::Argument& argument) -> aten::Argument {
        const aten::Value* value = argument.as_value();
        if (!value || !is_complex(argument)) return argument;
        const bool imaginary = (choice >> next++ & 1U) != 0;
        return real.replaced(*value, part(b, call.lowered(value).value, imaginary));
      });
    }
    const Value product = real.run(dense).at(0).value;
    const int imaginary = std::popcount(choice);
    const bool negative = ((imaginary & 2) != 0) != (conjugated && (choice & 1U) != 0);
    Value& total = imaginary % 2 == 1 ? sum.imaginary : sum.real;
    total = !total     ? negative ? b.Neg(product) : product
            : negative ? b.Sub(total, product)
                       : b.Add(total, product);
  }
  return sum;
}

void def_product(OpTable& ops, std::string_view op, std::string_view dense_op,
                 bool conjugate = false) {
  const Lowering& dense = dense_lowering(ops, dense_op);
  ops.add(op, Key::complex,
          {.run = [dense, conjugate](const Call& call) -> Results {
             return {join(call.builder(), expanded(call, dense, call.node(), conjugate))};
           },
           .parameters = dense.parameters});
}

// Defines beta * self + alpha * (argument 1 times argument 2) by the real lowering of `product`.
// With `sums_batch`, the products of the batch are added up.
void def_sum_with_product(OpTable& ops, std::string_view op, std::string_view product,
                          bool sums_batch = false) {
  const Lowering& dense = dense_lowering(ops, product);
  const aten::Schema* schema = aten::find_schema(product);
  const auto lowering = [dense, schema, sums_batch](Builder& b, Ignored, Ignored, Ignored,
                                                    const Call& call) {
    const DType part = part_dtype(call);
    aten::Node node = call.node();
    node.op = schema->key;
    node.schema = schema;
    node.arguments = {call.argument(1), call.argument(2)};
    Complex products = expanded(call, dense, node, false);
    if (sums_batch) {
      const auto summed = [&](Value x) { return x ? sum_over(b, x, {0}, false) : nullptr; };
      products = {summed(products.real), summed(products.imaginary)};
    }
    const Complex result = mul(b, products, complex_argument(call, 4, part));
    const Complex self = mul(b, complex_argument(call, 0, part), complex_argument(call, 3, part));
    return join(b, add(b, self, result));
  };
  ops.def(op, Key::complex, lowering);
}

// Expands the product without the bias, which is added to it.
Value linear(Builder& b, const Call& call, const Lowering& dense) {
  aten::Node node = call.node();
  node.arguments[2] = {};
  const Complex product = expanded(call, dense, node, false);
  return join(
      b, call.is_none(2) ? product : add(b, product, complex_argument(call, 2, part_dtype(call))));
}

// Returns the product along an axis of constant size, by multiplying its halves repeatedly.
Complex product_over(Builder& b, Complex z, int64_t axis) {
  const auto size = z.real->known_shape().at(axis).constant();
  b.check(size.has_value(), "a product of complex numbers requires a dimension of constant size");
  if (*size == 0) {
    Shape shape = z.real->known_shape();
    shape.erase(shape.begin() + axis);
    return {b.full(z.real->dtype, 1, shape)};
  }
  for (int64_t n = *size; n > 1; n = (n + 1) / 2) {
    const auto range = [&](int64_t start, int64_t end) -> Complex {
      return {b.slice(z.real, axis, start, end), b.slice(z.imaginary, axis, start, end)};
    };
    const Complex product = mul(b, range(0, n / 2), range(n / 2, n / 2 * 2));
    const Complex rest = range(n / 2 * 2, n);
    z = n % 2 == 0 ? product
                   : Complex{b.concat({product.real, rest.real}, axis),
                             b.concat({product.imaginary, rest.imaginary}, axis)};
  }
  return {b.squeeze(z.real, {axis}), b.squeeze(z.imaginary, {axis})};
}

Value prod(Builder& b, const Complex& z, std::optional<int64_t> dim, bool keepdim) {
  const Shape shape = z.real->known_shape();
  if (shape.empty()) return join(b, z);
  if (!dim) {
    const Shape flat{numel(shape)};
    return join(b, product_over(b, {b.reshape(z.real, flat), b.reshape(z.imaginary, flat)}, 0));
  }
  const int64_t axis = normalize_axis(*dim, z.real->rank());
  const Value result = join(b, product_over(b, z, axis));
  return keepdim ? b.unsqueeze(result, {axis}) : result;
}

Complex self_of(Builder& b, const Call& call) {
  const Complex z = complex_argument(call, 0, part_dtype(call));
  return {z.real, imaginary_part(b, z)};
}

// Returns true if the call has a real `dtype`, which drops the imaginary parts before the sum.
bool wants_real(const Call& call) {
  const int at = call.node().schema->index("dtype");
  const auto* dtype =
      at < 0 ? nullptr : call.node().arguments[static_cast<size_t>(at)].get<DType>();
  return dtype && !onnx_native::is_complex(*dtype);
}

}  // namespace

void register_complex_sums(OpTable& ops) {
  for (std::string_view op : {"aten::sum", "aten::sum.dim_IntList", "aten::mean", "aten::mean.dim",
                              "aten::cumsum", "aten::trace", "aten::diff", "aten::sum_to_size"}) {
    const Lowering& dense = dense_lowering(ops, op);
    ops.add(op, Key::complex,
            {.run =
                 [dense](const Call& call) {
                   return wants_real(call) ? run_on_part(call, dense, false)
                                           : run_on_parts(call, dense);
                 },
             .parameters = dense.parameters});
  }
  for (std::string_view op :
       {"aten::matmul", "aten::mm", "aten::bmm", "aten::mv", "aten::dot", "aten::inner",
        "aten::outer", "aten::kron", "aten::einsum", "aten::tensordot"})
    def_product(ops, op, op);
  def_product(ops, "aten::linalg_matmul", "aten::matmul");
  def_product(ops, "aten::vdot", "aten::dot", /*conjugate=*/true);
  def_product(ops, "aten::linalg_vecdot", "aten::linalg_vecdot", /*conjugate=*/true);
  def_sum_with_product(ops, "aten::addmm", "aten::mm");
  def_sum_with_product(ops, "aten::baddbmm", "aten::bmm");
  def_sum_with_product(ops, "aten::addbmm", "aten::bmm", /*sums_batch=*/true);
  const Lowering& dense_linear = dense_lowering(ops, "aten::linear");
  ops.add("aten::linear", Key::complex,
          {.run = [dense_linear](const Call& call) -> Results {
             return {linear(call.builder(), call, dense_linear)};
           },
           .parameters = dense_linear.parameters});
  const Lowering& dense_prod = dense_lowering(ops, "aten::prod");
  const Lowering& dense_prod_of_dim = dense_lowering(ops, "aten::prod.dim_int");
  ops.def("aten::prod", Key::complex, [dense_prod](Builder& b, Ignored, const Call& call) {
    if (wants_real(call)) return run_on_part(call, dense_prod, false).at(0).value;
    return prod(b, self_of(b, call), std::nullopt, false);
  });
  ops.def("aten::prod.dim_int", Key::complex,
          [dense_prod_of_dim](Builder& b, Ignored, int64_t dim, bool keepdim, const Call& call) {
            if (wants_real(call)) return run_on_part(call, dense_prod_of_dim, false).at(0).value;
            return prod(b, self_of(b, call), dim, keepdim);
          });
}

}  // namespace onnx_native::ops
