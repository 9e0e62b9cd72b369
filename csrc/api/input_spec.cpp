#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <utility>

#include "onnx_native/export.h"

namespace onnx_native {
namespace {

constexpr std::array<std::pair<std::string_view, DType>, 16> kTorchNames = {{
    {"float32", DType::f32},
    {"float64", DType::f64},
    {"float16", DType::f16},
    {"bfloat16", DType::bf16},
    {"int64", DType::i64},
    {"int32", DType::i32},
    {"int16", DType::i16},
    {"int8", DType::i8},
    {"uint8", DType::u8},
    {"uint16", DType::u16},
    {"uint32", DType::u32},
    {"uint64", DType::u64},
    {"bool", DType::boolean},
    {"complex64", DType::c64},
    {"complex128", DType::c128},
    {"float8_e4m3fn", DType::f8e4m3fn},
}};

[[noreturn]] void wrong(std::string_view text, std::string_view what) {
  fail(ErrorKind::invalid_argument, "input '", text, "': ", what,
       "; an input is written as 'x:float32[batch,3,224,224]'");
}

bool is_identifier(std::string_view text) {
  const auto is_letter = [](unsigned char c) { return std::isalpha(c) != 0 || c == '_'; };
  const auto is_part = [&](unsigned char c) { return is_letter(c) || std::isdigit(c) != 0; };
  return !text.empty() && is_letter(text.front()) && std::ranges::all_of(text, is_part);
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

Dim parse_size(std::string_view size, std::string_view text) {
  int64_t number = 0;
  const char* end = size.data() + size.size();
  const auto [stopped, problem] = std::from_chars(size.data(), end, number);
  if (problem == std::errc() && stopped == end && number >= 0) return number;
  if (!is_identifier(size)) wrong(text, concat("the size '", size, "' is no number and no name"));
  return Dim::symbol(size);
}

Shape parse_shape(std::string_view sizes, std::string_view text) {
  Shape shape;
  if (trimmed(sizes).empty()) return shape;
  for (size_t start = 0; start <= sizes.size();) {
    const size_t comma = std::min(sizes.find(',', start), sizes.size());
    shape.push_back(parse_size(trimmed(sizes.substr(start, comma - start)), text));
    start = comma + 1;
  }
  return shape;
}

}  // namespace

InputSpec parse_input(std::string_view text) {
  const size_t bracket = std::min(text.find('['), text.size());
  const size_t colon = text.substr(0, bracket).rfind(':');
  if (colon == std::string_view::npos) wrong(text, "no ':' between name and dtype");
  InputSpec spec{.name = std::string(trimmed(text.substr(0, colon))), .shape = {}};
  if (spec.name.empty()) wrong(text, "no name");
  const std::string_view dtype = trimmed(text.substr(colon + 1, bracket - colon - 1));
  const auto* known =
      std::ranges::find(kTorchNames, dtype, [](const auto& row) { return row.first; });
  if (known == kTorchNames.end()) wrong(text, concat("there is no dtype '", dtype, "'"));
  spec.dtype = known->second;
  if (bracket == text.size()) return spec;
  if (trimmed(text).back() != ']') wrong(text, "no ']' at its end");
  spec.shape = parse_shape(text.substr(bracket + 1, text.rfind(']') - bracket - 1), text);
  return spec;
}

}  // namespace onnx_native
