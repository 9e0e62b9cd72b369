// The syntax tree of an arithmetic expression in Python or sympy notation.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace onnx_native {

// A node of the syntax tree. Names point into the text, which the caller keeps alive.
struct Expression {
  enum class Kind { number, name, sum, product, power, call };

  Kind kind = Kind::number;
  double number = 0;
  std::optional<int64_t> integer;  // the value of an integer literal that fits int64
  std::string_view name;           // a name, or the name of the called function
  // An operand of a sum is preceded by "+" or "-" (`before`), an operand of a product by "*", "/",
  // "//" or "%". The operands of a power are its base and its exponent.
  std::vector<Expression> operands;
  std::string_view before;
};

// Parses identifiers with dots, sizes of arguments ("L['x'][0].size()[1]"), and sympy's integer
// symbols ("Symbol('s0', integer=True)"). Returns nullopt if the text is not an expression or is
// nested too deeply.
std::optional<Expression> parse_expression(std::string_view text);

// Returns true if the predicate holds for the expression or any subexpression.
bool any_of(const Expression& expression, const std::function<bool(const Expression&)>& predicate);

}  // namespace onnx_native
