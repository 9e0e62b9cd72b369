// The structure of an arithmetic expression in the spelling of Python or sympy.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace onnx_native {

// Names are parts of the text, which the caller keeps.
struct Expression {
  enum class Kind { number, name, sum, product, power, call };

  Kind kind = Kind::number;
  double number = 0;
  std::optional<int64_t> integer;  // of a number that is written as an integer and fits
  std::string_view name;           // of a name or a called function
  // A sum's operands have "+" or "-" before them (`before`), a product's "*", "/", "//" or "%"; a
  // power has its base and its exponent.
  std::vector<Expression> operands;
  std::string_view before;
};

// Names are identifiers with dots, sizes of arguments ("L['x'][0].size()[1]"), and sympy's integer
// symbols ("Symbol('s0', integer=True)"). nullopt when the text is no expression or is nested too
// deeply.
std::optional<Expression> parse_expression(std::string_view text);

// An expression or one inside of it is as the predicate says.
bool any_of(const Expression& expression, const std::function<bool(const Expression&)>& predicate);

}  // namespace onnx_native
