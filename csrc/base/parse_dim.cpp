// Recursive descent over Python's and sympy's spelling of integer expressions.
#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/dim.h"

namespace onnx_native {
namespace {

// What one text may ask for: expressions inside expressions, and terms and factors of them all.
constexpr int kDeepest = 200;
constexpr size_t kLargest = 1024;

// Terms and factors, those inside operands included; anything over kLargest when there are more.
size_t size_of(const Dim& dim) {
  size_t size = 0;
  for (const Dim::Term& term : dim.terms()) {
    size += 1 + term.factors.size();
    for (const Dim::Factor& factor : term.factors) {
      for (const Dim& operand : factor.operands) {
        if (size <= kLargest) size += size_of(operand);
      }
    }
    if (size > kLargest) break;
  }
  return size;
}

// A quotient that only floor() and ceiling() may leave as one.
struct Ratio {
  Dim numerator;
  Dim denominator = 1;
  bool is_integer() const { return denominator.equals(1); }
};

class Parser {
 public:
  Parser(std::string_view text, const ResolveSymbol& resolve) : text_(text), resolve_(resolve) {}

  std::optional<Dim> parse() {
    const auto value = sum();
    skip_spaces();
    if (!value || at_ != text_.size()) return std::nullopt;
    return integer(*value);
  }

 private:
  using Result = std::optional<Ratio>;

  static std::optional<Dim> integer(const Ratio& ratio) {
    if (ratio.is_integer()) return ratio.numerator;
    if (Dim::mod(ratio.numerator, ratio.denominator).equals(0)) {
      return Dim::floor_div(ratio.numerator, ratio.denominator);
    }
    return std::nullopt;
  }

  static Result add(const Ratio& a, const Ratio& b, int sign) {
    if (a.denominator == b.denominator) {
      return bounded({a.numerator + Dim(sign) * b.numerator, a.denominator});
    }
    const Result left = multiply(a, {b.denominator, b.denominator});
    const Result right = multiply(b, {a.denominator, a.denominator});
    if (!left || !right) return std::nullopt;
    return bounded({left->numerator + Dim(sign) * right->numerator, left->denominator});
  }

  static Result multiply(const Ratio& a, const Ratio& b) {
    if (size_of(a.numerator) * size_of(b.numerator) > kLargest ||
        size_of(a.denominator) * size_of(b.denominator) > kLargest) {
      return std::nullopt;
    }
    return Ratio{a.numerator * b.numerator, a.denominator * b.denominator};
  }

  static Result bounded(Ratio ratio) {
    return size_of(ratio.numerator) > kLargest ? std::nullopt : Result(std::move(ratio));
  }

  static Result power(const Ratio& base, const Ratio& exponent) {
    const auto count = exponent.is_integer() ? exponent.numerator.constant() : std::nullopt;
    if (!count || *count < -16 || *count > 16) return std::nullopt;
    Result result = Ratio{1};
    for (int64_t i = 0; result && i < (*count < 0 ? -*count : *count); ++i) {
      result = multiply(*result, base);
    }
    if (result && *count < 0) std::swap(result->numerator, result->denominator);
    return result;
  }

  void skip_spaces() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }

  bool accept(std::string_view token) {
    skip_spaces();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }

  char peek() {
    skip_spaces();
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  Result sum() {
    Result value = product();
    while (value) {
      const int sign = accept("+") ? 1 : accept("-") ? -1 : 0;
      if (sign == 0) break;
      const Result next = product();
      if (!next) return std::nullopt;
      value = add(*value, *next, sign);
    }
    return value;
  }

  Result product() {
    Result value = unary();
    while (value) {
      if (accept("//")) {
        value = quotient(value, unary(), Dim::floor_div);
      } else if (accept("/")) {
        const Result next = unary();
        if (!next) return std::nullopt;
        value = multiply(*value, {next->denominator, next->numerator});
      } else if (accept("*")) {
        const Result next = unary();
        if (!next) return std::nullopt;
        value = multiply(*value, *next);
      } else if (accept("%")) {
        value = quotient(value, unary(), Dim::mod);
      } else {
        break;
      }
    }
    return value;
  }

  static Result quotient(const Result& a, const Result& b, Dim (*apply)(const Dim&, const Dim&)) {
    if (!a || !b) return std::nullopt;
    const auto left = integer(*a);
    const auto right = integer(*b);
    if (!left || !right) return std::nullopt;
    return Ratio{apply(*left, *right)};
  }

  // Every expression inside another comes through here.
  Result unary() {
    if (depth_ == kDeepest) return std::nullopt;
    ++depth_;
    Result result = signed_power();
    --depth_;
    return result;
  }

  Result signed_power() {
    if (accept("-")) {
      const Result value = unary();
      return value ? Result(Ratio{-value->numerator, value->denominator}) : std::nullopt;
    }
    if (accept("+")) return unary();
    Result base = primary();
    if (base && accept("**")) {
      const Result exponent = unary();
      return exponent ? power(*base, *exponent) : std::nullopt;
    }
    return base;
  }

  Result primary() {
    const char next = peek();
    if (accept("(")) {
      const Result value = sum();
      return value && accept(")") ? value : std::nullopt;
    }
    if (std::isdigit(static_cast<unsigned char>(next))) return number();
    const std::string_view name = identifier();
    if (name.empty()) return std::nullopt;
    if (peek() != '(') return symbol(name);
    return call(name);
  }

  static bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

  Result symbol(std::string_view name) const {
    if (name.empty() || !std::ranges::all_of(name, is_word)) return std::nullopt;
    std::optional<Dim> known = resolve_(name);
    return known ? Result(Ratio{std::move(*known)}) : std::nullopt;
  }

  Result number() {
    int64_t value;
    const auto [end, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) return std::nullopt;
    at_ = static_cast<size_t>(end - text_.data());
    const bool goes_on =
        at_ < text_.size() && (text_[at_] == '.' || text_[at_] == '_' ||
                               std::isalpha(static_cast<unsigned char>(text_[at_])));
    return goes_on ? std::nullopt : Result(Ratio{value});
  }

  std::string_view identifier() {
    skip_spaces();
    const size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  // Symbol('s77', positive=True, integer=True); others are floats.
  Result quoted_symbol() {
    accept("(");
    const char quote = peek();
    if (quote != '\'' && quote != '"') return std::nullopt;
    const size_t begin = ++at_;
    const size_t end = text_.find(quote, begin);
    const size_t close = text_.find(')', begin);
    if (end == std::string_view::npos || close == std::string_view::npos || close < end) {
      return std::nullopt;
    }
    at_ = close + 1;
    if (text_.substr(end, close - end).find("integer=True") == std::string_view::npos) {
      return std::nullopt;
    }
    return symbol(text_.substr(begin, end - begin));
  }

  Result call(std::string_view name) {
    if (name == "Symbol") return quoted_symbol();
    accept("(");
    std::vector<Ratio> arguments;
    do {
      const Result argument = sum();
      if (!argument) return std::nullopt;
      arguments.push_back(*argument);
    } while (accept(","));
    if (!accept(")")) return std::nullopt;
    return apply(name, arguments);
  }

  // Towards zero, which is down for what is not negative and up for the rest.
  static Dim truncated(const Dim& numerator, const Dim& denominator) {
    Dim down = Dim::floor_div(numerator, denominator);
    if (numerator.known_non_negative() && denominator.known_non_negative()) return down;
    const Dim up = Dim::ceil_div(numerator, denominator);
    return Dim::max(0, down) + Dim::min(0, up);
  }

  static Result apply(std::string_view name, const std::vector<Ratio>& arguments) {
    if (arguments.size() == 1) {
      const auto& [numerator, denominator] = arguments[0];
      if (name == "floor" || name == "FloorToInt") {
        return Ratio{Dim::floor_div(numerator, denominator)};
      }
      if (name == "TruncToInt") return bounded({truncated(numerator, denominator)});
      if (name == "ceiling" || name == "CeilToInt") {
        return Ratio{Dim::ceil_div(numerator, denominator)};
      }
      if (name == "ToFloat") return arguments[0];
    }
    if (name == "IntTrueDiv" && arguments.size() == 2) {
      return multiply(arguments[0], {arguments[1].denominator, arguments[1].numerator});
    }
    if (name == "Add" || name == "Mul") {
      Result total = Ratio{name == "Add" ? 0 : 1};
      for (const Ratio& argument : arguments) {
        if (total) total = name == "Add" ? add(*total, argument, 1) : multiply(*total, argument);
      }
      return total;
    }
    if (name == "Pow" && arguments.size() == 2) return power(arguments[0], arguments[1]);
    if (name == "Rational" && arguments.size() == 2) {
      return Ratio{arguments[0].numerator, arguments[1].numerator};
    }
    std::vector<Dim> operands;
    for (const Ratio& argument : arguments) {
      const auto operand = integer(argument);
      if (!operand) return std::nullopt;
      operands.push_back(*operand);
    }
    if ((name == "Integer" || name == "Identity") && operands.size() == 1) {
      return Ratio{operands[0]};
    }
    if ((name == "Abs" || name == "abs") && operands.size() == 1) {
      return bounded({Dim::max(operands[0], -operands[0])});
    }
    if (name == "Max" || name == "max" || name == "Min" || name == "min") {
      const auto extremum = name == "Max" || name == "max" ? Dim::max : Dim::min;
      Dim result = operands[0];
      for (size_t i = 1; i < operands.size(); ++i) {
        result = extremum(result, operands[i]);
        if (size_of(result) > kLargest) return std::nullopt;
      }
      return Ratio{result};
    }
    if (name == "ModularIndexing" && operands.size() == 3) {
      return Ratio{Dim::mod(Dim::floor_div(operands[0], operands[1]), operands[2])};
    }
    if (operands.size() != 2) return std::nullopt;
    if (name == "FloorDiv" || name == "CleanDiv") {
      return Ratio{Dim::floor_div(operands[0], operands[1])};
    }
    if (name == "CeilDiv") return Ratio{Dim::ceil_div(operands[0], operands[1])};
    if (name == "Mod" || name == "PythonMod") return Ratio{Dim::mod(operands[0], operands[1])};
    return std::nullopt;
  }

  std::string_view text_;
  const ResolveSymbol& resolve_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::optional<Dim> parse_dim(std::string_view text, const ResolveSymbol& resolve) {
  return Parser(text, resolve).parse();
}

}  // namespace onnx_native
