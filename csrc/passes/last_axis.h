// Patterns of operators that split, join or reduce the last axis.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "onnx/graph.h"
#include "passes/match.h"

namespace onnx_native::passes::match {

// The elements `start`, `start + step` ... of the last axis of `source`, which has `size` elements.
struct Part {
  Value* source;
  int64_t size;
  int64_t start;
  int64_t end;  // at most `size`
  int64_t step;
};

// Returns the part that a Slice or Split takes; nullopt if it is not known.
std::optional<Part> part_of(const Value& value);
// Returns true if the axes that the producer takes as its second input are the last axis of
// `value`.
bool has_last_axis(const Value& value);
// Returns true for a Gather of the last axis.
bool gathers_last_axis(const Value& value);
// Returns true for a Concat along the last axis.
bool joins_last_axis(const Node& node);

// Matches a part of the last axis of what `inner` matches.
template <class P, class Fits>
struct PartOf {
  P inner;
  Fits fits;
  bool match(Value* value, Next next) const {
    const auto part = part_of(*value);
    return part && fits(*part) && inner.match(part->source, next);
  }
};
template <class P, class Fits>
auto part(P&& inner, Fits fits) {
  return PartOf<PatternOf<P>, Fits>{pattern(std::forward<P>(inner)), std::move(fits)};
}
// The first (0) or second (1) half.
template <class P>
auto half(P&& inner, int64_t which) {
  return part(std::forward<P>(inner), [which](const Part& p) {
    return p.step == 1 && p.size % 2 == 0 && p.start == which * (p.size / 2) &&
           p.end == p.start + p.size / 2;
  });
}
// The even (0) or odd (1) elements.
template <class P>
auto every_second(P&& inner, int64_t which) {
  return part(std::forward<P>(inner), [which](const Part& p) {
    return p.step == 2 && p.size % 2 == 0 && p.start == which && p.end >= p.size - 1 + which;
  });
}

// One element of the last axis, which is taken away.
template <class P>
auto element(P&& inner, int64_t index) {
  return where(op("Gather", std::forward<P>(inner), number(index)), gathers_last_axis);
}

// Matches a Concat of two tensors along the last axis.
template <class P, class Q>
auto join(P&& a, Q&& b) {
  return where(op("Concat", std::forward<P>(a), std::forward<Q>(b)), [](const Value& value) {
    return value.producer && joins_last_axis(*value.producer);
  });
}

// Matches the mean over the last axis, which stays with size 1.
template <class P>
auto mean_of_last_axis(P&& inner) {
  return where(op("ReduceMean", std::forward<P>(inner), any).with("keepdims", 1, 1), has_last_axis);
}
// Matches a tensor with a new last axis of size 1.
template <class P>
auto new_last_axis(P&& inner) {
  return where(op("Unsqueeze", std::forward<P>(inner), any), has_last_axis);
}

// Returns true if the tensor has one element for each index of the last axis of `x`.
inline bool is_vector_of_last_axis(const Value& tensor, const Value& x) {
  return tensor.rank_or(-1) == 1 && x.rank_or(0) > 0 && tensor.dim(0) == x.dim(-1);
}

}  // namespace onnx_native::passes::match
