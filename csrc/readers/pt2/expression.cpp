#include "readers/pt2/expression.h"

#include <charconv>
#include <cstdint>
#include <vector>

namespace onnx_native::readers::pt2 {
namespace {

constexpr int kDeepest = 200;

// What a function does to two of its operands; a longer list is folded from the left.
using Binary = Dim (*)(const Dim&, const Dim&);

Binary binary_of(std::string_view function) {
  if (function == "Add") return [](const Dim& a, const Dim& b) { return a + b; };
  if (function == "Mul") return [](const Dim& a, const Dim& b) { return a * b; };
  if (function == "Max") return [](const Dim& a, const Dim& b) { return Dim::max(a, b); };
  if (function == "Min") return [](const Dim& a, const Dim& b) { return Dim::min(a, b); };
  if (function == "Mod" || function == "PythonMod")
    return [](const Dim& a, const Dim& b) { return Dim::mod(a, b); };
  if (function == "FloorDiv" || function == "CleanDiv")
    return [](const Dim& a, const Dim& b) { return Dim::floor_div(a, b); };
  if (function == "CeilDiv") return [](const Dim& a, const Dim& b) { return Dim::ceil_div(a, b); };
  return nullptr;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  std::optional<Dim> parse() {
    std::optional<Dim> result = expression(0);
    skip_blanks();
    return rest_.empty() ? result : std::nullopt;
  }

 private:
  void skip_blanks() {
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
  }
  bool accept(char c) {
    skip_blanks();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  std::string_view word() {
    skip_blanks();
    size_t end = 0;
    while (end < rest_.size() && (std::isalnum(static_cast<unsigned char>(rest_[end])) ||
                                  rest_[end] == '_' || rest_[end] == '.'))
      ++end;
    const std::string_view result = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return result;
  }
  std::optional<int64_t> number() {
    skip_blanks();
    int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) return std::nullopt;
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }

  // 's77', positive=True, integer=True) after the opening parenthesis.
  std::optional<Dim> symbol() {
    if (!accept('\'')) return std::nullopt;
    const size_t end = rest_.find('\'');
    if (end == std::string_view::npos || end == 0) return std::nullopt;
    const std::optional<Dim> result = parse_dim(rest_.substr(0, end));  // none of a float
    rest_.remove_prefix(end + 1);
    while (accept(',')) {  // assumptions
      if (word().empty() || !accept('=') || word().empty()) return std::nullopt;
    }
    return accept(')') ? result : std::nullopt;
  }

  std::optional<Dim> expression(int depth) {
    if (depth > kDeepest) return std::nullopt;
    const std::string_view function = word();
    if (function.empty() || !accept('(')) return std::nullopt;
    if (function == "Symbol") return symbol();
    if (function == "Integer") {
      const auto value = number();
      return value && accept(')') ? std::optional(Dim(*value)) : std::nullopt;
    }
    std::vector<Dim> operands;
    do {
      std::optional<Dim> operand = expression(depth + 1);
      if (!operand) return std::nullopt;
      operands.push_back(std::move(*operand));
    } while (accept(','));
    if (!accept(')')) return std::nullopt;
    return apply(function, operands);
  }

  static std::optional<Dim> apply(std::string_view function, const std::vector<Dim>& operands) {
    if (function == "Pow") {
      const auto exponent = operands.size() == 2 ? operands[1].constant() : std::nullopt;
      if (!exponent || *exponent < 0 || *exponent > 16) return std::nullopt;
      Dim power = 1;
      for (int64_t i = 0; i < *exponent; ++i) power = power * operands[0];
      return power;
    }
    const Binary binary = binary_of(function);
    if (!binary) return std::nullopt;
    Dim result = operands[0];
    for (size_t i = 1; i < operands.size(); ++i) result = binary(result, operands[i]);
    return result;
  }

  std::string_view rest_;
};

}  // namespace

std::optional<Dim> parse_expression(std::string_view text) { return Parser(text).parse(); }

}  // namespace onnx_native::readers::pt2
