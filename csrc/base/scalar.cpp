#include "base/scalar.h"

#include <array>
#include <charconv>
#include <cmath>

namespace onnx_native {
namespace {

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 32> buffer;
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  std::string out(buffer.data(), result.ptr);
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

}  // namespace

double Scalar::to_double() const {
  return std::visit(
      [](const auto& v) -> double {
        if constexpr (requires { v.real(); }) {
          return v.real();
        } else {
          return static_cast<double>(v);
        }
      },
      value);
}

int64_t Scalar::to_int() const {
  if (const auto* integer = std::get_if<int64_t>(&value)) return *integer;
  const double number = to_double();
  if (std::isnan(number)) return 0;
  if (number >= 0x1p63) return INT64_MAX;
  if (number <= -0x1p63) return INT64_MIN;
  return static_cast<int64_t>(number);
}

DType Scalar::kind_dtype() const {
  if (is_integer()) return DType::i64;
  if (is_floating()) return DType::f32;
  if (is_boolean()) return DType::boolean;
  return DType::c64;
}

std::string Scalar::str() const {
  if (is_integer()) return std::to_string(std::get<int64_t>(value));
  if (is_boolean()) return std::get<bool>(value) ? "True" : "False";
  if (is_floating()) return number_text(std::get<double>(value));
  const auto number = std::get<std::complex<double>>(value);
  const std::string imag = number_text(number.imag());
  return "(" + number_text(number.real()) + (imag[0] == '-' ? "" : "+") + imag + "j)";
}

int64_t wrapped(int64_t value, DType dtype) {
  if (dtype == DType::boolean) return value != 0;
  const int64_t unused_bits = 64 - 8 * item_size(dtype);
  if (unused_bits <= 0 || unused_bits >= 64) return value;
  const uint64_t shifted = static_cast<uint64_t>(value) << unused_bits;
  return is_signed(dtype) ? static_cast<int64_t>(shifted) >> unused_bits
                          : static_cast<int64_t>(shifted >> unused_bits);
}

}  // namespace onnx_native
