// Operators that reduce axes, and normalizations.
#include "onnx/infer_rules.h"

namespace onnx_native::onnx {
namespace {

// Returns the shape after reducing axes; nullopt if the rank is unknown.
std::optional<Shape> reduced_shape(const Inference& i) {
  const Shape* input = i.shape(0);
  if (!input) return std::nullopt;
  const bool keep = i.attribute("keepdims", 1) != 0;
  const auto rank = static_cast<int64_t>(input->size());
  std::optional<std::vector<int64_t>> axes = i.attribute_ints("axes");
  if (i.optional(1)) {
    axes = i.numbers(1);
    if (!axes) {
      const Shape* length = i.shape(1);
      if (keep) return i.unknown_shape(0, rank);
      const auto count = length && length->size() == 1 ? (*length)[0].constant() : std::nullopt;
      return count ? std::optional(i.unknown_shape(0, rank - *count)) : std::nullopt;
    }
  }
  if (!axes || axes->empty()) {
    if (i.attribute("noop_with_empty_axes", 0) != 0) return *input;
    return keep ? Shape(input->size(), Dim(1)) : Shape{};
  }
  std::vector<bool> gone(input->size(), false);
  for (const int64_t axis : *axes) gone[static_cast<size_t>(i.axis(axis, rank))] = true;
  Shape result;
  for (size_t axis = 0; axis < input->size(); ++axis) {
    if (!gone[axis]) {
      result.push_back((*input)[axis]);
    } else if (keep) {
      result.emplace_back(1);
    }
  }
  return result;
}

void reduce(Inference& i) { i.set(0, i.dtype(0), reduced_shape(i)); }

using Accumulate = Dim (*)(const Dim&, const Dim&);

template <Accumulate combine>
void reduce_contents(Inference& i) {
  reduce(i);
  const auto* known = i.contents(0);
  const auto count = i.small_integers(0);
  if (!known || !count || known->empty()) return;
  if (i.in(0).rank() == 0 || *count != 1) {
    if (*count == static_cast<int64_t>(known->size())) i.set_contents(0, *known);
    return;
  }
  Dim total = known->front();
  for (size_t k = 1; k < known->size(); ++k) total = combine(total, (*known)[k]);
  i.set_contents(0, {total});
}

Dim sum(const Dim& a, const Dim& b) { return a + b; }
Dim product(const Dim& a, const Dim& b) { return a * b; }

void arg_extremum(Inference& i) {
  std::optional<Shape> result = i.in(0).shape;
  if (result) {
    const auto axis = i.axis_attribute("axis", 0, i.in(0).rank());
    if (i.attribute("keepdims", 1) != 0) {
      (*result)[static_cast<size_t>(axis)] = 1;
    } else {
      result->erase(result->begin() + axis);
    }
  }
  i.set(0, DType::i64, std::move(result));
}

void batch_normalization(Inference& i) {
  same_as_first(i);
  for (size_t output = 1; output < i.num_outputs() && output < 3; ++output) {
    i.set(output, i.dtype(2 + output), i.in(2 + output).shape);
  }
}

void layer_normalization(Inference& i) {
  same_as_first(i);
  if (i.num_outputs() == 1) return;
  std::optional<Shape> statistics = i.in(0).shape;
  if (statistics) {
    const int64_t axis = i.axis_attribute("axis", -1, i.in(0).rank());
    for (auto d = static_cast<size_t>(axis); d < statistics->size(); ++d) (*statistics)[d] = 1;
  }
  const DType dtype = i.attribute_dtype("stash_type", DType::f32);
  i.set(1, dtype, statistics);
  i.set(2, dtype, std::move(statistics));
}

void rms_normalization(Inference& i) { i.set(0, i.dtype(1), i.in(0).shape); }

void negative_log_likelihood(Inference& i) {
  const bool reduced = i.node().attribute_string("reduction", "mean") != "none";
  i.set(0, i.dtype(0), reduced ? std::optional(Shape{}) : i.in(1).shape);
  i.set(1, i.dtype(0), i.in(0).shape);  // log_prob of SoftmaxCrossEntropyLoss
}

}  // namespace

void add_reduction_rules(Rules& rules) {
  for (const std::string_view op : {"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp",
                                    "ReduceMean", "ReduceSumSquare"}) {
    rules[op] = reduce;
  }
  rules["ReduceMax"] = reduce_contents<Dim::max>;
  rules["ReduceMin"] = reduce_contents<Dim::min>;
  rules["ReduceProd"] = reduce_contents<product>;
  rules["ReduceSum"] = reduce_contents<sum>;
  rules["ArgMax"] = arg_extremum;
  rules["ArgMin"] = arg_extremum;
  rules["BatchNormalization"] = batch_normalization;
  rules["GroupNormalization"] = same_as_first;
  rules["InstanceNormalization"] = same_as_first;
  rules["LayerNormalization"] = layer_normalization;
  rules["NegativeLogLikelihoodLoss"] = negative_log_likelihood;
  rules["RMSNormalization"] = rms_normalization;
  rules["SimplifiedLayerNormalization"] = rms_normalization;  // ONNX Runtime's
  rules["SoftmaxCrossEntropyLoss"] = negative_log_likelihood;
}

}  // namespace onnx_native::onnx
