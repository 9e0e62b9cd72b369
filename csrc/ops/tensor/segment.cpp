// Reductions over the segments of an axis.
#include <limits>

#include "ops/families.h"
#include "ops/formulas/numeric.h"
#include "ops/formulas/scatter.h"

namespace onnx_native::ops {
namespace {

double identity_of(Builder& b, const std::string& reduce) {
  if (reduce == "sum" || reduce == "mean") return 0;
  if (reduce == "prod") return 1;
  const double infinity = std::numeric_limits<double>::infinity();
  if (reduce == "max") return -infinity;
  b.check(reduce == "min", "segment_reduce with reduce=", reduce, " is not supported");
  return infinity;
}

// Returns the name that scatter_reduce uses; a mean starts as a sum.
std::string scatter_name(const std::string& reduce) {
  if (reduce == "mean") return "sum";
  return reduce == "max" || reduce == "min" ? "a" + reduce : reduce;
}

// Each element falls into the bucket numbered by the segments that end before it. Offsets include
// the start of the first segment, so bucket 0 then holds the elements before it.
Value segment_reduce(Builder& b, Value data, const std::string& reduce,
                     std::optional<Value> lengths, std::optional<Value> indices,
                     std::optional<Value> offsets, int64_t axis, bool unsafe,
                     std::optional<Number> initial) {
  b.check(!indices, "segment_reduce with indices is not supported; pass lengths or offsets");
  b.check(lengths || offsets, "segment_reduce requires lengths or offsets");
  b.check(unsafe || !lengths || !is_empty((*lengths)->known_shape()),
          "segment_reduce requires at least one length, unless `unsafe` is true");
  axis = normalize_axis(axis, data->rank());
  const Value given = lengths ? *lengths : *offsets;
  b.check(given->rank() == axis + 1, "axis must be the last dimension of the ",
          lengths ? "lengths" : "offsets", ", got axis ", axis, " of ", given->rank(),
          " dimensions");
  for (int64_t i = 0; i < axis; ++i) {
    const Dim &segments = given->dim(i), &elements = data->dim(i);
    b.check(segments == elements || !segments.constant() || !elements.constant(),
            "segment_reduce requires equal sizes of the data and the segments, also where one is "
            "empty: got ",
            segments.str(), " rows of segments and ", elements.str(), " of data");
  }
  Value ends = b.cast(given, DType::i64);
  if (lengths) ends = b.op("CumSum", {ends, b.i64(axis)});

  const Dim count = ends->dim(axis);
  const Dim size = data->dim(axis);
  Shape places = ends->known_shape();
  places[axis] = size + 1;
  const Value marks = scatter_reduce(b, b.full(DType::i64, 0, places), axis, ends,
                                     b.full(DType::i64, 1, ends->known_shape()), "sum", true);
  Value buckets = b.slice(b.op("CumSum", {marks, b.i64(axis)}), axis, 0, size);
  Ints trailing;
  for (int64_t i = axis + 1; i < data->rank(); ++i) trailing.push_back(i);
  buckets = b.expand(b.unsqueeze(buckets, trailing), data->known_shape());

  Shape shape = data->known_shape();
  shape[axis] = count + 1;
  const Number start = initial.value_or(identity_of(b, reduce));
  const Value all = scatter_reduce(b, b.full(data->dtype, start, shape), axis, buckets, data,
                                   scatter_name(reduce), true);
  const Value result = b.slice(all, axis, lengths ? 0 : 1, count);
  if (reduce != "mean") return result;

  Value elements =
      lengths ? *lengths
              : b.Sub(b.slice(*offsets, axis, 1, count), b.slice(*offsets, axis, 0, count - 1));
  elements = b.cast(b.unsqueeze(elements, trailing), data->dtype);
  // The mean of an empty segment is NaN, unless there is an initial value.
  if (initial) elements = b.Max(elements, b.like(elements, 1));
  return b.Div(result, elements);
}

}  // namespace

void register_segment(OpTable& ops) { ops.def("aten::segment_reduce", segment_reduce); }

}  // namespace onnx_native::ops
