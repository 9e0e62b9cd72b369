// Bounds of symbolic sizes by the residues of their symbols.
#pragma once

#include <span>

#include "base/dim.h"

namespace onnx_native {

// Says what is known of an integer expression.
struct DimFact {
  enum class Kind { non_negative, zero, not_zero };
  Dim dim;
  Kind kind;
};

// Narrow a range.
void at_most(DimRange& range, int64_t value);
void at_least(DimRange& range, int64_t value);

// Returns bounds of an expression with floor divisions and remainders, or of one that the facts
// have. For each residue of its symbols, s = 8*k + 3, these are polynomials of k: n + 7*n % 8 is a
// multiple of 8. Residues that the facts exclude do not count. Bounds that are not found, and those
// of expressions with too many residues, are nullopt. The facts have no other symbols.
DimRange range_by_residues(const Dim& dim, std::span<const DimFact> facts);

}  // namespace onnx_native
