#include "onnx/fractions.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>

namespace onnx_native::onnx {
namespace {

constexpr int kDeepest = 24;  // nodes, one after the other
constexpr int64_t kLargest = int64_t{1} << 20;

struct Fraction {
  Dim numerator;
  int64_t denominator = 1;  // positive

  // Floats have only those exactly whose denominator is a power of two. Others were rounded once:
  // this is on the same side of each integer, also after an integer is added.
  bool is_exact() const { return std::has_single_bit(static_cast<uint64_t>(denominator)); }
  bool is_power_of_two() const {
    const std::optional<int64_t> number = numerator.constant();
    return number && *number > 0 && is_exact() &&
           std::has_single_bit(static_cast<uint64_t>(*number));
  }
};

bool has_one_element(const Value& value) {
  return value.shape && value.shape->size() <= 1 &&
         (value.shape->empty() || value.shape->front().equals(1));
}

bool holds_sizes(DType dtype) { return dtype == DType::f32 || dtype == DType::f64; }

std::optional<Fraction> fraction_of(double number) {
  int64_t denominator = 1;
  while (number != std::floor(number) && denominator < kLargest) {
    number *= 2;
    denominator *= 2;
  }
  if (number != std::floor(number) || std::abs(number) > static_cast<double>(kLargest))
    return std::nullopt;
  return Fraction{static_cast<int64_t>(number), denominator};
}

std::optional<Fraction> added(const Fraction& a, const Fraction& b, int64_t sign) {
  const bool adds_integer = a.denominator == 1 || b.denominator == 1;
  if (!(a.is_exact() && b.is_exact()) && !adds_integer) return std::nullopt;
  if (a.denominator > kLargest / b.denominator) return std::nullopt;
  return Fraction{a.numerator * Dim(b.denominator) + b.numerator * Dim(sign * a.denominator),
                  a.denominator * b.denominator};
}

std::optional<Fraction> multiplied(const Fraction& a, const Fraction& b) {
  const bool scales = a.is_power_of_two() || b.is_power_of_two();
  if (!(a.is_exact() && b.is_exact()) && !scales) return std::nullopt;
  if (a.denominator > kLargest / b.denominator) return std::nullopt;
  return Fraction{a.numerator * b.numerator, a.denominator * b.denominator};
}

std::optional<Fraction> divided(const Fraction& a, const Fraction& b) {
  const std::optional<int64_t> by = b.numerator.constant();
  if (!by || *by <= 0 || !b.is_exact() || !(a.is_exact() || b.is_power_of_two()))
    return std::nullopt;
  if (a.denominator > kLargest / *by) return std::nullopt;
  return Fraction{a.numerator * Dim(b.denominator), a.denominator * *by};
}

std::optional<Fraction> fraction_of(const Value& value, int depth) {
  if (!has_one_element(value) || depth == kDeepest) return std::nullopt;
  if (value.contents && value.contents->size() == 1) return Fraction{value.contents->front()};
  if (!holds_sizes(value.dtype)) return std::nullopt;
  if (value.constant) return fraction_of(value.constant->number(0));
  const Node* node = value.producer;
  if (!node || !node->domain.empty()) return std::nullopt;
  const auto operand = [&](size_t i) -> std::optional<Fraction> {
    const Value* input = node->input(i);
    return input ? fraction_of(*input, depth + 1) : std::nullopt;
  };
  const std::string& op = node->op_type;
  const bool is_unary = op == "Cast" || op == "CastLike" || op == "Identity" || op == "Reshape" ||
                        op == "Unsqueeze" || op == "Squeeze" || op == "Ceil" || op == "Floor";
  const bool is_binary = op == "Add" || op == "Sub" || op == "Mul" || op == "Div";
  if (!is_unary && !is_binary) return std::nullopt;
  std::optional<Fraction> a = operand(0);
  if (!a) return std::nullopt;
  if (op == "Ceil") return Fraction{Dim::ceil_div(a->numerator, a->denominator)};
  if (op == "Floor") return Fraction{Dim::floor_div(a->numerator, a->denominator)};
  if (is_unary) return a;
  const std::optional<Fraction> b = operand(1);
  if (!b) return std::nullopt;
  return op == "Add"   ? added(*a, *b, 1)
         : op == "Sub" ? added(*a, *b, -1)
         : op == "Mul" ? multiplied(*a, *b)
                       : divided(*a, *b);
}

}  // namespace

std::optional<Dim> integer_of_fraction(const Value& value) {
  if (!holds_sizes(value.dtype) || value.constant) return std::nullopt;
  const std::optional<Fraction> found = fraction_of(value, 0);
  if (!found) return std::nullopt;
  if (found->denominator == 1) return found->numerator;
  if (!found->numerator.known_non_negative()) return std::nullopt;
  return Dim::floor_div(found->numerator, found->denominator);
}

}  // namespace onnx_native::onnx
