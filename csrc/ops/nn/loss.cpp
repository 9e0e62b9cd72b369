#include "ops/nn/loss.h"

#include <array>
#include <numbers>

#include "onnx/builder.h"
#include "ops/families.h"
#include "ops/formulas/axes.h"
#include "ops/formulas/distance.h"
#include "ops/formulas/numeric.h"

namespace onnx_native::ops {

Value reduced(Builder& b, Value loss, int64_t reduction) {
  if (reduction == kNone) return loss;
  const Ints axes = axes_of(loss, std::nullopt);
  return reduction == kMean ? mean_over(b, loss, axes, false) : sum_over(b, loss, axes, false);
}

namespace {

Value plus(Builder& b, Value x, const Number& number) { return b.Add(x, b.like(x, number)); }
Value times(Builder& b, Value x, const Number& number) { return b.Mul(x, b.like(x, number)); }
Value as_float(Builder& b, Value x) { return b.cast(x, float_dtype(x->dtype)); }
Value at_least_zero(Builder& b, Value x) {
  return is_floating(x->dtype) ? b.op("Relu", {x}) : b.Max(x, b.like(x, 0.0));
}
// Returns number - x.
Value from(Builder& b, const Number& number, Value x) { return b.Sub(b.like(x, number), x); }

// ATen writes some losses to a tensor with the dtype of one argument. PyTorch's meta kernels may
// give another dtype, which torch.export records; the recorded dtype takes precedence.
Value as_written(Builder& b, Value loss, const Call& call, size_t argument) {
  const DType recorded = call.result_type(0).dtype;
  const DType dtype = recorded == DType::undefined ? call.tensor(argument)->dtype : recorded;
  return is_floating(dtype) ? b.cast(loss, dtype) : loss;
}

// Quadratic up to `beta`, then linear with this slope.
Value huber(Builder& b, Value self, Value target, const Number& beta, const Number& slope) {
  const Value distance = b.Abs(b.Sub(self, target));
  if (is_zero(beta)) return times(b, distance, slope);
  const Value quadratic = times(b, b.Mul(distance, distance), 0.5 * slope / beta);
  const Value linear = times(b, plus(b, distance, -0.5 * beta), slope);
  return b.where(b.Less(distance, b.like(distance, beta)), quadratic, linear);
}

Value binary_cross_entropy(Builder& b, Value self, Value target, std::optional<Value> weight,
                           int64_t reduction) {
  const auto bounded_log = [&](Value x) { return b.Max(logarithm(b, x), b.like(x, -100.0)); };
  Value loss = b.Sub(b.Mul(plus(b, target, -1.0), bounded_log(from(b, 1.0, self))),
                     b.Mul(target, bounded_log(self)));
  if (weight) loss = b.Mul(loss, *weight);
  return reduced(b, loss, reduction);
}

Value binary_cross_entropy_with_logits(Builder& b, Value self, Value target,
                                       std::optional<Value> weight, std::optional<Value> pos_weight,
                                       int64_t reduction, const Call& call) {
  Value softplus = b.op("Softplus", {b.Neg(self)});
  if (pos_weight)
    softplus = b.Mul(softplus, plus(b, b.Mul(plus(b, *pos_weight, -1.0), target), 1.0));
  Value loss = b.Add(b.Mul(from(b, 1.0, target), self), softplus);
  if (weight) loss = b.Mul(loss, *weight);
  return reduced(b, as_written(b, loss, call, 1), reduction);
}

// The class axis, and the class and weight of each element in a loss over class indices.
struct Classes {
  int64_t axis;
  Value index;   // class of each element; 0 where ignored
  Value valid;   // bool; false where ignored
  Value weight;  // weight of each element; 0 where ignored
};

Classes classes_of(Builder& b, Value self, Value target, std::optional<Value> weight,
                   const Dim& ignore_index) {
  Classes c{
      .axis = self->rank() == 1 ? 0 : 1, .index = nullptr, .valid = nullptr, .weight = nullptr};
  target = b.cast(target, DType::i64);
  c.valid = b.Not(b.Equal(target, b.dim_value(ignore_index)));
  c.index = b.where(c.valid, target, b.i64(0));
  c.weight = weight ? b.where(c.valid, b.gather(*weight, c.index, 0), b.like(*weight, 0.0))
                    : b.cast(c.valid, self->dtype);
  return c;
}

// Returns the loss and the total weight, by which the mean divides.
std::array<Value, 2> nll_loss(Builder& b, Value self, Value target, std::optional<Value> weight,
                              int64_t reduction, const Dim& ignore_index) {
  const Classes c = classes_of(b, self, target, weight, ignore_index);
  const Value picked = b.squeeze(
      b.op("GatherElements", {self, b.unsqueeze(c.index, {c.axis})}, {{"axis", c.axis}}), {c.axis});
  const Value zero = b.like(self, 0.0);
  const Value weighted = b.Mul(picked, c.weight);
  if (reduction == kNone) return {b.where(c.valid, b.Neg(weighted), zero), zero};
  const Value total = b.reduce("ReduceSum", c.weight, {}, false);
  // Eager subtracts from 0: a loss of 0 is not -0.
  const Value sum = b.Sub(zero, b.reduce("ReduceSum", b.where(c.valid, weighted, zero), {}, false));
  return {reduction == kMean ? b.Div(sum, total) : sum, total};
}

Value spread_classes(Builder& b, Value weight, int64_t rank, int64_t axis) {
  Ints trailing;
  for (int64_t i = axis + 1; i < rank; ++i) trailing.push_back(i - axis);
  return b.unsqueeze(weight, trailing);
}

// The targets are class probabilities.
Value cross_entropy_of_probabilities(Builder& b, Value log_p, Value target,
                                     std::optional<Value> weight, int64_t reduction,
                                     const Number& label_smoothing, int64_t axis) {
  DType dtype = promote_types(log_p->dtype, target->dtype);
  if (weight) dtype = promote_types(dtype, (*weight)->dtype);
  const auto count = [&](const Dim& dim) { return b.cast(b.dim_value(dim), dtype); };
  log_p = b.cast(log_p, dtype);
  target = b.cast(target, dtype);
  if (weight) weight = b.cast(*weight, dtype);
  if (!is_zero(label_smoothing))
    target = b.Add(times(b, target, 1 - label_smoothing),
                   b.Div(b.like(target, label_smoothing), count(log_p->dim(axis))));
  Value loss = b.Neg(b.Mul(log_p, target));
  if (weight) loss = b.Mul(loss, spread_classes(b, *weight, log_p->rank(), axis));
  if (reduction == kNone) return b.reduce("ReduceSum", loss, {axis}, false);
  const Value sum = b.reduce("ReduceSum", loss, {}, false);
  if (reduction == kSum) return sum;
  Shape others = log_p->known_shape();
  others.erase(others.begin() + axis);
  return b.Div(sum, count(numel(others)));
}

Value cross_entropy(Builder& b, Value self, Value target, std::optional<Value> weight,
                    int64_t reduction, const Dim& ignore_index, const Number& label_smoothing) {
  const int64_t axis = self->rank() == 1 ? 0 : 1;
  const Value log_p = b.op("LogSoftmax", {self}, {{"axis", axis}});
  if (is_floating(target->dtype) && target->rank() == self->rank())
    return cross_entropy_of_probabilities(b, log_p, target, weight, reduction, label_smoothing,
                                          axis);
  const Value nll = nll_loss(b, log_p, target, weight, reduction, ignore_index)[0];
  if (is_zero(label_smoothing)) return nll;
  const Classes c = classes_of(b, self, target, weight, ignore_index);
  const Value weighted =
      weight ? b.Mul(log_p, spread_classes(b, *weight, log_p->rank(), axis)) : log_p;
  Value smooth =
      b.where(c.valid, b.Neg(b.reduce("ReduceSum", weighted, {axis}, false)), b.like(self, 0.0));
  if (reduction != kNone) smooth = b.reduce("ReduceSum", smooth, {}, false);
  if (reduction == kMean) smooth = b.Div(smooth, b.reduce("ReduceSum", c.weight, {}, false));
  const Value classes = b.cast(b.dim_value(self->dim(axis)), self->dtype);
  return b.Add(times(b, nll, 1 - label_smoothing),
               b.Mul(smooth, b.Div(b.like(self, label_smoothing), classes)));
}

// torch.nn.functional.linear_cross_entropy without chunks, which only save memory.
Value linear_cross_entropy(Builder& b, Value input, Value linear_weight, Value target,
                           std::optional<Value> linear_bias, std::optional<Value> weight,
                           int64_t reduction, const Dim& ignore_index,
                           const Number& label_smoothing, DType computed_in) {
  const auto wide = [&](Value v) { return b.cast(v, computed_in); };
  Value logits = b.matmul(wide(input), b.swap_axes(wide(linear_weight), 0, 1));
  if (linear_bias) logits = b.Add(logits, wide(*linear_bias));
  if (weight) weight = wide(*weight);
  return b.cast(cross_entropy(b, logits, target, weight, reduction, ignore_index, label_smoothing),
                input->dtype);
}

void register_linear_cross_entropy(OpTable& ops) {
  ops.def("torch_nn::_linear_cross_entropy_batch_chunked",
          [](Builder& b, Value input, Value linear_weight, Value target,
             std::optional<Value> linear_bias, std::optional<Value> weight, std::string reduction,
             const Dim& ignore_index, const Number& label_smoothing, Ignored, Ignored,
             DType acc_dtype, Ignored, Ignored, Ignored, Ignored) {
            const Value loss = linear_cross_entropy(b, input, linear_weight, target, linear_bias,
                                                    weight, reduction == "mean" ? kMean : kSum,
                                                    ignore_index, label_smoothing, acc_dtype);
            // The other results are gradients, which only autograd uses.
            return Results{loss, Lowered(), Lowered(), Lowered()};
          });
  ops.def("torch_nn::_linear_cross_entropy_batch_chunked_no_reduction",
          [](Builder& b, Value input, Value linear_weight, Value target,
             std::optional<Value> linear_bias, std::optional<Value> weight, const Dim& ignore_index,
             Ignored, Ignored, DType acc_dtype) {
            return linear_cross_entropy(b, input, linear_weight, target, linear_bias, weight, kNone,
                                        ignore_index, 0, acc_dtype);
          });
}

Value kl_div(Builder& b, Value self, Value target, int64_t reduction, bool log_target) {
  if (log_target) return reduced(b, b.Mul(b.Exp(target), b.Sub(target, self)), reduction);
  const Value zero = b.like(target, 0.0);
  const Value entropy = b.where(b.Equal(target, zero), zero, b.Mul(target, b.Log(target)));
  return reduced(b, b.Sub(entropy, b.Mul(target, self)), reduction);
}

Value poisson_nll_loss(Builder& b, Value input, Value target, bool log_input, bool full,
                       const Number& eps, int64_t reduction) {
  input = as_float(b, input);
  const DType dtype = promote_types(input->dtype, target->dtype);
  input = b.cast(input, dtype);
  target = b.cast(target, dtype);
  Value loss = log_input ? b.Sub(b.Exp(input), b.Mul(target, input))
                         : b.Sub(input, b.Mul(target, b.Log(plus(b, input, eps))));
  if (full) {
    const Value stirling = b.Add(b.Sub(b.Mul(target, b.Log(target)), target),
                                 times(b, b.Log(times(b, target, 2 * std::numbers::pi)), 0.5));
    const Value small = b.LessOrEqual(target, b.like(target, 1.0));
    loss = b.Add(loss, b.where(small, b.like(target, 0.0), stirling));
  }
  return reduced(b, loss, reduction);
}

// Returns target == number. Integers are compared in int64, because no unsigned dtype holds -1.
Value is(Builder& b, Value target, double number) {
  if (!is_floating(target->dtype)) target = b.cast(target, DType::i64);
  return b.Equal(target, b.like(target, number));
}

Value hinge_embedding_loss(Builder& b, Value self, Value target, const Number& margin,
                           int64_t reduction) {
  const Value zero = b.like(self, 0.0);
  const Value apart = b.where(is(b, target, 1), zero, at_least_zero(b, from(b, margin, self)));
  const Value together = b.where(is(b, target, -1), zero, self);
  return reduced(b, b.Add(apart, together), reduction);
}

Value cosine_embedding_loss(Builder& b, Value input1, Value input2, Value target,
                            const Number& margin, int64_t reduction) {
  // Each operation promotes its own operands.
  const auto promoted = [&](Value u, Value v) {
    const DType common = promote_types(u->dtype, v->dtype);
    return std::array{b.cast(u, common), b.cast(v, common)};
  };
  // Integers are multiplied in their own dtype and summed in int64.
  const auto product = [&](Value u, Value v) {
    if (u->dtype == DType::boolean && v->dtype == DType::boolean) u = b.cast(u, DType::i64);
    const auto [x, y] = promoted(u, v);
    Value products = b.Mul(x, y);
    if (is_integral(products->dtype)) products = b.cast(products, DType::i64);
    return b.reduce("ReduceSum", products, {-1}, false);
  };
  const auto magnitude = [&](Value v) { return plus(b, as_float(b, product(v, v)), 1e-12); };
  const auto [x, y] = promoted(magnitude(input1), magnitude(input2));
  const auto [dividend, divisor] = promoted(product(input1, input2), b.Sqrt(b.Mul(x, y)));
  const Value cosine = b.Div(dividend, divisor);
  const Value zero = b.like(cosine, 0.0);
  const Value together = b.where(is(b, target, 1), from(b, 1.0, cosine), zero);
  const Value apart = b.where(is(b, target, -1), at_least_zero(b, plus(b, cosine, -margin)), zero);
  return reduced(b, b.Add(together, apart), reduction);
}

Value triplet_margin_loss(Builder& b, Value anchor, Value positive, Value negative,
                          const Number& margin, const Number& p, const Number& eps, bool swap,
                          int64_t reduction) {
  const auto distance = [&](Value u, Value v) { return pairwise_distance(b, u, v, p, eps, false); };
  const Value near = distance(anchor, positive);
  Value far = distance(anchor, negative);
  if (swap) far = b.Min(far, distance(positive, negative));
  return reduced(b, at_least_zero(b, plus(b, b.Sub(near, far), margin)), reduction);
}

// The input of a loss over rows. A 1-d input is a single row, whose loss is 0-d.
struct Rows {
  Value x, target;
  bool single;
};

Rows rows_of(Builder& b, Value self, Value target, bool target_is_row) {
  if (self->rank() == 2) return {self, b.cast(target, DType::i64), false};
  target = b.cast(target, DType::i64);
  if (target_is_row) {
    target = target->rank() == 0 ? b.reshape(target, {1, 1}) : b.unsqueeze(target, {0});
  } else {
    target = b.reshape(target, {1});
  }
  const Value x = self->rank() == 0 ? b.reshape(self, {1, 1}) : b.unsqueeze(self, {0});
  return {x, target, true};
}

Value reduced_rows(Builder& b, Value losses, const Rows& rows, int64_t reduction) {
  if (rows.single && reduction == kNone) return b.squeeze(losses, {0});
  return reduced(b, losses, reduction);
}

Value multi_margin_loss(Builder& b, Value self, Value target, Number p, Number margin,
                        std::optional<Value> weight, int64_t reduction) {
  const Rows rows = rows_of(b, self, target, false);
  const Value index = b.unsqueeze(rows.target, {1});
  const Value own = b.op("GatherElements", {rows.x, index}, {{"axis", 1}});
  const Value excess = plus(b, b.Sub(rows.x, own), margin);
  Value loss = is_one(p) ? excess : b.Pow(excess, b.like(excess, p));
  if (weight) loss = b.Mul(loss, b.gather(*weight, index, 0));
  const Value others = b.Not(b.Equal(b.unsqueeze(b.range(rows.x->dim(1)), {0}), index));
  const Value counted = b.And(others, b.Greater(excess, b.like(excess, 0.0)));  // NaN is not
  loss = b.where(counted, loss, b.like(loss, 0.0));
  return reduced_rows(b, b.reduce("ReduceMean", loss, {1}, false), rows, reduction);
}

// Each target row lists classes up to the first -1. Returns the loss and a mask of the targets.
std::array<Value, 2> multilabel_margin_loss(Builder& b, Value self, Value target,
                                            int64_t reduction) {
  const Rows rows = rows_of(b, self, target, true);
  const Value zero = b.i64(0);
  const Value ends = b.cast(b.Less(rows.target, zero), DType::i64);
  const Value listed = b.Equal(b.op("CumSum", {ends, b.i64(1)}), zero);
  const Value index = b.where(listed, rows.target, zero);
  const Value classes = b.reshape(b.range(rows.x->dim(1)), {1, 1, rows.x->dim(1)});
  const Value named = b.And(b.Equal(b.unsqueeze(index, {2}), classes), b.unsqueeze(listed, {2}));
  const Value is_target = b.reduce("ReduceMax", b.cast(named, DType::i32), {1}, false);
  const Value own = b.op("GatherElements", {rows.x, index}, {{"axis", 1}});
  const Value gap = b.Sub(b.unsqueeze(own, {2}), b.unsqueeze(rows.x, {1}));
  const Value other =
      b.And(b.unsqueeze(listed, {2}), b.unsqueeze(b.Not(b.cast(is_target, DType::boolean)), {1}));
  const Value excess = from(b, 1.0, gap);
  const Value counted = b.And(other, b.Greater(excess, b.like(excess, 0.0)));  // NaN is not
  const Value loss = b.where(counted, excess, b.like(excess, 0.0));
  const Value sums = b.Div(b.reduce("ReduceSum", loss, {1, 2}, false),
                           b.cast(b.dim_value(rows.x->dim(1)), rows.x->dtype));
  const Value flags = b.cast(is_target, self->dtype);
  return {reduced_rows(b, sums, rows, reduction), b.reshape(flags, target->known_shape())};
}

}  // namespace

void register_loss(OpTable& ops) {
  ops.def("aten::mse_loss", Promote::standard,
          [](Builder& b, Value self, Value target, int64_t reduction) {
            const Value difference = b.Sub(self, target);
            return reduced(b, b.Mul(difference, difference), reduction);
          });
  ops.def("aten::l1_loss", Promote::standard,
          [](Builder& b, Value self, Value target, int64_t reduction) {
            return reduced(b, b.Abs(b.Sub(self, target)), reduction);
          });
  ops.def("aten::smooth_l1_loss", Promote::standard,
          [](Builder& b, Value self, Value target, int64_t reduction, const Number& beta) {
            return reduced(b, huber(b, self, target, beta, 1), reduction);
          });
  ops.def("aten::huber_loss", Promote::standard,
          [](Builder& b, Value self, Value target, int64_t reduction, const Number& delta,
             const Call& call) {
            const Value loss = huber(b, self, target, delta, delta);
            return reduced(b, as_written(b, loss, call, 0), reduction);
          });
  ops.def("aten::binary_cross_entropy", Promote::standard, binary_cross_entropy);
  ops.def("aten::binary_cross_entropy_with_logits", Promote::standard,
          binary_cross_entropy_with_logits);
  ops.def({"aten::nll_loss", "aten::nll_loss2d", "aten::nll_loss_nd"},
          [](Builder& b, Value self, Value target, std::optional<Value> weight, int64_t reduction,
             const Dim& ignore_index) {
            return nll_loss(b, self, target, weight, reduction, ignore_index)[0];
          });
  ops.def({"aten::nll_loss_forward", "aten::nll_loss2d_forward"}, nll_loss);
  ops.def("aten::cross_entropy_loss", cross_entropy);
  register_linear_cross_entropy(ops);
  ops.def("aten::kl_div", Promote::standard, kl_div);
  ops.def("aten::poisson_nll_loss", poisson_nll_loss);
  ops.def("aten::soft_margin_loss", Promote::standard,
          [](Builder& b, Value self, Value target, int64_t reduction, const Call& call) {
            const Value loss = b.op("Softplus", {b.Neg(b.Mul(target, self))});
            return reduced(b, as_written(b, loss, call, 0), reduction);
          });
  ops.def("aten::margin_ranking_loss", Promote::standard,
          [](Builder& b, Value input1, Value input2, Value target, const Number& margin,
             int64_t reduction) {
            const Value gap = as_float(b, b.Mul(target, b.Sub(input2, input1)));
            return reduced(b, at_least_zero(b, plus(b, gap, margin)), reduction);
          });
  ops.def("aten::hinge_embedding_loss", hinge_embedding_loss);
  ops.def("aten::cosine_embedding_loss", cosine_embedding_loss);
  ops.def("aten::triplet_margin_loss", Promote::standard, triplet_margin_loss);
  ops.def("aten::multi_margin_loss", multi_margin_loss);
  ops.def("aten::multilabel_margin_loss",
          [](Builder& b, Value self, Value target, int64_t reduction) {
            return multilabel_margin_loss(b, self, target, reduction)[0];
          });
  ops.def("aten::multilabel_margin_loss_forward", multilabel_margin_loss);
}

}  // namespace onnx_native::ops
