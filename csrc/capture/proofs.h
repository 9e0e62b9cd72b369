// Proofs of conditions on sizes.
#pragma once

#include <optional>
#include <span>

#include "base/dim.h"
#include "base/residues.h"
#include "capture/decisions.h"

namespace onnx_native::capture {

// Returns the truth of difference <relation> 0.
bool is_true(int64_t difference, Relation relation);
// Returns the truth of the relation of a number in this range to 0; nullopt if it has several.
std::optional<bool> decided(const DimRange& range, Relation relation);

// Returns what a guard says of an expression of sizes; nullopt for one on floats.
std::optional<DimFact> fact_of(const Guard& guard);
// Narrows the range of an expression by the facts about this expression plus a number, and about
// its negation: n <= 32 for n - 32 and for 40 - n.
DimRange narrowed_by(std::span<const DimFact> facts, const Dim& difference, DimRange range);

}  // namespace onnx_native::capture
