// Operators whose result has the broadcast shape of their inputs.
#include <algorithm>

#include "onnx/fractions.h"
#include "onnx/infer_rules.h"

namespace onnx_native::onnx {
namespace {

using Combine = std::optional<Dim> (*)(const Dim&, const Dim&);

// Computes the contents of an elementwise operator on two small integer tensors.
void combine_contents(Inference& i, Combine combine) {
  const auto count = i.small_integers(0);
  if (!count) return;
  const auto* a = i.contents(0);
  const auto* b = i.contents(1);
  if (!a || !b || a->empty() || b->empty()) return;
  Shape result;
  for (int64_t k = 0; k < *count; ++k) {
    const auto index = static_cast<size_t>(k);
    const auto combined = combine(a->size() == 1 ? a->front() : (*a)[index],
                                  b->size() == 1 ? b->front() : (*b)[index]);
    if (!combined) return;
    result.push_back(*combined);
  }
  i.set_contents(0, std::move(result));
}

void binary(Inference& i) {
  i.same_dtype(0, 1);
  i.set(0, i.dtype(0), broadcast_inputs(i, 0, 2));
}

template <Combine combine>
void integer_binary(Inference& i) {
  binary(i);
  combine_contents(i, combine);
}

std::optional<Dim> add(const Dim& a, const Dim& b) { return a + b; }
std::optional<Dim> subtract(const Dim& a, const Dim& b) { return a - b; }
std::optional<Dim> multiply(const Dim& a, const Dim& b) { return a * b; }
std::optional<Dim> maximum(const Dim& a, const Dim& b) { return Dim::max(a, b); }
std::optional<Dim> minimum(const Dim& a, const Dim& b) { return Dim::min(a, b); }

// ONNX integer division truncates, while Dim::floor_div rounds down; they agree for sizes.
std::optional<Dim> divide(const Dim& a, const Dim& b) {
  const auto x = a.constant();
  const auto y = b.constant();
  if (x && y && *y != 0 && *y != -1) return *x / *y;
  if (!a.known_non_negative() || !b.known_positive()) return std::nullopt;
  return Dim::floor_div(a, b);
}

std::optional<Dim> modulo(const Dim& a, const Dim& b) {
  if (b.constant_or(1) == 0) return std::nullopt;
  return Dim::mod(a, b);
}

std::optional<Dim> remainder(const Dim& a, const Dim& b) {
  if (!a.known_non_negative() || !b.known_positive()) return std::nullopt;
  return Dim::mod(a, b);
}

void mod(Inference& i) {
  binary(i);
  combine_contents(i, i.attribute("fmod", 0) == 0 ? modulo : remainder);
}

void power(Inference& i) { i.set(0, i.dtype(0), broadcast_inputs(i, 0, 2)); }

void comparison(Inference& i) {
  i.same_dtype(0, 1);
  i.set(0, DType::boolean, broadcast_inputs(i, 0, 2));
}

void string_match(Inference& i) { i.set(0, DType::boolean, i.in(0).shape); }

void variadic(Inference& i) {
  for (size_t input = 1; input < i.num_inputs(); ++input) i.same_dtype(0, input);
  i.set(0, i.dtype(0), broadcast_inputs(i, 0, i.num_inputs()));
}

template <Combine combine>
void integer_variadic(Inference& i) {
  variadic(i);
  if (i.num_inputs() == 2) combine_contents(i, combine);
}

void where_rule(Inference& i) {
  i.same_dtype(1, 2);
  i.set(0, i.dtype(1), broadcast_inputs(i, 0, 3));
  const auto count = i.small_integers(0);
  const TensorData* condition = count ? i.constant(0) : nullptr;
  const auto* a = i.contents(1);
  const auto* b = i.contents(2);
  if (!condition || condition->numel() == 0 || !a || !b || a->empty() || b->empty()) return;
  Shape result;
  for (int64_t k = 0; k < *count; ++k) {
    const auto* chosen = condition->integer(condition->numel() == 1 ? 0 : k) != 0 ? a : b;
    result.push_back(chosen->size() == 1 ? chosen->front() : (*chosen)[static_cast<size_t>(k)]);
  }
  i.set_contents(0, std::move(result));
}

void negate(Inference& i) {
  same_as_first(i);
  if (const auto* known = i.contents(0)) {
    Shape result;
    for (const Dim& dim : *known) result.push_back(-dim);
    i.set_contents(0, std::move(result));
  }
}

void absolute(Inference& i) {
  same_as_first(i);
  const auto* known = i.contents(0);
  if (known && std::all_of(known->begin(), known->end(),
                           [](const Dim& dim) { return dim.known_non_negative(); })) {
    i.set_contents(0, *known);
  }
}

void identity(Inference& i) {
  same_as_first(i);
  i.set_kind(0, i.in(0).kind);
  if (const auto* known = i.contents(0)) i.set_contents(0, *known);
}

void cast_to(Inference& i, DType to) {
  i.set(0, to, i.in(0).shape);
  // Every integer type of at least 4 bytes can hold sizes; smaller ones may wrap.
  const bool holds_sizes = is_integral(to) && item_size(to) >= 4;
  if (!holds_sizes) return;
  if (const auto* known = i.contents(0)) {
    i.set_contents(0, *known);
  } else if (is_floating(i.dtype(0))) {
    if (const auto number = integer_of_fraction(i.in(0))) i.set_contents(0, {*number});
  }
}

void cast(Inference& i) { cast_to(i, i.attribute_dtype("to", DType::undefined)); }

void cast_like(Inference& i) { cast_to(i, i.dtype(1)); }

void bit_cast(Inference& i) { i.set(0, i.attribute_dtype("to", DType::undefined), i.in(0).shape); }

void predicate(Inference& i) { i.set(0, DType::boolean, i.in(0).shape); }

void clip(Inference& i) {
  for (size_t input = 1; input < i.num_inputs(); ++input) {
    if (i.optional(input)) i.same_dtype(0, input);
  }
  same_as_first(i);
}

void dropout(Inference& i) {
  same_as_first(i);
  i.set(1, DType::boolean, i.in(0).shape);
}

}  // namespace

void add_elementwise_rules(Rules& rules) {
  for (const std::string_view op : {"Acos",
                                    "Acosh",
                                    "Asin",
                                    "Asinh",
                                    "Atan",
                                    "Atanh",
                                    "BitwiseNot",
                                    "Ceil",
                                    "Celu",
                                    "Cos",
                                    "Cosh",
                                    "CumProd",
                                    "CumSum",
                                    "Elu",
                                    "Erf",
                                    "Exp",
                                    "Floor",
                                    "Gelu",
                                    "HardSigmoid",
                                    "HardSwish",
                                    "Hardmax",
                                    "LRN",
                                    "LeakyRelu",
                                    "Log",
                                    "LogSoftmax",
                                    "LpNormalization",
                                    "MeanVarianceNormalization",
                                    "Mish",
                                    "Not",
                                    "PRelu",
                                    "Reciprocal",
                                    "Relu",
                                    "Round",
                                    "Selu",
                                    "Shrink",
                                    "Sigmoid",
                                    "Sign",
                                    "Sin",
                                    "Sinh",
                                    "Softmax",
                                    "Softplus",
                                    "Softsign",
                                    "Sqrt",
                                    "Swish",
                                    "Tan",
                                    "Tanh",
                                    "ThresholdedRelu",
                                    "Trilu"}) {
    rules[op] = same_as_first;
  }
  for (const std::string_view op :
       {"And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Or", "StringConcat", "Xor", "BitShift"}) {
    rules[op] = binary;
  }
  for (const std::string_view op : {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"}) {
    rules[op] = comparison;
  }
  rules["Abs"] = absolute;
  rules["Add"] = integer_binary<add>;
  rules["BitCast"] = bit_cast;
  rules["Cast"] = cast;
  rules["CastLike"] = cast_like;
  rules["Clip"] = clip;
  rules["Div"] = integer_binary<divide>;
  rules["Dropout"] = dropout;
  rules["Identity"] = identity;
  rules["IsInf"] = predicate;
  rules["IsNaN"] = predicate;
  rules["Max"] = integer_variadic<maximum>;
  rules["Mean"] = variadic;
  rules["Min"] = integer_variadic<minimum>;
  rules["Mod"] = mod;
  rules["Mul"] = integer_binary<multiply>;
  rules["Neg"] = negate;
  rules["Pow"] = power;
  rules["RegexFullMatch"] = string_match;
  rules["Sub"] = integer_binary<subtract>;
  rules["Sum"] = variadic;
  rules["Where"] = where_rule;
}

}  // namespace onnx_native::onnx
