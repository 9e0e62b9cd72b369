// Proofs of conditions on sizes.
#pragma once

#include <optional>
#include <span>

#include "base/dim.h"
#include "capture/decisions.h"

namespace onnx_native::capture {

// Returns the truth of difference <relation> 0.
bool is_true(int64_t difference, Relation relation);
// Returns the truth of the relation of a number in this range to 0; nullopt if it has several.
std::optional<bool> decided(const DimRange& range, Relation relation);

void at_most(DimRange& range, int64_t value);
void at_least(DimRange& range, int64_t value);

// Narrows the range of an expression by the guards on this expression plus a number, and on its
// negation: n <= 32 for n - 32 and for 40 - n.
DimRange guarded(DimRange range, const Dim& difference, std::span<const Guard> guards);

}  // namespace onnx_native::capture
