#include "ops/nn/packed_sequence.h"

#include "ops/families.h"

namespace onnx_native::ops {

Packing packing_of(Builder& b, Value batch_sizes, const Dim& batch) {
  const Value starts =
      b.op("CumSum", {batch_sizes, b.i64(0)}, {{"exclusive", 1}});  // first row of each time step
  const Value sequence = b.unsqueeze(b.range(batch), {0});
  const Value present = b.Less(sequence, b.unsqueeze(batch_sizes, {1}));
  const Value position = b.Add(b.unsqueeze(starts, {1}), sequence);
  return {.present = present,
          .position = b.where(present, position, b.i64(0)),
          .lengths = b.reduce("ReduceSum", b.cast(present, DType::i64), {0}, /*keepdims=*/false)};
}

Value unpacked(Builder& b, Value data, const Packing& packing) {
  return b.gather(data, packing.position, 0);
}

Value packed(Builder& b, Value elements, Value present) {
  return b.op("Compress", {b.flatten(elements, 0, 1), b.flatten(present, 0, 1)}, {{"axis", 0}});
}

namespace {

Values pack(Builder& b, Value input, Value lengths, bool batch_first) {
  const Value x = batch_first ? b.swap_axes(input, 0, 1) : input;
  const Value time = b.unsqueeze(b.range(x->dim(0)), {1});
  const Value present = b.Less(time, b.unsqueeze(b.cast(lengths, DType::i64), {0}));
  const Value counts = b.reduce("ReduceSum", b.cast(present, DType::i64), {1}, /*keepdims=*/false);
  // The lengths are in descending order, so the first sequence is the longest.
  const Dim longest = b.dim_of(b.cast(b.select(lengths, 0, 0), DType::i64), DimRange::size());
  return {packed(b, x, present), b.slice(counts, 0, 0, longest)};
}

Values pad(Builder& b, Value data, Value batch_sizes, bool batch_first, const Number& padding,
           Dim total_length) {
  const Dim missing = total_length - batch_sizes->dim(0);
  const bool as_long_as_they_are =
      total_length.constant().value_or(1) <= 0 || missing.constant() == 0;
  const Dim batch = b.dim_of(b.select(batch_sizes, 0, 0), DimRange::size());
  if (!as_long_as_they_are) batch_sizes = b.pad(batch_sizes, {0, missing});
  const Packing packing = packing_of(b, batch_sizes, batch);
  Ints feature_axes;
  for (int64_t axis = 1; axis < data->rank(); ++axis) feature_axes.push_back(axis + 1);
  const Value present = b.unsqueeze(packing.present, feature_axes);
  const Value x = b.where(present, unpacked(b, data, packing), b.like(data, padding));
  return {batch_first ? b.swap_axes(x, 0, 1) : x, packing.lengths};
}

}  // namespace

void register_packed_sequence(OpTable& ops) {
  ops.def("aten::_pack_padded_sequence", pack);
  ops.def("aten::_pad_packed_sequence", pad);
}

}  // namespace onnx_native::ops
