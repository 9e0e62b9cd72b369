// Connectionist temporal classification: the forward algorithm in log space, a Scan over time.
// (Graves et al., Connectionist Temporal Classification, ICML 2006, section 4.1.)
#include <algorithm>
#include <array>

#include "ops/families.h"
#include "ops/formulas/loop.h"
#include "ops/formulas/numeric.h"
#include "ops/nn/loss.h"

namespace onnx_native::ops {
namespace {

// Returns x moved right by `count` along its last axis; `fill` comes in.
Value shifted(Builder& b, Value x, int64_t count, Value fill) {
  return b.slice(b.pad(x, {0, count, 0, 0}, fill), 1, 0, x->dim(1));
}

struct Lengths {
  Value values;  // int64, [batch]
  Dim most;      // at least the longest
};

// The targets as rows, [batch, most]; they may come one after the other, without padding.
Value target_rows(Builder& b, Value targets, const Lengths& lengths) {
  if (targets->rank() == 2) return targets;
  const Value first = b.op("CumSum", {lengths.values, b.i64(0)}, {{"exclusive", int64_t{1}}});
  const Value places = b.Add(b.unsqueeze(first, {1}), b.range(lengths.most));
  return b.gather(targets, b.Min(places, b.dim_value(targets->dim(0) - 1)), 0);
}

// Returns a blank before, between and after the labels: [batch, 2 * most + 1].
Value with_blanks(Builder& b, Value rows, int64_t blank) {
  const Dim &batch = rows->dim(0), &most = rows->dim(1);
  const Value blanks = b.full(DType::i64, blank, {batch, most + 1, 1});
  const Value pairs = b.concat({b.slice(blanks, 1, 0, most), b.unsqueeze(rows, {2})}, 2);
  const Value last = b.reshape(b.slice(blanks, 1, most, most + 1), {batch, Dim(1)});
  return b.concat({b.reshape(pairs, {batch, most * 2}), last}, 1);
}

struct Losses {
  Value losses;     // negative log likelihoods, [batch]
  Value log_alpha;  // of the prefixes, [batch, time, 2 * most + 1]
};

Losses losses(Builder& b, Value log_probs, Value labels, const Lengths& inputs,
              const Lengths& targets) {
  const Dim &steps = log_probs->dim(0), &batch = log_probs->dim(1), &states = labels->dim(1);
  const Value last_class = b.dim_value(log_probs->dim(2) - 1);
  const Value valid =
      b.Min(b.Max(labels, b.i64(0)), last_class);  // past the ends it may be anything
  const Value indices = b.expand(b.unsqueeze(valid, {0}), {steps, batch, states});
  const Value emitted = b.op("GatherElements", {log_probs, indices}, {{"axis", int64_t{2}}});
  const Value minus_infinity = b.like(log_probs, -kInfinity);
  // A blank between two different labels may be left out.
  const Value may_skip = b.Not(b.Equal(labels, shifted(b, labels, 2, b.i64(-1))));

  const Value first = b.Equal(b.range(states), b.i64(0));
  const Value start =
      b.expand(b.where(first, b.like(log_probs, 0), minus_infinity), {batch, states});
  const auto step = [&](const Values& carried, const Values& slices) -> Values {
    const Value before = carried[0];
    const Value skipped = b.where(may_skip, shifted(b, before, 2, minus_infinity), minus_infinity);
    const Value sum =
        log_add_exp(b, log_add_exp(b, before, shifted(b, before, 1, minus_infinity)), skipped);
    const Value goes_on = b.Less(slices[1], b.unsqueeze(inputs.values, {1}));
    const Value next = b.where(goes_on, b.Add(sum, slices[0]), before);
    return {next, next};
  };
  const Scanned scanned = scan(b, {start}, {emitted, b.range(steps)}, step, {.output_axis = 1});
  const Value alpha = scanned.states[0];

  const Value end = b.unsqueeze(b.Mul(targets.values, b.i64(2)), {1});
  const auto at = [&](Value place) {
    return b.squeeze(b.op("GatherElements", {alpha, place}, {{"axis", int64_t{1}}}), {1});
  };
  const Value on_label = b.where(b.Equal(targets.values, b.i64(0)), minus_infinity,
                                 at(b.Max(b.Sub(end, b.i64(1)), b.i64(0))));
  return {b.Neg(log_add_exp(b, at(end), on_label)), scanned.outputs[0]};
}

// Returns the losses of a batch, of one sequence if there is no axis for it.
Losses ctc_losses(Builder& b, Value log_probs, Value targets, const Lengths& inputs,
                  const Lengths& lengths, int64_t blank, bool zero_infinity) {
  const Value x = log_probs->rank() == 2 ? b.unsqueeze(log_probs, {1}) : log_probs;
  const Value rows = target_rows(b, b.cast(targets, DType::i64), lengths);
  Losses result = losses(b, x, with_blanks(b, rows, blank), inputs, lengths);
  if (zero_infinity) {
    const Value infinite = b.Equal(result.losses, b.like(result.losses, kInfinity));
    result.losses = b.where(infinite, b.like(result.losses, 0), result.losses);
  }
  return result;
}

Value reduced_losses(Builder& b, Value loss, Value target_lengths, int64_t reduction,
                     bool batched) {
  if (reduction == kMean) {
    const Value lengths = b.Max(target_lengths, b.i64(1));
    loss = b.Div(loss, b.cast(lengths, loss->dtype));
  }
  if (reduction == kNone && !batched) return b.squeeze(loss, {0});
  return reduced(b, loss, reduction);
}

Lengths lengths_of(Builder& b, const Ints& lengths) {
  const int64_t most = lengths.empty() ? 0 : std::ranges::max(lengths);
  return {b.i64s(lengths), Dim(most)};
}

Lengths lengths_of(Builder& b, Value lengths, Value targets) {
  const Value list = b.reshape(b.cast(lengths, DType::i64), {numel(lengths->known_shape())});
  return {list, targets->dim(-1)};
}

}  // namespace

void register_ctc_loss(OpTable& ops) {
  ops.def("aten::ctc_loss.IntList", [](Builder& b, Value log_probs, Value targets,
                                       Ints input_lengths, Ints target_lengths, int64_t blank,
                                       int64_t reduction, bool zero_infinity) {
    const Lengths lengths = lengths_of(b, target_lengths);
    const Losses found = ctc_losses(b, log_probs, targets, lengths_of(b, input_lengths), lengths,
                                    blank, zero_infinity);
    return reduced_losses(b, found.losses, lengths.values, reduction, log_probs->rank() == 3);
  });
  ops.def("aten::ctc_loss.Tensor", [](Builder& b, Value log_probs, Value targets,
                                      Value input_lengths, Value target_lengths, int64_t blank,
                                      int64_t reduction, bool zero_infinity) {
    const Lengths lengths = lengths_of(b, target_lengths, targets);
    const Losses found = ctc_losses(b, log_probs, targets, lengths_of(b, input_lengths, targets),
                                    lengths, blank, zero_infinity);
    return reduced_losses(b, found.losses, lengths.values, reduction, log_probs->rank() == 3);
  });
  ops.def("aten::_ctc_loss", [](Builder& b, Value log_probs, Value targets, Ints input_lengths,
                                Ints target_lengths, int64_t blank, bool zero_infinity) {
    const Losses found = ctc_losses(b, log_probs, targets, lengths_of(b, input_lengths),
                                    lengths_of(b, target_lengths), blank, zero_infinity);
    return std::array{found.losses, found.log_alpha};
  });
}

}  // namespace onnx_native::ops
