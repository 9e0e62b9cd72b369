// Packed sequences (torch.nn.utils.rnn): the elements of sequences of different lengths, first all
// first ones, then all second ones ..., and how many sequences have an element at each time.
#pragma once

#include "onnx/builder.h"

namespace onnx_native::ops {

// Where the elements are, by time and sequence.
struct Packing {
  Value present;   // (time, batch), bool
  Value position;  // (time, batch), the row of `data`; 0 where nothing is present
  Value lengths;   // (batch), int64
};

Packing packing_of(Builder& b, Value batch_sizes, const Dim& batch);
// (time, batch, ...); arbitrary where nothing is present.
Value unpacked(Builder& b, Value data, const Packing& packing);
// The present elements of (time, batch, ...), one row for each.
Value packed(Builder& b, Value elements, Value present);

}  // namespace onnx_native::ops
