// Packed sequences (torch.nn.utils.rnn): sequences of different lengths, stored time step by time
// step without padding. `batch_sizes` counts the sequences that have an element at each time step.
#pragma once

#include "onnx/builder.h"

namespace onnx_native::ops {

// The position of each element by time step and sequence.
struct Packing {
  Value present;   // (time, batch), bool
  Value position;  // (time, batch), the row of `data`; 0 where not present
  Value lengths;   // (batch), int64
};

// Returns the packing of `batch` sequences; `batch_sizes` is 1-d, one count per time step.
Packing packing_of(Builder& b, Value batch_sizes, const Dim& batch);
// Returns (time, batch, ...); positions that are not present hold unspecified values.
Value unpacked(Builder& b, Value data, const Packing& packing);
// Returns the present elements of (time, batch, ...), one row per element.
Value packed(Builder& b, Value elements, Value present);

}  // namespace onnx_native::ops
