// The calls that two recordings of a program have in common.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace onnx_native::capture {

// One step through two sequences: an element of both, of the first one, or of the second one.
struct AlignedStep {
  std::optional<size_t> first;
  std::optional<size_t> second;
  bool operator==(const AlignedStep&) const = default;
};

// Aligns two sequences such that few elements are in one of them only: Myers, "An O(ND) Difference
// Algorithm and Its Variations". Sequences that differ in more than `most` elements are aligned at
// their beginnings and ends only.
std::vector<AlignedStep> align(std::span<const size_t> first, std::span<const size_t> second,
                               size_t most = 1000);

}  // namespace onnx_native::capture
