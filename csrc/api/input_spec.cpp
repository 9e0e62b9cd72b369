#include <algorithm>
#include <array>
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

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, problem] = std::from_chars(text.data(), end, number);
  if (problem != std::errc() || stopped != end) return std::nullopt;
  return number;
}

std::optional<InputSpec::Constant> parse_constant(std::string_view word) {
  if (word == "none") return std::monostate();
  if (word == "true" || word == "false") return word == "true";
  if (word.empty() || is_letter(word.front())) return std::nullopt;  // "inf" is not a number here
  if (const auto number = parse_number<int64_t>(word)) return *number;
  if (const auto number = parse_number<double>(word)) return *number;
  return std::nullopt;
}

// A recursive-descent parser for the text of one input.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  InputSpec argument() {
    const size_t value = text_.find_first_of("[({'");
    const size_t colon = text_.substr(0, value).rfind(':');
    if (colon == std::string_view::npos) wrong("there is no ':' between name and dtype");
    const std::string name(trimmed(text_.substr(0, colon)));
    if (name.empty()) wrong("the name is missing");
    at_ = colon + 1;
    InputSpec spec = this->value(name);
    if (peek() != '\0') wrong(concat("unexpected '", text_.substr(at_), "' after its end"));
    return spec;
  }

 private:
  static constexpr int kDeepest = 64;

  [[noreturn]] void wrong(std::string_view what) const {
    fail(ErrorKind::invalid_argument, "input '", text_, "': ", what,
         "; write an input as 'x:float32[batch,3,224,224]'");
  }

  // Returns the next character that is not a space; 0 at the end.
  char peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char wanted) {
    if (peek() != wanted) return false;
    ++at_;
    return true;
  }
  std::string_view word() {
    peek();
    const size_t start = at_;
    at_ = std::min(text_.find_first_of(":,[](){}'", at_), text_.size());
    return trimmed(text_.substr(start, at_ - start));
  }
  // Parses a list of items from after the opening bracket through the closing one.
  template <typename Item>
  void items(char close, const Item& item) {
    if (take(close)) return;
    do {
      item();
    } while (take(','));
    if (!take(close)) wrong(concat("there is no '", std::string_view(&close, 1), "' at its end"));
  }

  InputSpec value(const std::string& name) {
    switch (peek()) {
      case '[':
        return elements(name, ']');
      case '(':
        return elements(name, ')');
      case '{':
        return elements(name, '}');
      case '\'':
        return {.name = name, .constant = quoted()};
      default:
        return leaf(name, word());
    }
  }

  std::string quoted() {
    const size_t start = at_ + 1;
    const size_t end = text_.find('\'', start);
    if (end == std::string_view::npos) wrong("there is no ' at the end of a string");
    at_ = end + 1;
    return std::string(text_.substr(start, end - start));
  }

  InputSpec elements(const std::string& name, char close) {
    if (++depth_ > kDeepest) wrong("the brackets are nested too deeply");
    ++at_;
    InputSpec spec{.name = name, .elements = std::vector<InputSpec>()};
    items(close, [&] {
      const size_t start = at_;
      std::string own(word());
      if (own.empty() || !take(':')) {
        if (close == '}') wrong("an element of a dict has no key");
        at_ = start;
        own.clear();
      }
      spec.elements->push_back(value(own));
    });
    --depth_;
    return spec;
  }

  InputSpec leaf(const std::string& name, std::string_view word) {
    if (auto constant = parse_constant(word)) return {.name = name, .constant = *constant};
    const auto* known =
        std::ranges::find(kTorchNames, word, [](const auto& row) { return row.first; });
    if (known == kTorchNames.end()) wrong(concat("there is no dtype '", word, "'"));
    InputSpec spec{.name = name, .dtype = known->second};
    if (!take('[')) return spec;
    spec.shape.emplace();
    items(']', [&] { spec.shape->push_back(size(this->word())); });
    return spec;
  }

  Dim size(std::string_view word) {
    const std::optional<int64_t> number = parse_number<int64_t>(word);
    if (number && *number >= 0) return *number;
    const auto is_part = [](char c) { return is_letter(c) || is_digit(c); };
    if (word.empty() || !is_letter(word.front()) || !std::ranges::all_of(word, is_part))
      wrong(concat("the size '", word, "' is neither a number nor a name"));
    return Dim::symbol(word, DimRange::input_size());
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

InputSpec parse_input(std::string_view text) { return Parser(text).argument(); }

}  // namespace onnx_native
