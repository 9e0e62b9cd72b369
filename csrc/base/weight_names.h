// The names of initializers that store weights of the module in another layout. They tell it:
// "w.T" is transposed, "w[0:48]" has rows, "w[3]" is one element of the first axis, and
// "a[0:2,4:6]+b[0:4]" has rows of two weights, one below the other.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace onnx_native {

// Rows of a tensor: elements of its first axis.
struct RowRange {
  int64_t start = 0;
  std::optional<int64_t> end;  // absent: the element at `start`, without the axis

  bool operator==(const RowRange&) const = default;
};

// The part of a weight that an initializer stores.
struct WeightPart {
  std::string weight;
  std::vector<RowRange> rows;  // each range selects from the one before; empty: the whole weight

  bool operator==(const WeightPart&) const = default;
};

// An initializer stores one part, or ranges of rows that lie one below the other.
struct StoredWeight {
  std::vector<WeightPart> parts;
  bool is_transposed = false;  // the last two axes are swapped; true for one part only

  bool operator==(const StoredWeight&) const = default;
};

// These return the names of initializers. A weight without a name gives an initializer without one.
std::string transposed_name(const std::string& weight, int64_t rank);
std::string part_name(const std::string& weight, const RowRange& rows);
// Each part has one range.
std::string joined_name(std::span<const WeightPart> parts);

// Returns what an initializer with this name stores. `is_weight` knows the names of the module's
// weights, which may look like the names above. Any other name is that of a whole weight.
StoredWeight weight_layout(std::string_view name,
                           const std::function<bool(std::string_view)>& is_weight);

}  // namespace onnx_native
