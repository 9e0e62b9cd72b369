// Symbolic sizes: integer expressions over named symbols, kept in a canonical form and compared as
// such.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/checked_vector.h"

namespace onnx_native {

// The values that a symbol may have, declared where the symbol is made: from `low` to `high`, both
// included; nullopt where there is no bound.
struct DimRange {
  std::optional<int64_t> low;
  std::optional<int64_t> high;
  // The size of an input. Programs are captured for inputs that have elements: where an empty one
  // would only cost speed, a size of 0 is not expected, whatever `low` is.
  bool is_input_size = false;
  // Of an input's size: the least value that the program's other sizes are recorded for. Where it
  // is 2, min(2, n) is recorded as 2, though the model runs with n = 1.
  int64_t captured_from = 2;

  // The size of an input, of which 0 is the least unless the user says otherwise.
  static DimRange input_size(int64_t low = 0, std::optional<int64_t> high = std::nullopt) {
    return {low, high, true};
  }
  // The size of an input of a program that torch.export captured, which records this range.
  static DimRange captured_size(const DimRange& recorded);
  // A size that depends on data.
  static DimRange size() { return {0, std::nullopt}; }
  // A number that is no size.
  static DimRange integer(std::optional<int64_t> low = std::nullopt,
                          std::optional<int64_t> high = std::nullopt) {
    return {low, high};
  }
  bool operator==(const DimRange&) const = default;
};

// An integer expression: a sum of products of atoms with integer coefficients, where an atom is a
// symbol or one of floor division, modulo, maximum, minimum, broadcast of expressions. Immutable
// and cheap to copy. A symbol is known by its name; its range comes with it, and says what the
// expression may be simplified to. Two Dims are equal when their canonical forms are (so `2*(s0 +
// 1)` equals `2*s0 + 2`); inequality of forms does not mean that the values differ.
class Dim {
 public:
  struct Factor;
  enum class Atom { symbol, floor_div, mod, max, min, broadcast };

  Dim() : Dim(0) {}
  Dim(int64_t value);  // NOLINT(google-explicit-constructor): a size is most often a number
  Dim(int value) : Dim(static_cast<int64_t>(value)) {}  // NOLINT(google-explicit-constructor)
  static Dim symbol(std::string_view name, const DimRange& range = DimRange::input_size());
  // A symbol that no other has, called "u0", "u1", ... as PyTorch names what depends on data, or by
  // another stem. The name means nothing.
  static Dim fresh(const DimRange& range = DimRange::size(), std::string_view stem = "u");
  // Forgets the names seen on this thread, so that fresh() counts from 0 again: called at the start
  // of an export, before its program is read, so that the same program gives the same names.
  static void restart_fresh();

  static Dim floor_div(const Dim& a,
                       const Dim& b);  // rounds towards minus infinity, as Python's //
  static Dim ceil_div(const Dim& a, const Dim& b);
  static Dim mod(const Dim& a, const Dim& b);  // sign of the divisor, as Python's %
  static Dim max(const Dim& a, const Dim& b);
  static Dim min(const Dim& a, const Dim& b);
  // The size that numpy's broadcasting gives for two sizes: b where a is 1, else a. The sizes are
  // taken to be equal where none of them is 1.
  static Dim broadcast(const Dim& a, const Dim& b);

  bool is_constant() const;
  // The value of a constant expression.
  std::optional<int64_t> constant() const;
  // The constant, or `otherwise`.
  int64_t constant_or(int64_t otherwise) const { return constant().value_or(otherwise); }
  bool is_symbol() const { return is(Atom::symbol); }
  // One broadcast of sizes, and nothing else.
  bool is_broadcast() const { return is(Atom::broadcast); }
  bool equals(int64_t value) const { return constant() == value; }

  // What can be said of the value by the symbols' ranges; known_positive() takes sizes of inputs to
  // be at least 1, unless `inputs_positive` is false.
  bool known_non_negative() const;
  bool known_positive(bool inputs_positive = true) const;
  // Bounds of the value.
  DimRange range() const;

  // The expression where sizes of inputs are at least what the program was captured for: min(2, n)
  // is 2.
  Dim as_captured() const;

  // Names of all symbols in the expression, in canonical order, each once.
  std::vector<std::string> symbols() const;
  // Calls visit(factor) for each occurrence of a symbol.
  void for_each_symbol(const std::function<void(const Factor& symbol)>& visit) const;
  // Replaces symbols by expressions.
  Dim substitute(const std::function<std::optional<Dim>(std::string_view)>& replacement) const;
  // Evaluates with a value for every symbol; nullopt when one is missing.
  std::optional<int64_t> evaluate(
      const std::function<std::optional<int64_t>(std::string_view)>& value) const;

  // "2*s0 + 1", "(s1 - 3)//2", "max(1, s0)": valid Python, used as dim_param. "broadcast(s0, s1)"
  // is written as a call.
  std::string str() const;

  // The structure, for those who turn an expression into nodes.
  struct Term {
    int64_t coefficient;
    std::vector<Factor> factors;  // canonical order; a power is a repeated factor
  };
  struct Factor {
    Atom kind;
    std::string name;                // of a symbol
    std::vector<Dim> operands = {};  // two, of the other kinds
    DimRange range = {};             // of a symbol; not compared
  };
  static Dim of(Factor factor);
  // The sum's terms; a constant term has no factors and comes last; zero has no terms.
  const std::vector<Term>& terms() const;
  // The sum of terms in any order, factors in any order.
  static Dim from_terms(std::vector<Term> terms);

  bool operator==(const Dim& other) const;
  size_t hash() const;

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  Dim operator-() const;

 private:
  struct Rep;
  // The expression is a single atom of this kind.
  bool is(Atom kind) const;
  explicit Dim(std::shared_ptr<const Rep> rep) : rep_(std::move(rep)) {}
  std::shared_ptr<const Rep> rep_;
};

using Shape = CheckedVector<Dim>;

// Number of elements: the product of all sizes.
Dim numel(const Shape& shape);
// A size is the constant 0: tensors of this shape have no elements.
bool is_empty(const Shape& shape);
// "[batch, 4]"
std::string str(const Shape& shape);
// The sizes, when all are constant.
std::optional<std::vector<int64_t>> constant_shape(const Shape& shape);

// What a name in the text of an expression stands for; nullopt: it is no integer.
using ResolveSymbol = std::function<std::optional<Dim>(std::string_view name)>;

// Parses what Dim::str prints, and sympy's reprs of integers ("2*s77 + 1", "((s3 - 3)//2)", "Max(1,
// s0)", "FloorDiv(a, b)", "Mod(a, b)", "PythonMod", "CeilDiv", "floor(a/b)", "Min", "Abs", powers
// "s0**2"). nullopt when the text is not such an expression, or has a symbol that sympy's repr does
// not declare an integer.
std::optional<Dim> parse_dim(std::string_view text, const ResolveSymbol& resolve);

}  // namespace onnx_native

template <>
struct std::hash<onnx_native::Dim> {
  size_t operator()(const onnx_native::Dim& dim) const { return dim.hash(); }
};
