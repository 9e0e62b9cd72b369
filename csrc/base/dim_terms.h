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

// Bounds of the value, where each symbol that is the size of an input is at least `inputs_from`.
struct Bounds {
  std::optional<int64_t> low;
  std::optional<int64_t> high;
};
Bounds bounds(const Dim& dim, int64_t inputs_from);

}  // namespace onnx_native
