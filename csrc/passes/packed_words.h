// Integers of a few bits that share the words of a constant, as modules of GPTQ and AWQ hold their
// weights. Instead of the elements, it computes where in the words they are.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "onnx/graph.h"

namespace onnx_native::passes {

struct Place {
  int64_t element = 0;  // in row-major order
  int64_t bit = 0;
  bool operator==(const Place&) const = default;
};

// A value whose element [i, j, ...] is in the word of a constant at axes[0][i] + axes[1][j] + ...
struct Words {
  onnx::Value* source = nullptr;
  std::vector<std::vector<Place>> axes;
  int64_t valid = 0;    // the number of low bits that are those at the element's place
  int64_t mask = 0;     // the other bits are 0; 0: they are anything
  bool is_cut = false;  // bits of the word are missing, or there are others
  int64_t plus = 0;     // added to each element
  // Each element is flipped where this value is true, so that shifts bring in its sign.
  const onnx::Value* flip = nullptr;

  bool is_exact() const { return mask != 0 || (!is_cut && !flip); }
  Place place(int64_t row, int64_t column) const;
  bool operator==(const Words&) const = default;
};

// (codes - zeros) * scales, which all have the shape of the value. Values without arithmetic have
// codes only.
struct Dequantization {
  Words codes;
  std::optional<Words> zeros;
  std::optional<Words> scales;
};

// Finds such values. Remembers what it found, so the producers of values must not change.
class PackedWords {
 public:
  // Returns nullopt if the value is not computed in this manner.
  std::optional<Dequantization> of(onnx::Value* value);

 private:
  std::optional<Dequantization> find(onnx::Value* value);

  std::unordered_map<const onnx::Value*, std::optional<Dequantization>> known_;
};

// Returns the elements of a matrix at these rows, as integers of this dtype (without their high
// bits), or as floats that are those of the constant. Only current() constants have elements.
TensorData picked(const Words& words, const TensorData& source, const std::vector<int64_t>& rows,
                  DType dtype);

}  // namespace onnx_native::passes
