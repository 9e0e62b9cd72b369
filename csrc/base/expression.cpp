// A recursive descent parser.
#include "base/expression.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <initializer_list>
#include <utility>

namespace onnx_native {
namespace {

using Kind = Expression::Kind;
using Result = std::optional<Expression>;

constexpr int kDeepestExpression = 200;

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_word(char c) { return is_letter(c) || is_digit(c); }

Expression named(std::string_view name) {
  Expression result{.kind = Kind::name};
  result.name = name;
  return result;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result parse() {
    Result value = sum();
    skip_spaces();
    return at_ == text_.size() ? std::move(value) : std::nullopt;
  }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }

  bool accept(std::string_view token) {
    skip_spaces();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  char peek() {
    skip_spaces();
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  std::string_view accept_any(std::initializer_list<std::string_view> tokens) {
    for (const std::string_view token : tokens) {
      if (accept(token)) return token;
    }
    return {};
  }

  // Parses operands separated by operators; a single operand is returned as is.
  Result chain(Kind kind, std::initializer_list<std::string_view> operators,
               Result (Parser::*operand)()) {
    Result value = (this->*operand)();
    Expression joined{.kind = kind};
    while (value) {
      const std::string_view before = accept_any(operators);
      if (before.empty()) break;
      Result next = (this->*operand)();
      if (!next) return std::nullopt;
      if (joined.operands.empty()) {
        value->before = kind == Kind::sum ? "+" : "*";
        joined.operands.push_back(std::move(*value));
      }
      next->before = before;
      joined.operands.push_back(std::move(*next));
    }
    return joined.operands.empty() ? std::move(value) : Result(std::move(joined));
  }

  Result sum() { return chain(Kind::sum, {"+", "-"}, &Parser::product); }
  Result product() { return chain(Kind::product, {"//", "/", "*", "%"}, &Parser::unary); }

  // Every nested expression goes through here, so the depth limit is checked here.
  Result unary() {
    if (depth_ == kDeepestExpression) return std::nullopt;
    ++depth_;
    Result result = signed_power();
    --depth_;
    return result;
  }

  Result signed_power() {
    if (accept("+")) return unary();
    if (accept("-")) {
      Result value = unary();
      if (!value) return std::nullopt;
      Expression negated{.kind = Kind::sum};
      value->before = "-";
      negated.operands.push_back(std::move(*value));
      return negated;
    }
    Result base = primary();
    if (!base || !accept("**")) return base;
    Result exponent = unary();
    if (!exponent) return std::nullopt;
    Expression power{.kind = Kind::power};
    power.operands.push_back(std::move(*base));
    power.operands.push_back(std::move(*exponent));
    return power;
  }

  Result primary() {
    const char next = peek();
    if (accept("(")) {
      Result value = sum();
      return value && accept(")") ? std::move(value) : std::nullopt;
    }
    if (is_digit(next)) return number();
    if (text_.substr(at_).starts_with("L[")) return argument();
    const std::string_view name = identifier();
    if (name.empty()) return std::nullopt;
    if (peek() != '(') return named(name);
    return name == "Symbol" ? quoted_symbol() : call(name);
  }

  Result number() {
    const char* begin = text_.data() + at_;
    const char* end = text_.data() + text_.size();
    Expression result{.kind = Kind::number};
    const auto [after, error] = std::from_chars(begin, end, result.number);
    if (error != std::errc() || (after != end && (is_word(*after) || *after == '.'))) {
      return std::nullopt;
    }
    int64_t integer = 0;
    const auto [integer_end, overflow] = std::from_chars(begin, end, integer);
    if (overflow == std::errc() && integer_end == after) result.integer = integer;
    at_ += static_cast<size_t>(after - begin);
    return result;
  }

  std::string_view identifier() {
    const size_t begin = at_;
    while (at_ < text_.size() && (is_word(text_[at_]) || text_[at_] == '.')) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  // Parses L['x'][0].size()[1]. The indices may be strings with any characters.
  Result argument() {
    constexpr std::string_view kSize = ".size()";
    const size_t begin = at_++;
    for (;;) {
      if (at_ < text_.size() && text_[at_] == '[') {
        if (!skip_index()) return std::nullopt;
      } else if (text_.substr(at_).starts_with(kSize)) {
        at_ += kSize.size();
      } else {
        return named(text_.substr(begin, at_ - begin));
      }
    }
  }

  bool skip_index() {
    char quote = '\0';
    for (++at_; at_ < text_.size() && (quote != '\0' || text_[at_] != ']'); ++at_) {
      const char c = text_[at_];
      if (quote != '\0') {
        quote = c == quote ? '\0' : quote;
      } else if (c == '\'' || c == '"') {
        quote = c;
      }
    }
    if (at_ == text_.size()) return false;
    ++at_;
    return true;
  }

  // Parses Symbol('s77', positive=True, integer=True). Symbols without integer=True are floats.
  Result quoted_symbol() {
    accept("(");
    const char quote = peek();
    if (quote != '\'' && quote != '"') return std::nullopt;
    const size_t begin = ++at_;
    const size_t end = text_.find(quote, begin);
    const size_t close = text_.find(')', begin);
    if (end == std::string_view::npos || close == std::string_view::npos || close < end)
      return std::nullopt;
    at_ = close + 1;
    const std::string_view name = text_.substr(begin, end - begin);
    const bool is_integer =
        text_.substr(end, close - end).find("integer=True") != std::string_view::npos;
    if (!is_integer || name.empty() || !std::ranges::all_of(name, is_word)) return std::nullopt;
    return named(name);
  }

  Result call(std::string_view name) {
    accept("(");
    Expression result{.kind = Kind::call};
    result.name = name;
    do {
      Result operand = sum();
      if (!operand) return std::nullopt;
      result.operands.push_back(std::move(*operand));
    } while (accept(","));
    return accept(")") ? Result(std::move(result)) : std::nullopt;
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::optional<Expression> parse_expression(std::string_view text) { return Parser(text).parse(); }

bool any_of(const Expression& expression, const std::function<bool(const Expression&)>& predicate) {
  return predicate(expression) ||
         std::ranges::any_of(expression.operands, [&predicate](const Expression& operand) {
           return any_of(operand, predicate);
         });
}

}  // namespace onnx_native
