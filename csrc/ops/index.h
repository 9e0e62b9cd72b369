// What reading and writing by index share.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ops/call.h"

namespace onnx_native::ops {

using OptionalValues = std::vector<std::optional<Value>>;

// Coordinates of the elements that are not zero: a row for each dimension (one for a 0-d tensor).
Value nonzero_rows(Builder& b, Value self);
// The same, a row for each element.
Value nonzero(Builder& b, Value self);
// The same, a tensor for each dimension.
Values nonzero_numpy(Builder& b, Value self);

// Where self[indices] reads and writes, by NumPy's rules: masks stand for the coordinates of what
// they select; index tensors are broadcast together; their dimensions stand where the first one
// does when they are adjacent, and in front otherwise.
class IndexPlan {
 public:
  IndexPlan(Builder& b, Value self, const OptionalValues& indices);

  Value read(Builder& b, Value self) const;
  // `values` is broadcast to the shape that `read` has. ScatterND's reductions.
  Value write(Builder& b, Value self, Value values, std::string_view reduction) const;

  const Shape& result_shape() const { return result_shape_; }
  // The one mask, when there is no other index; nullptr otherwise.
  Value only_mask() const { return only_mask_ ? mask_ : nullptr; }
  // How many dimensions of the result the index tensors make, and from which one on.
  int64_t index_rank() const { return static_cast<int64_t>(index_shape_.size()); }
  int64_t place() const { return place_; }

 private:
  Value coordinates(Builder& b) const;
  Ints result_to_front() const;

  Values tensors_;  // one for each indexed dimension
  Ints axes_;       // those dimensions
  Ints to_front_;   // the permutation that brings them to the front
  Shape index_shape_, result_shape_;
  int64_t place_ = 0;
  Value mask_ = nullptr;
  int masks_ = 0;
  bool only_mask_ = false;
};

// torch's self[indices].
Value index_tensor(Builder& b, Value self, const OptionalValues& indices);
// torch.gather and torch.masked_select.
Value gather_elements(Builder& b, Value self, int64_t dim, Value index);
Value masked_select(Builder& b, Value self, Value mask);

}  // namespace onnx_native::ops
