// Shared by the files that implement Dim: the canonical order, bounds, and single atoms.
#pragma once

#include <cstdint>
#include <optional>

#include "base/dim.h"

namespace onnx_native {

// Compares in canonical order; returns a negative number, zero or a positive number. Terms with
// more factors come first, so that dividing by the leading term is polynomial division.
int compare(const Dim::Factor& a, const Dim::Factor& b);
int compare(const std::vector<Dim::Factor>& a, const std::vector<Dim::Factor>& b);
int compare(const Dim& a, const Dim& b);

// Builds an atom of two operands without simplifying it.
Dim make_atom(Dim::Atom kind, const Dim& a, const Dim& b);

// Python's integer division and remainder; b must not be 0.
int64_t floor_divide(int64_t a, int64_t b);
int64_t floor_modulo(int64_t a, int64_t b);

// Detects overflow of coefficients, which wrap around as int64 tensors do. Conclusions from the
// order of numbers are invalid for a coefficient that wrapped.
class WrapWatch {
 public:
  WrapWatch() : before_(count()) {}
  // True if arithmetic on this thread has wrapped a coefficient since construction.
  bool wrapped() const { return count() != before_; }
  static void note() { ++count(); }

 private:
  static uint64_t& count();
  uint64_t before_;
};

// True if the expression has a symbol and a coefficient so large that it may have wrapped. Such an
// expression computes the right value, but it proves nothing about order.
bool may_have_wrapped(const Dim& dim);

// Bounds of the value, given that each symbol that is the size of an input is at least
// `inputs_from`.
struct Bounds {
  std::optional<int64_t> low;
  std::optional<int64_t> high;
};
Bounds bounds(const Dim& dim, int64_t inputs_from);

}  // namespace onnx_native
