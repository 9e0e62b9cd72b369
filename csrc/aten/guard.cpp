#include "aten/guard.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "base/expression.h"

namespace onnx_native::aten {
namespace {

using Sizes = std::map<std::string, double>;
using Numbers = std::vector<double>;

// Thrown if the text is not an equation of supported expressions.
struct NoEquation {};

// The value of each size that a test does not vary.
constexpr double kSomeSize = 6;

double modulo(double a, double b) { return a - b * std::floor(a / b); }

bool is_maximum(std::string_view name) {
  return name == "Max" || name == "max" || name == "torch.sym_max";
}
bool is_minimum(std::string_view name) {
  return name == "Min" || name == "min" || name == "torch.sym_min";
}

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
  if (is_maximum(name)) return std::ranges::max(x);
  if (is_minimum(name)) return std::ranges::min(x);
  return std::nullopt;
}

bool is_extremum(std::string_view name) { return is_maximum(name) || is_minimum(name); }

// An equation of two expressions, which can be evaluated for given sizes.
class Equation {
 public:
  // Throws NoEquation if the text is not such an equation.
  explicit Equation(std::string_view text) {
    std::optional<Expression> whole = parse_expression(text);
    const bool is_call = whole && whole->kind == Expression::Kind::call && whole->name == "Eq";
    if (is_call && whole->operands.size() == 2) {
      left_ = std::move(whole->operands[0]);
      right_ = std::move(whole->operands[1]);
      return;
    }
    // A name may contain "==" too.
    constexpr std::string_view kEqual = "==";
    for (size_t at = text.find(kEqual); at != text.npos; at = text.find(kEqual, at + 1)) {
      std::optional<Expression> left = parse_expression(text.substr(0, at));
      std::optional<Expression> right = parse_expression(text.substr(at + kEqual.size()));
      if (!left || !right) continue;
      left_ = std::move(*left);
      right_ = std::move(*right);
      return;
    }
    throw NoEquation();
  }

  // Returns left minus right. Throws NoEquation for unsupported functions.
  double difference(const Sizes& sizes) const { return value(left_, sizes) - value(right_, sizes); }

  std::set<std::string> names() const {
    std::set<std::string> names;
    anywhere([&names](const Expression& part) {
      if (part.kind == Expression::Kind::name) names.emplace(part.name);
      return false;
    });
    return names;
  }

  bool has_extremum() const {
    return anywhere([](const Expression& part) {
      return part.kind == Expression::Kind::call && is_extremum(part.name);
    });
  }

 private:
  bool anywhere(const std::function<bool(const Expression&)>& predicate) const {
    return any_of(left_, predicate) || any_of(right_, predicate);
  }

  static double value(const Expression& expression, const Sizes& sizes) {
    Numbers operands;
    for (const Expression& operand : expression.operands) operands.push_back(value(operand, sizes));
    switch (expression.kind) {
      case Expression::Kind::number:
        return expression.number;
      case Expression::Kind::name:
        return sizes.at(std::string(expression.name));
      case Expression::Kind::power:
        return std::pow(operands[0], operands[1]);
      case Expression::Kind::call: {
        const std::optional<double> result = called(expression.name, operands);
        if (!result) throw NoEquation();
        return *result;
      }
      default:
        break;
    }
    double total = expression.kind == Expression::Kind::sum ? 0 : 1;
    for (size_t i = 0; i < operands.size(); ++i)
      total = joined(total, expression.operands[i].before, operands[i]);
    return total;
  }

  static double joined(double a, std::string_view op, double b) {
    if (op == "+") return a + b;
    if (op == "-") return a - b;
    if (op == "*") return a * b;
    if (op == "/") return a / b;
    return op == "//" ? std::floor(a / b) : modulo(a, b);
  }

  Expression left_;
  Expression right_;
};

// Returns true if the guard only bounds the size: Max(1, n) == n holds from some size on. The
// difference of such an equation never changes sign.
bool is_bound(const Equation& guard, Sizes sizes, const std::string& size) {
  if (!guard.has_extremum()) return false;
  bool positive = false, negative = false;
  for (const double value : {0., 1., 2., 3., 4., 6., 8., 16., 64., 1009., 100003.}) {
    sizes[size] = value;
    const double difference = guard.difference(sizes);
    positive |= difference > 0;
    negative |= difference < 0;
  }
  return positive != negative;
}

// Returns 1 or -1 if the difference of the sides grows or falls strictly with the size; 0
// otherwise.
int direction(const Equation& guard, Sizes sizes, const std::string& size) {
  // Mixes numbers with few and with many divisors, so that a remainder is not monotonic over them.
  static constexpr std::array<double, 5> kSteps = {1009, 10080, 100003, 1081080, 10000019};
  Numbers differences;
  for (const double step : kSteps) {
    sizes[size] = step;
    differences.push_back(guard.difference(sizes));
  }
  if (!std::ranges::all_of(differences, [](double x) { return std::isfinite(x); })) return 0;
  if (std::ranges::is_sorted(differences, std::less_equal<>())) return 1;
  return std::ranges::is_sorted(differences, std::greater_equal<>()) ? -1 : 0;
}

}  // namespace

std::vector<std::string> pinned_sizes(std::string_view text) {
  try {
    const Equation guard(text);
    Sizes sizes;
    for (const std::string& name : guard.names()) sizes[name] = kSomeSize;
    std::vector<std::string> pinned;
    int common = 0;
    for (const auto& [size, value] : sizes) {
      const int own = direction(guard, sizes, size);
      if (own == 0 || (common != 0 && own != common) || is_bound(guard, sizes, size)) return {};
      common = own;
      pinned.push_back(size);
    }
    return pinned;
  } catch (const NoEquation&) {
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
  return concat("the capture specialized a number that depends on the dynamic dimension ", size,
                " to its value in the example, so the program is valid only if ", guard,
                "; make the dimension static, or compute the number with operations that "
                "torch.export keeps symbolic, such as n // 2 instead of int(n * 0.5)");
}

}  // namespace onnx_native::aten
