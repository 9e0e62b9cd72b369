// Converts integer expressions in Python or sympy notation to Dims.
#include <algorithm>
#include <tuple>

#include "base/dim.h"
#include "base/expression.h"

namespace onnx_native {
namespace {

// The maximum number of terms and factors of a parsed expression.
constexpr size_t kLargest = 1024;

// Counts terms and factors, including those of operands; stops at any number above kLargest.
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

// A quotient. Only floor() and ceiling() accept one that is not an integer.
struct Ratio {
  Dim numerator;
  Dim denominator = 1;
  bool is_integer() const { return denominator.equals(1); }
};

class Reader {
 public:
  explicit Reader(const ResolveSymbol& resolve) : resolve_(resolve) {}

  std::optional<Dim> read(const Expression& expression) const {
    const Result value = ratio(expression);
    return value ? integer(*value) : std::nullopt;
  }

 private:
  using Kind = Expression::Kind;
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

  static Result quotient(const Result& a, const Result& b, Dim (*apply)(const Dim&, const Dim&)) {
    if (!a || !b) return std::nullopt;
    const auto left = integer(*a);
    const auto right = integer(*b);
    if (!left || !right) return std::nullopt;
    return Ratio{apply(*left, *right)};
  }

  Result ratio(const Expression& expression) const {
    switch (expression.kind) {
      case Kind::number:
        return expression.integer ? Result(Ratio{*expression.integer}) : std::nullopt;
      case Kind::name:
        return symbol(expression.name);
      case Kind::sum:
      case Kind::product:
        return chain(expression);
      case Kind::power: {
        const Result base = ratio(expression.operands[0]);
        const Result exponent = base ? ratio(expression.operands[1]) : std::nullopt;
        return exponent ? power(*base, *exponent) : std::nullopt;
      }
      default:
        return call(expression);
    }
  }

  Result symbol(std::string_view name) const {
    if (name.find_first_of(".[") != name.npos) return std::nullopt;
    std::optional<Dim> known = resolve_(name);
    return known ? Result(Ratio{std::move(*known)}) : std::nullopt;
  }

  Result chain(const Expression& expression) const {
    Result value = Ratio{expression.kind == Kind::sum ? 0 : 1};
    for (const Expression& operand : expression.operands) {
      const Result next = ratio(operand);
      if (!next) return std::nullopt;
      value = joined(*value, operand.before, *next);
      if (!value) return std::nullopt;
    }
    return value;
  }

  static Result joined(const Ratio& a, std::string_view op, const Ratio& b) {
    if (op == "+") return add(a, b, 1);
    if (op == "-") return add(a, b, -1);
    if (op == "*") return multiply(a, b);
    if (op == "/") return multiply(a, {b.denominator, b.numerator});
    return quotient(a, b, op == "//" ? Dim::floor_div : Dim::mod);
  }

  Result call(const Expression& expression) const {
    std::vector<Ratio> arguments;
    for (const Expression& operand : expression.operands) {
      const Result argument = ratio(operand);
      if (!argument) return std::nullopt;
      arguments.push_back(*argument);
    }
    return apply(expression.name, arguments);
  }

  // Divides, rounding toward zero: down if the quotient is non-negative, up otherwise.
  static Dim truncated(const Dim& numerator, const Dim& denominator) {
    Dim down = Dim::floor_div(numerator, denominator);
    if (numerator.known_non_negative() && denominator.known_non_negative()) return down;
    const Dim up = Dim::ceil_div(numerator, denominator);
    return Dim::max(0, down) + Dim::min(0, up);
  }

  using Chooser = Dim (*)(const Dim&, const Dim&);

  // Returns the function that selects one of its operands and takes any number of them.
  static Chooser chooser(std::string_view name) {
    if (name == "Max" || name == "max") return Dim::max;
    if (name == "Min" || name == "min") return Dim::min;
    return name == "broadcast" ? Dim::broadcast : nullptr;
  }

  static Result apply(std::string_view name, const std::vector<Ratio>& arguments) {
    if (Result exact = of_ratios(name, arguments)) return exact;
    std::vector<Dim> operands;
    for (const Ratio& argument : arguments) {
      const auto operand = integer(argument);
      if (!operand) return std::nullopt;
      operands.push_back(*operand);
    }
    if (const auto choose = chooser(name)) return chosen(choose, operands);
    switch (operands.size()) {
      case 1:
        return of_integer(name, operands[0]);
      case 2:
        return of_integers(name, operands[0], operands[1]);
      case 3:
        if (name != "ModularIndexing") return std::nullopt;
        return Ratio{Dim::mod(Dim::floor_div(operands[0], operands[1]), operands[2])};
      default:
        return std::nullopt;
    }
  }

  // The functions whose operands may be fractions.
  static Result of_ratios(std::string_view name, const std::vector<Ratio>& arguments) {
    if (name == "Add" || name == "Mul") {
      Result total = Ratio{name == "Add" ? 0 : 1};
      for (const Ratio& argument : arguments) {
        if (total) total = name == "Add" ? add(*total, argument, 1) : multiply(*total, argument);
      }
      return total;
    }
    if (arguments.size() == 1) return rounded(name, arguments[0]);
    if (arguments.size() != 2) return std::nullopt;
    const auto& [a, b] = std::tie(arguments[0], arguments[1]);
    if (name == "IntTrueDiv") return multiply(a, {b.denominator, b.numerator});
    if (name == "Pow") return power(a, b);
    if (name == "Rational") return Ratio{a.numerator, b.numerator};
    return std::nullopt;
  }

  static Result rounded(std::string_view name, const Ratio& value) {
    const auto& [numerator, denominator] = value;
    if (name == "ToFloat") return value;
    if (name == "TruncToInt") return bounded({truncated(numerator, denominator)});
    if (name == "floor" || name == "FloorToInt") {
      return Ratio{Dim::floor_div(numerator, denominator)};
    }
    if (name == "ceiling" || name == "CeilToInt") {
      return Ratio{Dim::ceil_div(numerator, denominator)};
    }
    return std::nullopt;
  }

  static Result of_integer(std::string_view name, const Dim& value) {
    if (name == "Integer" || name == "Identity") return Ratio{value};
    if (name == "Abs" || name == "abs") return bounded({Dim::max(value, -value)});
    return std::nullopt;
  }

  static Result of_integers(std::string_view name, const Dim& a, const Dim& b) {
    if (name == "FloorDiv" || name == "CleanDiv") return Ratio{Dim::floor_div(a, b)};
    if (name == "CeilDiv") return Ratio{Dim::ceil_div(a, b)};
    if (name == "Mod" || name == "PythonMod") return Ratio{Dim::mod(a, b)};
    return std::nullopt;
  }

  static Result chosen(Chooser choose, const std::vector<Dim>& operands) {
    Dim result = operands.at(0);
    for (size_t i = 1; i < operands.size(); ++i) {
      result = choose(result, operands[i]);
      if (size_of(result) > kLargest) return std::nullopt;
    }
    return Ratio{result};
  }

  const ResolveSymbol& resolve_;
};

}  // namespace

std::optional<Dim> parse_dim(std::string_view text, const ResolveSymbol& resolve) {
  const std::optional<Expression> expression = parse_expression(text);
  return expression ? Reader(resolve).read(*expression) : std::nullopt;
}

}  // namespace onnx_native
