// Floats and bools of a recorded program, as expressions over sizes and over what it reads from
// tensors.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "aten/graph.h"
#include "base/dim.h"

namespace onnx_native::capture {

struct Number;
using NumberPtr = std::shared_ptr<const Number>;

// An expression. An integer is a Dim; a result of `call` that is an integer gets a symbol.
struct Number {
  // A call of a Python operator: "python::mul".
  struct Call {
    std::string op;
    std::vector<NumberPtr> operands;
  };
  std::variant<double, bool, Dim, aten::Value*, Call> is;
};

NumberPtr make_number(decltype(Number::is) is);
NumberPtr make_call(std::string_view op, std::vector<NumberPtr> operands);

// Returns true for operators that return a bool.
bool is_condition(std::string_view op);

// Returns true for the functions of Python's math module whose results are floats.
bool is_float_function(std::string_view op);

// Returns the value of a symbol; nullopt if it depends on data.
using SymbolValue = std::function<std::optional<int64_t>(std::string_view symbol)>;
// Returns the value, as Python computes it; nullopt if it depends on data or does not exist.
std::optional<double> evaluate(const Number& number, const SymbolValue& value);
// Prints Python: "floor(n*0.5)".
std::string str(const Number& number);

}  // namespace onnx_native::capture
