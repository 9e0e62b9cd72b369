// Reads and writes by index.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/engine/call.h"

namespace onnx_native::ops {

using OptionalValues = std::vector<std::optional<Value>>;

// Returns the coordinates of the nonzero elements: a row per dimension (one for a 0-d tensor).
Value nonzero_rows(Builder& b, Value self);
// Returns the same coordinates, a row per element.
Value nonzero(Builder& b, Value self);
// Returns the same coordinates, a tensor per dimension.
Values nonzero_numpy(Builder& b, Value self);

// Returns true for an index that stands for the coordinates of its true elements.
bool is_mask(Value index);

// The elements that self[indices] reads and writes, by NumPy's rules. A mask stands for the
// coordinates of its true elements; it has a dimension. Index tensors broadcast together. If the
// indexed dimensions are adjacent, the broadcast dimensions replace them; otherwise they come
// first.
class IndexPlan {
 public:
  IndexPlan(Builder& b, Value self, const OptionalValues& indices);

  Value read(Builder& b, Value self) const;
  // Broadcasts `values` to the result shape of `read` and writes them. `reduction` is one of
  // ScatterND's.
  Value write(Builder& b, Value self, Value values, std::string_view reduction) const;

  const Shape& result_shape() const { return result_shape_; }
  // The broadcast index dimensions are result dimensions [place, place + index_rank).
  int64_t index_rank() const { return static_cast<int64_t>(index_shape_.size()); }
  int64_t place() const { return place_; }

 private:
  // The index of one dimension: a tensor, or a row of a mask's coordinates.
  struct Source {
    Value tensor;
    int64_t row = -1;
  };
  Value coordinate(Builder& b, size_t i) const;
  Value coordinates(Builder& b) const;
  Ints result_to_front() const;
  std::optional<Ints> mesh() const;
  Value read_mesh(Builder& b, Value self, const Ints& mesh) const;

  std::vector<Source> sources_;
  Ints axes_;      // the indexed dimensions
  Ints to_front_;  // the permutation that moves them to the front
  Shape index_shape_, result_shape_;
  int64_t place_ = 0;
};

// Gives masks without dimensions, which PyTorch takes for an index of a new dimension of size 1,
// that dimension, and the tensor as well. Returns the new dimensions of the tensor, which a write
// must squeeze.
Ints spread_scalar_masks(Builder& b, Value& self, OptionalValues& indices);
// torch's self[indices].
Value index_tensor(Builder& b, Value self, OptionalValues indices);
// torch.gather and torch.masked_select.
Value gather_elements(Builder& b, Value self, int64_t dim, Value index);
Value masked_select(Builder& b, Value self, Value mask);

}  // namespace onnx_native::ops
