#include "aten/guard.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <unordered_map>

#include "base/error.h"

namespace onnx_native::aten {
namespace {

using Sizes = std::map<std::string, double>;
using Numbers = std::vector<double>;

// The text is not an equation of expressions that are known here.
struct Unknown {};

double modulo(double a, double b) { return a - b * std::floor(a / b); }

std::optional<double> called(std::string_view name, const Numbers& x) {
  using Unary = double (*)(double);
  using Binary = double (*)(double, double);
  static const std::unordered_map<std::string_view, Unary> kUnary{
      {"math.trunc", std::trunc},
      {"TruncToInt", std::trunc},
      {"TruncToFloat", std::trunc},
      {"int", std::trunc},
      {"torch.sym_int", std::trunc},
      {"math.floor", std::floor},
      {"FloorToInt", std::floor},
      {"math.ceil", std::ceil},
      {"CeilToInt", std::ceil},
      {"round", std::nearbyint},
      {"RoundToInt", std::nearbyint},
      {"math.sqrt", std::sqrt},
      {"sqrt", std::sqrt},
      {"torch._sym_sqrt", std::sqrt},
      {"math.log", std::log},
      {"math.log2", std::log2},
      {"log", std::log},
      {"log2", std::log2},
      {"abs", std::fabs},
      {"Abs", std::fabs},
  };
  static const std::unordered_map<std::string_view, Binary> kBinary{
      {"Mod", modulo},
      {"PythonMod", modulo},
      {"FloorDiv", [](double a, double b) { return std::floor(a / b); }},
      {"CleanDiv", [](double a, double b) { return std::floor(a / b); }},
      {"CeilDiv", [](double a, double b) { return std::ceil(a / b); }},
      {"IntTrueDiv", [](double a, double b) { return a / b; }},
      {"FloatTrueDiv", [](double a, double b) { return a / b; }},
      {"FloatPow", [](double a, double b) { return std::pow(a, b); }},
      {"PowByNatural", [](double a, double b) { return std::pow(a, b); }},
  };
  constexpr std::string_view kOpaque = "OpaqueUnaryFn_";
  if (name.starts_with(kOpaque)) name.remove_prefix(kOpaque.size());
  if (x.size() == 1 && (name == "ToFloat" || name == "torch.sym_float" || name == "float")) {
    return x[0];
  }
  if (const auto at = kUnary.find(name); at != kUnary.end() && x.size() == 1) {
    return at->second(x[0]);
  }
  if (const auto at = kBinary.find(name); at != kBinary.end() && x.size() == 2) {
    return at->second(x[0], x[1]);
  }
  if (x.empty()) return std::nullopt;
  if (name == "Max" || name == "max" || name == "torch.sym_max") return std::ranges::max(x);
  if (name == "Min" || name == "min" || name == "torch.sym_min") return std::ranges::min(x);
  return std::nullopt;
}

// Computes the difference of an equation's sides for given sizes. A size without a value is entered
// into `sizes` with `kDefault`.
class Equation {
 public:
  static constexpr double kDefault = 6;
  static constexpr int kDeepest = 200;

  Equation(std::string_view text, Sizes& sizes) : text_(text), sizes_(sizes) {}

  double difference() {
    double result = 0;
    if (take("Eq(")) {
      const double left = sum();
      expect(",");
      result = left - sum();
      expect(")");
    } else {
      const double left = sum();
      expect("==");
      result = left - sum();
    }
    skip();
    if (at_ != text_.size()) throw Unknown();
    return result;
  }

 private:
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(std::string_view token) {
    skip();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) throw Unknown();
  }

  double sum() {
    double result = product();
    for (;;) {
      if (take("+")) {
        result += product();
      } else if (take("-")) {
        result -= product();
      } else {
        return result;
      }
    }
  }

  double product() {
    double result = power();
    for (;;) {
      if (take("//")) {
        result = std::floor(result / power());
      } else if (take("/")) {
        result /= power();
      } else if (take("%")) {
        result = modulo(result, power());
      } else if (take("*")) {
        result *= power();
      } else {
        return result;
      }
    }
  }

  double power() {
    if (++depth_ > kDeepest) throw Unknown();
    const double sign = take("-") ? -1 : 1;
    const double base = sign < 0 ? power() : atom();
    const double result = sign < 0 || !take("**") ? base : std::pow(base, power());
    --depth_;
    return sign * result;
  }

  double atom() {
    if (take("(")) {
      const double result = sum();
      expect(")");
      return result;
    }
    if (at_ >= text_.size()) throw Unknown();
    const char first = text_[at_];
    if (std::isdigit(static_cast<unsigned char>(first))) return number();
    if (first == 'L' && text_.substr(at_).starts_with("L[")) return size(argument());
    const std::string_view name = identifier();
    if (name.empty()) throw Unknown();
    if (!take("(")) return size(name);
    Numbers arguments;
    if (!take(")")) {
      do {
        arguments.push_back(sum());
      } while (take(","));
      expect(")");
    }
    const std::optional<double> result = called(name, arguments);
    if (!result) throw Unknown();
    return *result;
  }

  double number() {
    double value = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc()) throw Unknown();
    at_ += static_cast<size_t>(end - begin);
    return value;
  }

  std::string_view identifier() {
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) ||
                                  text_[at_] == '_' || text_[at_] == '.')) {
      ++at_;
    }
    return text_.substr(begin, at_ - begin);
  }

  // L['x'][0].size()[1], which may have strings with any characters.
  std::string_view argument() {
    constexpr std::string_view kSize = ".size()";
    const size_t begin = at_++;
    for (;;) {
      if (at_ < text_.size() && text_[at_] == '[') {
        char quote = 0;
        for (++at_; at_ < text_.size() && (quote || text_[at_] != ']'); ++at_) {
          const char c = text_[at_];
          if (quote ? c == quote : c == '\'' || c == '"') quote = quote ? '\0' : c;
        }
        if (at_++ >= text_.size()) throw Unknown();
        continue;
      }
      const std::string_view rest = text_.substr(std::min(at_, text_.size()));
      if (rest.starts_with(kSize)) {
        at_ += kSize.size();
      } else {
        return text_.substr(begin, at_ - begin);
      }
    }
  }

  double size(std::string_view name) {
    return sizes_.try_emplace(std::string(name), kDefault).first->second;
  }

  std::string_view text_;
  Sizes& sizes_;
  size_t at_ = 0;
  int depth_ = 0;
};

// Max(1, n) == n holds from some size on: it is a bound in the form of an equation. Its difference
// has the same sign at all sizes.
bool is_bound(std::string_view guard, Sizes sizes, const std::string& size) {
  if (guard.find("Max(") == guard.npos && guard.find("Min(") == guard.npos) return false;
  bool positive = false, negative = false;
  for (const double value : {0., 1., 2., 3., 4., 6., 8., 16., 64., 1009., 100003.}) {
    sizes[size] = value;
    const double difference = Equation(guard, sizes).difference();
    positive |= difference > 0;
    negative |= difference < 0;
  }
  return positive != negative;
}

// 1 or -1 when the difference of the sides grows or falls with the size, without bound; 0
// otherwise.
int direction(std::string_view guard, Sizes sizes, const std::string& size) {
  // Numbers with few divisors and with many: a divisibility does not grow over both.
  static constexpr std::array<double, 5> kSteps = {1009, 10080, 100003, 1081080, 10000019};
  Numbers differences;
  for (const double step : kSteps) {
    sizes[size] = step;
    differences.push_back(Equation(guard, sizes).difference());
  }
  if (!std::ranges::all_of(differences, [](double x) { return std::isfinite(x); })) return 0;
  if (std::ranges::is_sorted(differences, std::less_equal<>())) return 1;
  return std::ranges::is_sorted(differences, std::greater_equal<>()) ? -1 : 0;
}

}  // namespace

std::vector<std::string> pinned_sizes(std::string_view guard) {
  try {
    Sizes sizes;
    Equation(guard, sizes).difference();
    std::vector<std::string> pinned;
    int common = 0;
    for (const auto& [size, value] : sizes) {
      const int own = direction(guard, sizes, size);
      if (own == 0 || (common != 0 && own != common) || is_bound(guard, sizes, size)) return {};
      common = own;
      pinned.push_back(size);
    }
    return pinned;
  } catch (const Unknown&) {
    return {};
  }
}

std::string asserted_guard(std::string_view message) {
  constexpr std::string_view kBefore = "Runtime assertion failed for expression ";
  constexpr std::string_view kAfter = " on node ";
  if (!message.starts_with(kBefore)) return {};
  message.remove_prefix(kBefore.size());
  return std::string(message.substr(0, message.rfind(kAfter)));
}

std::string describe_pin(std::string_view guard, std::string_view size) {
  return concat("the capture replaced a number that depends on the dynamic dimension ", size,
                " by its value in the example: the program holds only where ", guard,
                "; make the dimension static, or compute the number with operations that"
                " torch.export keeps symbolic, such as n // 2 for int(n * 0.5)");
}

}  // namespace onnx_native::aten
