#include "passes/elements.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/scalar.h"
#include "base/weight.h"

namespace onnx_native::passes {
namespace {

using Ints = std::vector<int64_t>;

uint64_t bits(int64_t value) { return static_cast<uint64_t>(value); }

// The result of an operator that ONNX defines for some operands only.
template <class T>
using Operation = std::optional<T> (*)(T, T);
template <class T>
using Comparison = bool (*)(T, T);

Operation<double> find_operation(std::string_view op, double) {
  if (op == "Add") return [](double a, double b) { return std::optional(a + b); };
  if (op == "Sub") return [](double a, double b) { return std::optional(a - b); };
  if (op == "Mul") return [](double a, double b) { return std::optional(a * b); };
  if (op == "Div") return [](double a, double b) { return std::optional(a / b); };
  if (op == "Pow") return [](double a, double b) { return std::optional(std::pow(a, b)); };
  if (op == "Min") {
    return [](double a, double b) {
      return std::isunordered(a, b) ? std::nullopt : std::optional(std::min(a, b));
    };
  }
  if (op == "Max") {
    return [](double a, double b) {
      return std::isunordered(a, b) ? std::nullopt : std::optional(std::max(a, b));
    };
  }
  return nullptr;
}

Operation<int64_t> find_operation(std::string_view op, int64_t) {
  using I = int64_t;
  using Result = std::optional<I>;
  if (op == "Add") return [](I a, I b) { return Result(static_cast<I>(bits(a) + bits(b))); };
  if (op == "Sub") return [](I a, I b) { return Result(static_cast<I>(bits(a) - bits(b))); };
  if (op == "Mul") return [](I a, I b) { return Result(static_cast<I>(bits(a) * bits(b))); };
  if (op == "Div") {
    return [](I a, I b) { return b > 0 || b < -1 ? Result(a / b) : std::nullopt; };
  }
  if (op == "Min") return [](I a, I b) { return Result(std::min(a, b)); };
  if (op == "Max") return [](I a, I b) { return Result(std::max(a, b)); };
  if (op == "And") return [](I a, I b) { return Result((a != 0) && (b != 0)); };
  if (op == "Or") return [](I a, I b) { return Result((a != 0) || (b != 0)); };
  if (op == "Xor") return [](I a, I b) { return Result((a != 0) != (b != 0)); };
  return nullptr;
}

template <class T>
Comparison<T> find_comparison(std::string_view op) {
  if (op == "Equal") return [](T a, T b) { return a == b; };
  if (op == "Less") return [](T a, T b) { return a < b; };
  if (op == "LessOrEqual") return [](T a, T b) { return a <= b; };
  if (op == "Greater") return [](T a, T b) { return a > b; };
  if (op == "GreaterOrEqual") return [](T a, T b) { return a >= b; };
  return nullptr;
}

// Appends the results for operands of the same length. Returns false if one is not defined.
template <class T>
bool combine(std::string_view op, const std::vector<T>& a, const std::vector<T>& b,
             std::vector<T>& values, Elements& result) {
  if (const auto compare = find_comparison<T>(op)) {
    result.dtype = DType::boolean;
    for (size_t i = 0; i < a.size(); ++i) result.integers.push_back(compare(a[i], b[i]));
    return true;
  }
  const auto operation = find_operation(op, T());
  if (!operation) return false;
  values.reserve(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const std::optional<T> value = operation(a[i], b[i]);
    if (!value) return false;
    values.push_back(*value);
  }
  return true;
}

// Returns the elements of a tensor whose elements have the C++ type T.
template <class T>
std::vector<double> read_floats(const TensorData& data) {
  std::vector<double> elements;
  elements.reserve(static_cast<size_t>(data.numel()));
  data.stream([&elements](std::span<const std::byte> piece) {
    for (size_t i = 0; i < piece.size(); i += sizeof(T)) {
      T element;
      std::memcpy(&element, &piece[i], sizeof(T));
      elements.push_back(static_cast<double>(element));
    }
  });
  return elements;
}

}  // namespace

bool has_elements(DType dtype) {
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

int64_t Elements::size() const { return count_elements(shape); }

int64_t count_elements(const Ints& shape) {
  int64_t product = 1;
  for (const int64_t size : shape) {
    if (size == 0) return 0;
    if (__builtin_mul_overflow(product, size, &product)) product = INT64_MAX;
  }
  return product;
}

Elements read_elements(const TensorData& data) {
  Elements elements{data.dtype, data.shape, {}, {}};
  note_read(data);
  if (data.dtype == DType::f32) {
    elements.floats = read_floats<float>(data);
  } else if (data.dtype == DType::f64) {
    elements.floats = read_floats<double>(data);
  } else {
    const int64_t size = data.numel();
    for (int64_t i = 0; i < size; ++i) {
      if (elements.floating()) {
        elements.floats.push_back(data.number(i));
      } else {
        elements.integers.push_back(data.integer(i));
      }
    }
  }
  return elements;
}

TensorData write_elements(Elements elements) {
  if (elements.floating()) return make_tensor(elements.dtype, elements.shape, elements.floats);
  for (int64_t& value : elements.integers) value = wrapped(value, elements.dtype);
  return make_tensor(elements.dtype, elements.shape, elements.integers);
}

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

Ints strided_indices(const Ints& shape, const Ints& strides, int64_t start) {
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

std::optional<Elements> binary(std::string_view op_type, const Elements& x, const Elements& y) {
  const auto shape = broadcast_shape(x.shape, y.shape);
  if (!shape || x.dtype != y.dtype) return std::nullopt;
  const Elements a = expanded(x, *shape);
  const Elements b = expanded(y, *shape);
  Elements result{a.dtype, *shape, {}, {}};
  const bool known = a.floating()
                         ? combine(op_type, a.floats, b.floats, result.floats, result)
                         : combine(op_type, a.integers, b.integers, result.integers, result);
  return known && result.size() > 0 ? std::optional(std::move(result)) : std::nullopt;
}

}  // namespace onnx_native::passes
