#include "passes/evaluate.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/scalar.h"

namespace onnx_native::passes {
namespace {

using onnx::Node;
using Ints = std::vector<int64_t>;

bool is_known(DType dtype) {
  switch (dtype) {
    case DType::f16:
    case DType::bf16:
    case DType::f32:
    case DType::f64:
    case DType::i8:
    case DType::i16:
    case DType::i32:
    case DType::i64:
    case DType::u8:
    case DType::boolean:
      return true;
    default:
      return false;
  }
}

// Returns the number of elements, saturated at INT64_MAX.
int64_t count(const Ints& shape) {
  int64_t product = 1;
  for (const int64_t size : shape) {
    if (size == 0) return 0;
    if (__builtin_mul_overflow(product, size, &product)) product = INT64_MAX;
  }
  return product;
}

// Elements in the widest type of their kind. Only the list of that kind is filled.
struct Elements {
  DType dtype = DType::undefined;
  Ints shape;
  std::vector<double> floats;
  std::vector<int64_t> integers;  // and booleans

  bool floating() const { return is_floating(dtype); }
  int64_t size() const { return count(shape); }
};
using Inputs = std::vector<std::optional<Elements>>;
using Result = std::optional<Elements>;

Elements read(const TensorData& data) {
  Elements elements{data.dtype, data.shape, {}, {}};
  const int64_t size = data.numel();
  for (int64_t i = 0; i < size; ++i) {
    if (elements.floating()) {
      elements.floats.push_back(data.number(i));
    } else {
      elements.integers.push_back(data.integer(i));
    }
  }
  return elements;
}

TensorData write(Elements elements) {
  if (elements.floating()) return make_tensor(elements.dtype, elements.shape, elements.floats);
  for (int64_t& value : elements.integers) value = wrapped(value, elements.dtype);
  return make_tensor(elements.dtype, elements.shape, elements.integers);
}

// Returns the elements at `indices`, in a new shape.
Elements pick(const Elements& from, const Ints& indices, Ints shape) {
  Elements to{from.dtype, std::move(shape), {}, {}};
  for (const int64_t index : indices) {
    if (from.floating()) {
      to.floats.push_back(from.floats[static_cast<size_t>(index)]);
    } else {
      to.integers.push_back(from.integers[static_cast<size_t>(index)]);
    }
  }
  return to;
}

Ints strides_of(const Ints& shape) {
  Ints strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

// Returns the memory offsets of a strided tensor in row-major order.
Ints strided_indices(const Ints& shape, const Ints& strides, int64_t start = 0) {
  Ints indices{start};
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    Ints next;
    for (const int64_t index : indices) {
      for (int64_t i = 0; i < shape[axis]; ++i) next.push_back(index + i * strides[axis]);
    }
    indices = std::move(next);
  }
  return indices;
}

std::optional<Ints> broadcast_shape(const Ints& a, const Ints& b) {
  Ints shape(std::max(a.size(), b.size()));
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) return std::nullopt;
    shape[shape.size() - 1 - i] = x == 1 ? y : x;
  }
  return shape;
}

Elements expanded(const Elements& from, const Ints& shape) {
  if (from.shape == shape) return from;
  Ints strides(shape.size(), 0);
  const Ints own = strides_of(from.shape);
  const size_t lead = shape.size() - from.shape.size();
  for (size_t i = 0; i < own.size(); ++i) strides[lead + i] = from.shape[i] == 1 ? 0 : own[i];
  return pick(from, strided_indices(shape, strides), shape);
}

std::optional<size_t> axis_of(int64_t axis, size_t rank) {
  if (axis < 0) axis += static_cast<int64_t>(rank);
  if (axis < 0 || axis >= static_cast<int64_t>(rank)) return std::nullopt;
  return static_cast<size_t>(axis);
}

uint64_t bits(int64_t value) { return static_cast<uint64_t>(value); }

// Arithmetic and comparisons of two numbers. nullopt: unknown operator, or not defined by ONNX.
std::optional<double> arithmetic(std::string_view op, double a, double b) {
  if (op == "Add") return a + b;
  if (op == "Sub") return a - b;
  if (op == "Mul") return a * b;
  if (op == "Div") return a / b;
  if (op == "Pow") return std::pow(a, b);
  if (std::isnan(a) || std::isnan(b)) return std::nullopt;
  if (op == "Min") return std::min(a, b);
  if (op == "Max") return std::max(a, b);
  return std::nullopt;
}

std::optional<int64_t> arithmetic(std::string_view op, int64_t a, int64_t b) {
  if (op == "Add") return static_cast<int64_t>(bits(a) + bits(b));
  if (op == "Sub") return static_cast<int64_t>(bits(a) - bits(b));
  if (op == "Mul") return static_cast<int64_t>(bits(a) * bits(b));
  if (op == "Div" && b > 0) return a / b;
  if (op == "Div" && b < -1) return a / b;
  if (op == "Min") return std::min(a, b);
  if (op == "Max") return std::max(a, b);
  if (op == "And") return (a != 0) && (b != 0);
  if (op == "Or") return (a != 0) || (b != 0);
  if (op == "Xor") return (a != 0) != (b != 0);
  return std::nullopt;
}

template <class T>
std::optional<bool> comparison(std::string_view op, T a, T b) {
  if (op == "Equal") return a == b;
  if (op == "Less") return a < b;
  if (op == "LessOrEqual") return a <= b;
  if (op == "Greater") return a > b;
  if (op == "GreaterOrEqual") return a >= b;
  return std::nullopt;
}

Result binary(std::string_view op, const Elements& x, const Elements& y) {
  const auto shape = broadcast_shape(x.shape, y.shape);
  if (!shape || x.dtype != y.dtype) return std::nullopt;
  const Elements a = expanded(x, *shape);
  const Elements b = expanded(y, *shape);
  Elements result{a.dtype, *shape, {}, {}};
  const auto combine = [&](const auto& left, const auto& right, auto& values) {
    for (size_t i = 0; i < left.size(); ++i) {
      if (const auto truth = comparison(op, left[i], right[i])) {
        result.dtype = DType::boolean;
        result.integers.push_back(*truth);
      } else if (const auto value = arithmetic(op, left[i], right[i])) {
        values.push_back(*value);
      } else {
        return false;
      }
    }
    return true;
  };
  const bool known = a.floating() ? combine(a.floats, b.floats, result.floats)
                                  : combine(a.integers, b.integers, result.integers);
  return known && result.size() > 0 ? Result(std::move(result)) : std::nullopt;
}

Result fold_binary(const Node& node, const Inputs& inputs, int64_t) {
  Result result = inputs[0];
  for (size_t i = 1; result && i < inputs.size(); ++i) {
    result = binary(node.op_type, *result, *inputs[i]);
  }
  return result;
}

Result fold_unary(const Node& node, const Inputs& inputs, int64_t) {
  Elements x = *inputs[0];
  for (double& value : x.floats) {
    if (node.op_type == "Neg") value = -value;
    if (node.op_type == "Abs") value = std::abs(value);
    if (node.op_type == "Sqrt") value = std::sqrt(value);
    if (node.op_type == "Floor") value = std::floor(value);
    if (node.op_type == "Ceil") value = std::ceil(value);
    if (node.op_type == "Reciprocal") value = 1 / value;
    if (node.op_type == "Exp") value = std::exp(value);
    if (node.op_type == "Log") value = std::log(value);
    if (node.op_type == "Sin") value = std::sin(value);
    if (node.op_type == "Cos") value = std::cos(value);
  }
  for (int64_t& value : x.integers) {
    if (node.op_type == "Neg") value = static_cast<int64_t>(-bits(value));
    if (node.op_type == "Abs" && value < 0) value = static_cast<int64_t>(-bits(value));
    if (node.op_type == "Not") value = value == 0;
  }
  return x;
}

Result fold_cast(const Node& node, const Inputs& inputs, int64_t) {
  const Elements& x = *inputs[0];
  Elements result{static_cast<DType>(node.attribute_int("to", 0)), x.shape, {}, {}};
  if (!is_known(result.dtype)) return std::nullopt;
  constexpr double kExact = 9007199254740992.0;  // 2**53: doubles hold integers up to here
  for (const double value : x.floats) {
    if (result.floating()) {
      result.floats.push_back(value);
    } else if (result.dtype == DType::boolean) {
      result.integers.push_back(value != 0);
    } else {
      const double whole = std::trunc(value);
      if (!(whole >= lowest_value(result.dtype) && whole <= max_value(result.dtype)) ||
          std::abs(whole) > kExact) {
        return std::nullopt;
      }
      result.integers.push_back(static_cast<int64_t>(whole));
    }
  }
  for (const int64_t value : x.integers) {
    if (!result.floating()) {
      result.integers.push_back(value);
    } else if (std::abs(static_cast<double>(value)) <= kExact) {
      result.floats.push_back(static_cast<double>(value));
    } else {
      return std::nullopt;
    }
  }
  return result;
}

Result fold_where(const Node&, const Inputs& inputs, int64_t) {
  if (inputs[1]->dtype != inputs[2]->dtype) return std::nullopt;
  auto shape = broadcast_shape(inputs[1]->shape, inputs[2]->shape);
  if (shape) shape = broadcast_shape(*shape, inputs[0]->shape);
  if (!shape) return std::nullopt;
  const Elements condition = expanded(*inputs[0], *shape);
  Elements a = expanded(*inputs[1], *shape);
  const Elements b = expanded(*inputs[2], *shape);
  for (size_t i = 0; i < condition.integers.size(); ++i) {
    if (condition.integers[i] != 0) continue;
    if (a.floating()) {
      a.floats[i] = b.floats[i];
    } else {
      a.integers[i] = b.integers[i];
    }
  }
  return a;
}

// Operators that keep the elements and their order.
Result fold_reshape(const Node& node, const Inputs& inputs, int64_t) {
  const auto& inferred = node.outputs[0]->shape;
  const auto shape = inferred ? constant_shape(*inferred) : std::nullopt;
  if (!shape || count(*shape) != inputs[0]->size()) return std::nullopt;
  Elements result = *inputs[0];
  result.shape = *shape;
  return result;
}

Result fold_expand(const Node&, const Inputs& inputs, int64_t limit) {
  const auto shape = broadcast_shape(inputs[0]->shape, inputs[1]->integers);
  if (!shape || count(*shape) > limit) return std::nullopt;
  return expanded(*inputs[0], *shape);
}

Result fold_transpose(const Node& node, const Inputs& inputs, int64_t) {
  const Elements& x = *inputs[0];
  const Ints own = strides_of(x.shape);
  Ints order(x.shape.size());
  std::iota(order.rbegin(), order.rend(), 0);
  order = node.attribute_ints("perm").value_or(order);
  if (order.size() != own.size()) return std::nullopt;
  Ints shape;
  Ints strides;
  for (const int64_t axis : order) {
    shape.push_back(x.shape[static_cast<size_t>(axis)]);
    strides.push_back(own[static_cast<size_t>(axis)]);
  }
  return pick(x, strided_indices(shape, strides), shape);
}

Result fold_gather(const Node& node, const Inputs& inputs, int64_t limit) {
  const Elements& x = *inputs[0];
  const auto axis = axis_of(node.attribute_int("axis", 0), x.shape.size());
  if (!axis) return std::nullopt;
  const Ints outer(x.shape.begin(), x.shape.begin() + static_cast<int64_t>(*axis));
  const Ints inner(x.shape.begin() + static_cast<int64_t>(*axis) + 1, x.shape.end());
  Ints shape = outer;
  shape.insert(shape.end(), inputs[1]->shape.begin(), inputs[1]->shape.end());
  shape.insert(shape.end(), inner.begin(), inner.end());
  if (count(shape) > limit) return std::nullopt;
  Ints indices;
  for (int64_t i = 0; i < count(outer); ++i) {
    for (int64_t index : inputs[1]->integers) {
      if (index < 0) index += x.shape[*axis];
      if (index < 0 || index >= x.shape[*axis]) return std::nullopt;
      const int64_t start = (i * x.shape[*axis] + index) * count(inner);
      for (int64_t j = 0; j < count(inner); ++j) indices.push_back(start + j);
    }
  }
  return pick(x, indices, shape);
}

Result fold_concat(const Node& node, const Inputs& inputs, int64_t) {
  const Elements& first = *inputs[0];
  const auto axis = axis_of(node.attribute_int("axis", 0), first.shape.size());
  if (!axis) return std::nullopt;
  Elements result{first.dtype, first.shape, {}, {}};
  result.shape[*axis] = 0;
  for (const auto& input : inputs) {
    if (input->shape.size() != first.shape.size() || input->dtype != first.dtype) {
      return std::nullopt;
    }
    result.shape[*axis] += input->shape[*axis];
  }
  int64_t outer = 1;
  for (size_t i = 0; i < *axis; ++i) outer *= first.shape[i];
  if (outer == 0) return std::nullopt;
  for (int64_t row = 0; row < outer; ++row) {
    for (const auto& input : inputs) {
      const int64_t run = input->size() / outer;
      const auto append = [&](const auto& from, auto& to) {
        to.insert(to.end(), from.begin() + row * run, from.begin() + (row + 1) * run);
      };
      if (result.floating()) {
        append(input->floats, result.floats);
      } else {
        append(input->integers, result.integers);
      }
    }
  }
  return result;
}

Result fold_slice(const Node&, const Inputs& inputs, int64_t) {
  if (inputs.size() < 3) return std::nullopt;
  const Elements& x = *inputs[0];
  const Ints& starts = inputs[1]->integers;
  const Ints& ends = inputs[2]->integers;
  Ints axes(starts.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (inputs.size() > 3 && inputs[3]) axes = inputs[3]->integers;
  Ints steps(starts.size(), 1);
  if (inputs.size() > 4 && inputs[4]) steps = inputs[4]->integers;
  Ints shape = x.shape;
  Ints strides = strides_of(x.shape);
  int64_t origin = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    const auto axis = axis_of(axes[i], x.shape.size());
    if (!axis || steps[i] == 0) return std::nullopt;
    const int64_t size = x.shape[*axis];
    if (size == 0) return std::nullopt;
    const bool forward = steps[i] > 0;
    const auto bound = [&](int64_t position) {
      if (position < 0) position += size;
      return std::clamp<int64_t>(position, forward ? 0 : -1, forward ? size : size - 1);
    };
    const int64_t start = forward ? bound(starts[i]) : std::max<int64_t>(bound(starts[i]), 0);
    const int64_t distance = bound(ends[i]) - start;
    shape[*axis] = std::max<int64_t>((distance + steps[i] - (forward ? 1 : -1)) / steps[i], 0);
    origin += start * strides[*axis];
    strides[*axis] *= steps[i];
  }
  return count(shape) == 0 ? std::nullopt
                           : Result(pick(x, strided_indices(shape, strides, origin), shape));
}

Result fold_constant_of_shape(const Node& node, const Inputs& inputs, int64_t limit) {
  const Ints& shape = inputs[0]->integers;
  if (count(shape) > limit) return std::nullopt;
  Elements fill{DType::f32, {}, {0.0}, {}};
  if (const auto* value = node.attribute("value")) {
    const TensorData& data = **std::get_if<std::shared_ptr<TensorData>>(value);
    if (!is_known(data.dtype)) return std::nullopt;
    fill = read(data);
    fill.shape = {};
  }
  return expanded(fill, shape);
}

Result fold_range(const Node&, const Inputs& inputs, int64_t limit) {
  if (inputs[0]->integers.size() != 1) return std::nullopt;  // float rounding depends on the kernel
  const int64_t start = inputs[0]->integers[0];
  const int64_t end = inputs[1]->integers[0];
  const int64_t step = inputs[2]->integers[0];
  if (step == 0) return std::nullopt;
  Elements result{inputs[0]->dtype, {0}, {}, {}};
  for (int64_t value = start; step > 0 ? value < end : value > end; value += step) {
    if (++result.shape[0] > limit) return std::nullopt;
    result.integers.push_back(value);
  }
  return result;
}

Result fold_reduce(const Node& node, const Inputs& inputs, int64_t) {
  const Elements& x = *inputs[0];
  // Sums and products of floats depend on the kernel's order.
  const bool ordered = node.op_type == "ReduceSum" || node.op_type == "ReduceProd";
  if ((ordered && x.floating()) || x.size() == 0) return std::nullopt;
  Ints axes = node.attribute_ints("axes").value_or(Ints());
  if (inputs.size() > 1 && inputs[1]) axes = inputs[1]->integers;
  if (axes.empty() && node.attribute_int("noop_with_empty_axes", 0) != 0) return x;
  std::vector<bool> reduced(x.shape.size(), axes.empty());
  for (const int64_t given : axes) {
    const auto axis = axis_of(given, x.shape.size());
    if (!axis) return std::nullopt;
    reduced[*axis] = true;
  }
  const Ints strides = strides_of(x.shape);
  Ints kept_shape, kept_strides, shape, inner_shape, inner_strides;
  for (size_t i = 0; i < x.shape.size(); ++i) {
    (reduced[i] ? inner_shape : kept_shape).push_back(x.shape[i]);
    (reduced[i] ? inner_strides : kept_strides).push_back(strides[i]);
    if (!reduced[i]) shape.push_back(x.shape[i]);
    if (reduced[i] && node.attribute_int("keepdims", 1) != 0) shape.push_back(1);
  }
  static const std::unordered_map<std::string_view, std::string_view> kSteps{
      {"ReduceSum", "Add"}, {"ReduceProd", "Mul"}, {"ReduceMax", "Max"}, {"ReduceMin", "Min"}};
  const Ints starts = strided_indices(kept_shape, kept_strides);
  const Ints inner = strided_indices(inner_shape, inner_strides);
  Result total;
  for (const int64_t offset : inner) {
    Ints indices = starts;
    for (int64_t& index : indices) index += offset;
    const Elements slice = pick(x, indices, shape);
    total = total ? binary(kSteps.at(node.op_type), *total, slice) : slice;
    if (!total) return std::nullopt;
  }
  return total;
}

using Fold = Result (*)(const Node&, const Inputs&, int64_t);

Fold find_fold(std::string_view op_type) {
  static const std::unordered_map<std::string_view, Fold> kFolds = [] {
    std::unordered_map<std::string_view, Fold> folds{
        {"Cast", fold_cast},
        {"Where", fold_where},
        {"Expand", fold_expand},
        {"Transpose", fold_transpose},
        {"Gather", fold_gather},
        {"Concat", fold_concat},
        {"Slice", fold_slice},
        {"Range", fold_range},
        {"ConstantOfShape", fold_constant_of_shape},
    };
    for (const auto op : {"Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "And", "Or", "Xor",
                          "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"}) {
      folds[op] = fold_binary;
    }
    for (const auto op :
         {"Neg", "Abs", "Sqrt", "Floor", "Ceil", "Not", "Reciprocal", "Exp", "Log", "Sin", "Cos"}) {
      folds[op] = fold_unary;
    }
    for (const auto op : {"Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten"}) {
      folds[op] = fold_reshape;
    }
    for (const auto op : {"ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin"}) {
      folds[op] = fold_reduce;
    }
    return folds;
  }();
  const auto found = kFolds.find(op_type);
  return found == kFolds.end() ? nullptr : found->second;
}

}  // namespace

std::optional<TensorData> evaluate(const Node& node, std::span<const TensorData* const> inputs,
                                   int64_t limit) {
  const Fold fold = node.domain.empty() ? find_fold(node.op_type) : nullptr;
  if (!fold || inputs.empty() || !inputs[0]) return std::nullopt;
  Inputs elements;
  for (const TensorData* input : inputs) {
    if (input && !is_known(input->dtype)) return std::nullopt;
    elements.push_back(input ? std::optional(read(*input)) : std::nullopt);
  }
  Result result = fold(node, elements, limit);
  if (!result || result->size() > limit) return std::nullopt;
  return write(std::move(*result));
}

}  // namespace onnx_native::passes
