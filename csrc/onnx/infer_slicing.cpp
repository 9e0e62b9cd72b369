// Operators that split, slice or pad tensors.
#include <algorithm>
#include <limits>

#include "base/dim_order.h"
#include "onnx/infer_rules.h"

namespace onnx_native::onnx {
namespace {

// Returns true if a >= b is proved, given that sizes are at least 1.
bool at_least(const Dim& a, const Dim& b) { return known_at_least(a, b, true); }

Dim smaller(const Dim& a, const Dim& b) {
  if (at_least(a, b)) return b;
  if (at_least(b, a)) return a;
  return Dim::min(a, b);
}

Dim larger(const Dim& a, const Dim& b) { return -smaller(-a, -b); }

// Larger than any size; means "to the end".
constexpr int64_t kBeyond = std::numeric_limits<int32_t>::max();

// Returns a slice bound as an index clamped to [first, last]; nullopt if its sign is unknown.
std::optional<Dim> clamp_bound(const Dim& bound, const Dim& size, const Dim& first,
                               const Dim& last) {
  if (const auto value = bound.constant()) {
    if (*value >= kBeyond) return last;
    if (*value <= -kBeyond) return first;
    if (*value < 0) return larger(size + bound, first);
    return smaller(bound, last);
  }
  if (at_least(bound, 0)) return smaller(bound, last);
  if (at_least(-1, bound)) return larger(size + bound, first);
  return std::nullopt;
}

std::optional<Dim> slice_length(const Dim& size, const Dim& start, const Dim& end, int64_t step) {
  if (size.equals(0)) return 0;
  const bool forward = step > 0;
  const Dim last = forward ? size : size - 1;
  // Unlike in Python, a start before the first element means the first element in either direction.
  auto from = clamp_bound(start, size, 0, last);
  if (from && !forward) from = smaller(*from, last);  // `last` is -1 if there are no elements
  const auto to = clamp_bound(end, size, forward ? 0 : -1, last);
  if (!from || !to) return std::nullopt;
  const Dim distance = forward ? *to - *from : *from - *to;
  return Dim::ceil_div(larger(distance, 0), forward ? step : -step);
}

void slice_contents(Inference& i) {
  const auto* known = i.contents(0);
  const auto starts = i.numbers(1);
  const auto ends = i.numbers(2);
  if (!known || !i.shape(0) || i.in(0).rank() != 1 || !starts || !ends) return;
  if (i.optional(4) && !i.numbers(4)) return;
  const int64_t step = i.optional(4) ? i.numbers(4)->at(0) : 1;
  const auto size = static_cast<int64_t>(known->size());
  const auto clamp = [&](int64_t at, int64_t first) {
    const int64_t last = step > 0 ? size : size - 1;
    return std::max(first, std::min(at < 0 ? std::max(at, -size - 1) + size : at, last));
  };
  const int64_t end = clamp(ends->at(0), step > 0 ? 0 : -1);
  Shape result;
  if (size == 0) return i.set_contents(0, {});
  for (int64_t at = clamp(starts->at(0), 0); step > 0 ? at < end : at > end; at += step) {
    result.push_back((*known)[static_cast<size_t>(at)]);
  }
  i.set_contents(0, std::move(result));
}

void slice(Inference& i) {
  const Shape* input = i.shape(0);
  const auto axes_input = i.numbers(3);
  if (!input || (i.optional(3) && !axes_input)) {
    i.set(0, i.dtype(0), input ? std::optional(i.unknown_shape(0, i.in(0).rank())) : std::nullopt);
    return;
  }
  const auto rank = static_cast<int64_t>(input->size());
  const auto* starts = i.contents(1);
  const auto* ends = i.contents(2);
  const auto steps = i.numbers(4);
  const Shape* count_shape = i.shape(1);
  size_t count = axes_input ? axes_input->size()
                 : starts   ? starts->size()
                 : ends     ? ends->size()
                            : 0;
  if (!axes_input && !starts && !ends) {
    const auto length =
        count_shape && count_shape->size() == 1 ? (*count_shape)[0].constant() : std::nullopt;
    count = length ? static_cast<size_t>(*length) : input->size();
  }
  Shape result = *input;
  for (size_t k = 0; k < count; ++k) {
    const int64_t axis = axes_input ? i.axis((*axes_input)[k], rank) : static_cast<int64_t>(k);
    Dim& size = result[static_cast<size_t>(axis)];
    std::optional<Dim> length;
    if (starts && ends && (steps || !i.optional(4))) {
      const int64_t step = steps ? (*steps)[k] : 1;
      if (step == 0) i.fail("step 0");
      length = slice_length(size, (*starts)[k], (*ends)[k], step);
    }
    size = length ? *length : i.unknown(0, rank, axis);
  }
  i.set(0, i.dtype(0), std::move(result));
  if (i.small_integers(0)) slice_contents(i);
}

void split(Inference& i) {
  const Shape* input = i.shape(0);
  const size_t parts = i.num_outputs();
  if (!input) {
    for (size_t k = 0; k < parts; ++k) i.set(k, i.dtype(0), std::nullopt);
    return;
  }
  const auto rank = static_cast<int64_t>(input->size());
  const int64_t axis = i.axis_attribute("axis", 0, rank);
  const Dim& whole = (*input)[static_cast<size_t>(axis)];
  std::optional<Shape> sizes;
  if (const auto* given = i.contents(1)) {
    sizes = *given;
  } else if (const auto attribute = i.attribute_ints("split")) {
    sizes.emplace(attribute->begin(), attribute->end());
  } else if (!i.optional(1)) {
    const Dim part = Dim::ceil_div(whole, static_cast<int64_t>(parts));
    sizes.emplace(parts, part);
    sizes->back() = larger(whole - Dim(static_cast<int64_t>(parts) - 1) * part, 0);
  }
  if (sizes && sizes->size() != parts)
    i.fail("got ", sizes->size(), " sizes for ", parts, " outputs");
  const auto* known = rank == 1 ? i.contents(0) : nullptr;
  size_t begin = 0;
  for (size_t k = 0; k < parts; ++k) {
    Shape result = *input;
    result[static_cast<size_t>(axis)] = sizes ? (*sizes)[k] : i.unknown(k, rank, axis);
    const auto length = result[static_cast<size_t>(axis)].constant();
    i.set(k, i.dtype(0), std::move(result));
    if (!known || !length) {
      known = nullptr;
      continue;
    }
    const size_t end = begin + static_cast<size_t>(*length);
    if (end > known->size()) i.fail("the sum of the sizes exceeds the size of the axis");
    i.set_contents(k, Shape(known->begin() + static_cast<std::ptrdiff_t>(begin),
                            known->begin() + static_cast<std::ptrdiff_t>(end)));
    begin = end;
  }
}

void pad(Inference& i) {
  const Shape* input = i.shape(0);
  if (!input) {
    i.set(0, i.dtype(0), std::nullopt);
    return;
  }
  const auto rank = static_cast<int64_t>(input->size());
  const auto* pads = i.contents(1);
  const auto axes = i.numbers(3);
  if (!pads || (i.optional(3) && !axes)) {
    i.set(0, i.dtype(0), i.unknown_shape(0, rank));
    return;
  }
  const size_t count = axes ? axes->size() : input->size();
  if (pads->size() != 2 * count) i.fail("got ", pads->size(), " pads for ", count, " axes");
  Shape result = *input;
  for (size_t k = 0; k < count; ++k) {
    const auto axis = axes ? static_cast<size_t>(i.axis((*axes)[k], rank)) : k;
    result[axis] = result[axis] + (*pads)[k] + (*pads)[count + k];
  }
  i.set(0, i.dtype(0), std::move(result));
}

void center_crop_pad(Inference& i) {
  const Shape* input = i.shape(0);
  if (!input) {
    i.set(0, i.dtype(0), std::nullopt);
    return;
  }
  const auto rank = static_cast<int64_t>(input->size());
  const auto axes = i.attribute_ints("axes");
  const auto* target = i.contents(1);
  const size_t count = axes ? axes->size() : input->size();
  if (target && target->size() != count)
    i.fail("got ", target->size(), " sizes for ", count, " axes");
  Shape result = *input;
  for (size_t k = 0; k < count; ++k) {
    const int64_t axis = axes ? i.axis((*axes)[k], rank) : static_cast<int64_t>(k);
    result[static_cast<size_t>(axis)] = target ? (*target)[k] : i.unknown(0, rank, axis);
  }
  i.set(0, i.dtype(0), std::move(result));
}

}  // namespace

void add_slicing_rules(Rules& rules) {
  rules["CenterCropPad"] = center_crop_pad;
  rules["Pad"] = pad;
  rules["Slice"] = slice;
  rules["Split"] = split;
}

}  // namespace onnx_native::onnx
