// Symbolic sizes: integer expressions over named symbols, kept and compared in canonical form.
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

// The range of a symbol, declared where the symbol is created: `low` to `high`, both inclusive;
// nullopt means unbounded.
struct DimRange {
  std::optional<int64_t> low;
  std::optional<int64_t> high;
  // True for the size of an input. Inputs are expected to be non-empty, whatever `low` is, where a
  // size of 0 would cost only speed.
  bool is_input_size = false;
  // For the size of an input: the smallest value for which the program's other sizes are recorded.
  // If it is 2, min(2, n) is recorded as 2, although the model also runs with n = 1.
  int64_t captured_from = 2;

  // The size of an input; at least 0 unless the user states another bound.
  static DimRange input_size(int64_t low = 0, std::optional<int64_t> high = std::nullopt) {
    return {low, high, true};
  }
  // The size of an input of a program captured by torch.export, which recorded the range
  // `recorded`.
  static DimRange captured_size(const DimRange& recorded);
  // A data-dependent size.
  static DimRange size() { return {0, std::nullopt}; }
  // An integer that is not a size.
  static DimRange integer(std::optional<int64_t> low = std::nullopt,
                          std::optional<int64_t> high = std::nullopt) {
    return {low, high};
  }
  bool operator==(const DimRange&) const = default;
};

// An integer expression: a sum of products of atoms with integer coefficients. An atom is a symbol,
// or the floor division, modulo, maximum, minimum or broadcast of two expressions. Immutable and
// cheap to copy. A symbol is identified by its name; its range travels with it and determines which
// simplifications are valid. Two Dims are equal when their canonical forms are equal (`2*(s0 + 1)`
// equals `2*s0 + 2`); different forms may still have the same value.
class Dim {
 public:
  struct Factor;
  enum class Atom { symbol, floor_div, mod, max, min, broadcast };

  Dim() : Dim(0) {}
  Dim(int64_t value);  // NOLINT(google-explicit-constructor): most sizes are numbers
  Dim(int value) : Dim(static_cast<int64_t>(value)) {}  // NOLINT(google-explicit-constructor)
  static Dim symbol(std::string_view name, const DimRange& range = DimRange::input_size());
  // Returns a new symbol with a unique name: "u0", "u1", ... (PyTorch's names for data-dependent
  // symbols), or another stem. The name carries no meaning.
  static Dim fresh(const DimRange& range = DimRange::size(), std::string_view stem = "u");
  // Forgets the names seen on this thread, so that fresh() counts from 0 again. Call it at the
  // start of an export, before the program is read, so that the same program always gets the same
  // names.
  static void restart_fresh();

  static Dim floor_div(const Dim& a,
                       const Dim& b);  // rounds toward minus infinity, like Python's //
  static Dim ceil_div(const Dim& a, const Dim& b);
  static Dim mod(const Dim& a, const Dim& b);  // has the divisor's sign, like Python's %
  static Dim max(const Dim& a, const Dim& b);
  static Dim min(const Dim& a, const Dim& b);
  // The size that results from NumPy broadcasting of two sizes: b if a is 1, else a. Assumes that
  // the sizes are equal if neither is 1.
  static Dim broadcast(const Dim& a, const Dim& b);

  bool is_constant() const;
  // Returns the value of a constant expression; nullopt for any other expression.
  std::optional<int64_t> constant() const;
  // Returns the constant, or `otherwise`.
  int64_t constant_or(int64_t otherwise) const { return constant().value_or(otherwise); }
  bool is_symbol() const { return is(Atom::symbol); }
  // True if the expression is a single broadcast atom.
  bool is_broadcast() const { return is(Atom::broadcast); }
  bool equals(int64_t value) const { return constant() == value; }

  // These return true if the ranges of the symbols prove the property. known_positive() assumes
  // that input sizes are at least 1, unless `inputs_positive` is false.
  bool known_non_negative() const;
  bool known_positive(bool inputs_positive = true) const;
  // True if the value may well be 0: an index or slice was limited to a size (such a limit is a
  // minimum or maximum), the size depends on data, or its least value is exactly 0, as of "n - 1".
  // False for sizes of windows, "(n - 3)//2 + 1", although they are 0 for inputs that are too
  // small.
  bool may_be_empty() const;
  // Returns bounds of the value.
  DimRange range() const;

  // Returns the expression simplified under the sizes the program was captured for, so that min(2,
  // n) becomes 2.
  Dim as_captured() const;

  // Returns the name of each symbol in the expression once, in canonical order.
  std::vector<std::string> symbols() const;
  // Calls visit(factor) for each occurrence of a symbol.
  void for_each_symbol(const std::function<void(const Factor& symbol)>& visit) const;
  // Replaces symbols by expressions.
  Dim substitute(const std::function<std::optional<Dim>(std::string_view)>& replacement) const;
  // Marks all symbols in the expression with a source. Arithmetic keeps the marks, as far as the
  // symbols stay; where equal terms of two sources meet, one mark stays.
  Dim from_source(int64_t source) const;
  // Evaluates the expression with a value for every symbol; nullopt if a value is missing or a
  // divisor is 0.
  std::optional<int64_t> evaluate(
      const std::function<std::optional<int64_t>(std::string_view)>& value) const;

  // Prints valid Python for dim_param: "2*s0 + 1", "(s1 - 3)//2", "max(1, s0)". A broadcast prints
  // as the call "broadcast(s0, s1)".
  std::string str() const;

  // No mark of from_source().
  static constexpr int64_t kNoSource = -1;
  // The structure of the expression, for code that lowers it to nodes.
  struct Term {
    int64_t coefficient;
    std::vector<Factor> factors;  // canonical order; a power is a repeated factor
  };
  struct Factor {
    Atom kind;
    std::string name;                // symbols only
    std::vector<Dim> operands = {};  // two for every other kind, none for a symbol
    DimRange range = {};             // of a symbol; ignored by comparisons
    int64_t source = kNoSource;      // of a symbol; ignored by comparisons
  };
  static Dim of(Factor factor);
  // Returns the terms of the sum. A constant term has no factors and comes last; zero has no terms.
  const std::vector<Term>& terms() const;
  // Builds a canonical sum; terms and factors may be in any order.
  static Dim from_terms(std::vector<Term> terms);

  bool operator==(const Dim& other) const;
  size_t hash() const;

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  Dim operator-() const;

 private:
  struct Rep;
  // True if the expression is a single atom of this kind.
  bool is(Atom kind) const;
  bool has_limit() const;      // a minimum or maximum in it
  bool is_polynomial() const;  // of symbols
  explicit Dim(std::shared_ptr<const Rep> rep) : rep_(std::move(rep)) {}
  std::shared_ptr<const Rep> rep_;
};

using Shape = CheckedVector<Dim>;  // the sizes of a tensor

// Returns the number of elements: the product of all sizes.
Dim numel(const Shape& shape);
// True if a size is the constant 0, so that tensors of this shape have no elements.
bool is_empty(const Shape& shape);
// True if a size may well be 0.
bool may_be_empty(const Shape& shape);
// Prints "[batch, 4]".
std::string str(const Shape& shape);
// Returns the sizes if all are constant.
std::optional<std::vector<int64_t>> constant_shape(const Shape& shape);

// Maps a name in the text of an expression to its value; nullopt if it is not an integer.
using ResolveSymbol = std::function<std::optional<Dim>(std::string_view name)>;

// Parses the output of Dim::str and sympy's reprs of integers ("2*s77 + 1", "((s3 - 3)//2)",
// "Max(1, s0)", "FloorDiv(a, b)", "Mod(a, b)", "PythonMod", "CeilDiv", "floor(a/b)", "Min", "Abs",
// powers "s0**2"). Returns nullopt if the text is not such an expression, or if it has a symbol
// that sympy's repr does not declare an integer.
std::optional<Dim> parse_dim(std::string_view text, const ResolveSymbol& resolve);

}  // namespace onnx_native

template <>
struct std::hash<onnx_native::Dim> {
  size_t operator()(const onnx_native::Dim& dim) const { return dim.hash(); }
};
