#include <limits>

#include "onnx/builder.h"
#include "ops/families.h"
#include "ops/formulas/distance.h"
#include "ops/formulas/numeric.h"

namespace onnx_native::ops {
namespace {

enum class BagMode { sum, mean, max };

BagMode mode_of(Builder& b, int64_t number) {
  b.check(number >= 0 && number <= 2,
          "embedding_bag has the modes 0 (sum), 1 (mean) and 2 (max), got ", number);
  return static_cast<BagMode>(number);
}

struct Bags {
  std::optional<Value> per_sample_weights;
  BagMode mode;
  bool include_last_offset;
  std::optional<int64_t> padding_idx;
};

// Returns the bag of each of `count` elements: the number of offsets at or before it, minus 1.
Value bag_of_elements(Builder& b, Value offsets, const Dim& count) {
  const Value starts =
      b.op("ScatterElements",
           {b.full(DType::i64, 0, {count + 1}), offsets, b.full(DType::i64, 1, {offsets->dim(0)})},
           {{"axis", 0}, {"reduction", "add"}});
  const Value so_far = b.op("CumSum", {b.slice(starts, 0, 0, count), b.i64(0)});
  return b.Sub(so_far, b.i64(1));
}

// Eager starts a maximum with the first element of the bag that counts, and compares the others
// with it: NaN stays if it comes first, and is ignored if not.
Value with_first_nan(Builder& b, Value maxima, Value bag, Value each, Value counted) {
  const Dim elements = each->dim(0);
  const Value none = b.dim_value(elements);
  const Value places = b.where(b.cast(counted, DType::boolean), b.range(elements), none);
  const Value first =
      b.op("ScatterND", {b.expand(none, {maxima->dim(0)}), bag, places}, {{"reduction", "min"}});
  const Value nans = b.concat({b.IsNaN(each), b.full(DType::boolean, 0, {1, each->dim(1)})}, 0);
  const Value nan = b.like(maxima, std::numeric_limits<double>::quiet_NaN());
  return b.where(b.gather(nans, first, 0), nan, maxima);
}

Value embedding_bag(Builder& b, Value weight, Value indices, Value offsets, const Bags& bags) {
  b.check(weight->rank() == 2, "embedding_bag requires a 2-D table, got ", weight->rank(), "-D");
  b.check(indices->rank() == 1 && offsets->rank() == 1,
          "embedding_bag requires 1-D indices and offsets, got ", indices->rank(), "-D and ",
          offsets->rank(), "-D");
  b.check(!bags.per_sample_weights || bags.mode == BagMode::sum,
          "embedding_bag takes per_sample_weights only for mode 0 (sum)");
  indices = b.cast(indices, DType::i64);
  offsets = b.cast(offsets, DType::i64);
  const DType dtype = weight->dtype;
  const DType sum_dtype = dtype == DType::f64 ? DType::f64 : DType::f32;
  const Dim elements = indices->dim(0), width = weight->dim(1), rows = offsets->dim(0);
  // With include_last_offset, elements after the last offset go to an extra bag that is sliced off.
  const Dim results = bags.include_last_offset ? rows - 1 : rows;

  Value taken = b.cast(b.gather(weight, indices, 0), sum_dtype);
  if (bags.per_sample_weights)
    taken = b.Mul(taken, b.unsqueeze(b.cast(*bags.per_sample_weights, sum_dtype), {1}));
  const bool maximum = bags.mode == BagMode::max;
  const double filler = maximum ? -kInfinity : 0.0;
  const Value each = taken;
  Value counted = b.full(sum_dtype, 1.0, {elements});
  if (bags.padding_idx) {
    const Value kept = b.Not(b.Equal(indices, b.i64(*bags.padding_idx)));
    counted = b.cast(kept, sum_dtype);
    taken = b.where(b.unsqueeze(kept, {1}), taken, b.like(taken, filler));
  }
  const Value bag = b.unsqueeze(bag_of_elements(b, offsets, elements), {1});
  if (maximum) taken = b.where(b.IsNaN(taken), b.like(taken, filler), taken);
  Value y = b.op("ScatterND", {b.full(sum_dtype, filler, {rows, width}), bag, taken},
                 {{"reduction", maximum ? "max" : "add"}});
  if (maximum) y = with_first_nan(b, y, bag, each, counted);
  if (bags.mode != BagMode::sum) {
    Value count =
        b.op("ScatterND", {b.full(sum_dtype, 0.0, {rows}), bag, counted}, {{"reduction", "add"}});
    count = b.unsqueeze(count, {1});
    if (bags.mode == BagMode::mean) {
      y = b.Div(y, b.Max(count, b.like(count, 1.0)));
    } else {
      y = b.where(b.cast(count, DType::boolean), y, b.like(y, 0.0));
    }
  }
  return b.cast(b.slice(y, 0, 0, results), dtype);
}

// Returns only the bags; the other results are used only by the backward pass.
Results only(Value result) { return {result, Lowered(), Lowered(), Lowered()}; }

// Scales the rows that `indices` select down to `max_norm` if their norm is larger.
Value embedding_renorm(Builder& b, Value self, Value indices, const Number& max_norm,
                       const Number& norm_type) {
  const Value norm = p_norm(b, self, norm_type, 1, true);
  const Value scale = b.Div(b.like(norm, max_norm), b.Add(norm, b.like(norm, 1e-7)));
  const Value flat = b.flatten(b.cast(indices, DType::i64), 0, -1);
  const Value named =
      b.op("ScatterElements",
           {b.full(DType::i64, 0, {self->dim(0)}), flat, b.full(DType::i64, 1, {flat->dim(0)})},
           {{"axis", 0}});
  const Value scaled = b.And(b.unsqueeze(b.cast(named, DType::boolean), {1}),
                             b.Greater(norm, b.like(norm, max_norm)));
  return b.where(scaled, b.Mul(self, scale), self);
}

}  // namespace

void register_embedding(OpTable& ops) {
  ops.def("aten::embedding", [](Builder& b, Value weight, Value indices, Ignored, Ignored,
                                Ignored) { return b.gather(weight, indices, 0); });
  ops.def("aten::embedding_bag",
          [](Builder& b, Value weight, Value indices, Value offsets, Ignored, int64_t mode, Ignored,
             std::optional<Value> per_sample_weights, bool include_last_offset) {
            return only(embedding_bag(
                b, weight, indices, offsets,
                {per_sample_weights, mode_of(b, mode), include_last_offset, std::nullopt}));
          });
  ops.def("aten::embedding_bag.padding_idx",
          [](Builder& b, Value weight, Value indices, Value offsets, Ignored, int64_t mode, Ignored,
             std::optional<Value> per_sample_weights, bool include_last_offset,
             std::optional<int64_t> padding_idx) {
            if (padding_idx && *padding_idx < 0) {
              const auto rows = weight->dim(0).constant();
              b.check(rows.has_value(),
                      "a negative padding_idx requires a table with a constant number of rows");
              padding_idx = *padding_idx + *rows;
            }
            return only(embedding_bag(
                b, weight, indices, offsets,
                {per_sample_weights, mode_of(b, mode), include_last_offset, padding_idx}));
          });
  // These overloads use a padding_idx of -1 for none.
  ops.def(
      {"aten::_embedding_bag", "aten::_embedding_bag_forward_only"},
      [](Builder& b, Value weight, Value indices, Value offsets, Ignored, int64_t mode, Ignored,
         std::optional<Value> per_sample_weights, bool include_last_offset, int64_t padding_idx) {
        return only(embedding_bag(b, weight, indices, offsets,
                                  {per_sample_weights, mode_of(b, mode), include_last_offset,
                                   padding_idx < 0 ? std::nullopt : std::optional(padding_idx)}));
      });
  ops.def("aten::embedding_renorm", embedding_renorm);
}

}  // namespace onnx_native::ops
