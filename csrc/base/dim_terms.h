// What the files that implement Dim share: the canonical order, bounds, and single atoms.
#pragma once

#include <cstdint>
#include <optional>

#include "base/dim.h"

namespace onnx_native {

// The canonical order: negative, zero or positive. Terms with more factors come first, so that
// dividing by the leading term is a division of polynomials.
int compare(const Dim::Factor& a, const Dim::Factor& b);
int compare(const std::vector<Dim::Factor>& a, const std::vector<Dim::Factor>& b);
int compare(const Dim& a, const Dim& b);

// An atom of two operands as it is, without simplification.
Dim make_atom(Dim::Atom kind, const Dim& a, const Dim& b);

// Integer division and remainder as Python's; b is not 0.
int64_t floor_divide(int64_t a, int64_t b);
int64_t floor_modulo(int64_t a, int64_t b);

// Coefficients wrap around as int64 tensors do. What is concluded from the order of numbers does
// not hold for a coefficient that wrapped.
class WrapWatch {
 public:
  WrapWatch() : before_(count()) {}
  // Arithmetic on this thread wrapped a coefficient since this was made.
  bool wrapped() const { return count() != before_; }
  static void note() { ++count(); }

 private:
  static uint64_t& count();
  uint64_t before_;
};

// Has a symbol, and a coefficient so large that it may have wrapped: the expression computes the
// right value, and says nothing about its order.
bool may_have_wrapped(const Dim& dim);

// Bounds of the value, where each symbol that is the size of an input is at least `inputs_from`.
struct Bounds {
  std::optional<int64_t> low;
  std::optional<int64_t> high;
};
Bounds bounds(const Dim& dim, int64_t inputs_from);

}  // namespace onnx_native
