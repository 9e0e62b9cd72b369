// Operators that read, change or join shapes without moving individual elements.
#include <algorithm>

#include "onnx/infer_rules.h"

namespace onnx_native::onnx {
namespace {

// Keeps the contents: the elements stay in the same order.
void keep_contents(Inference& i) {
  const auto* known = i.contents(0);
  const auto count = i.small_integers(0);
  if (known && count && *count == static_cast<int64_t>(known->size())) {
    i.set_contents(0, *known);
  }
}

void shape(Inference& i) {
  const Shape* input = i.shape(0);
  if (!input) {
    i.set(0, DType::i64, Shape{i.unknown(0, 1, 0)});
    return;
  }
  const auto rank = static_cast<int64_t>(input->size());
  const auto clamp = [rank](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const int64_t start = clamp(i.attribute("start", 0));
  const int64_t end = std::max(start, clamp(i.attribute("end", rank)));
  i.set(0, DType::i64, Shape{end - start});
  i.set_contents(0, Shape(input->begin() + start, input->begin() + end));
}

void size(Inference& i) {
  i.set(0, DType::i64, Shape{});
  if (const Shape* input = i.shape(0)) i.set_contents(0, {numel(*input)});
}

// The target shape of a Reshape with 0 replaced by the input's size; -1 is still open.
struct ReshapeTarget {
  Shape sizes;                 // 1 in place of -1
  std::vector<bool> copied;    // by input axis: the size appears in both shapes and cancels
  Dim given = 1;               // product of the sizes that the target states
  std::optional<size_t> open;  // the axis of -1
};

ReshapeTarget reshape_target(Inference& i, const Shape* input, const Shape& target) {
  const bool zero_copies = i.attribute("allowzero", 0) == 0;
  const auto rank = static_cast<int64_t>(target.size());
  ReshapeTarget result;
  if (input) result.copied.resize(input->size());
  for (size_t axis = 0; axis < target.size(); ++axis) {
    const Dim& dim = target[axis];
    if (dim.equals(-1)) {
      if (result.open) i.fail("more than one size is -1");
      result.open = axis;
      result.sizes.emplace_back(1);
    } else if (dim.equals(0) && zero_copies && !input) {
      result.sizes.push_back(i.unknown(0, rank, static_cast<int64_t>(axis)));
    } else if (dim.equals(0) && zero_copies) {
      if (axis >= input->size())
        i.fail("a size of 0 copies a dimension that the input does not have");
      result.sizes.push_back((*input)[axis]);
      result.copied[axis] = true;
    } else {
      if (dim.constant_or(0) < 0) i.fail("the target shape has a negative size");
      result.sizes.push_back(dim);
      result.given = result.given * dim;
    }
  }
  return result;
}

// Returns the size that -1 stands for.
Dim open_size(Inference& i, const Shape* input, const ReshapeTarget& target) {
  const auto unknown = [&] {
    return i.unknown(0, static_cast<int64_t>(target.sizes.size()),
                     static_cast<int64_t>(*target.open));
  };
  if (!input || target.given.equals(0)) return unknown();
  Dim whole = 1;
  for (size_t axis = 0; axis < input->size(); ++axis) {
    if (!target.copied[axis]) whole = whole * (*input)[axis];
  }
  const auto total = whole.constant();
  const auto parts = target.given.constant();
  if (total && parts && *total % *parts != 0) {
    i.fail(*total, " elements are not divisible by ", *parts);
  }
  return Dim::floor_div(whole, target.given);
}

void reshape(Inference& i) {
  const Shape* input = i.shape(0);
  const auto* contents = i.contents(1);
  if (!contents) {
    const Shape* length = i.shape(1);
    const auto rank = length && length->size() == 1 ? (*length)[0].constant() : std::nullopt;
    i.set(0, i.dtype(0), rank ? std::optional(i.unknown_shape(0, *rank)) : std::nullopt);
    return;
  }
  ReshapeTarget target = reshape_target(i, input, *contents);
  if (target.open) {
    target.sizes[*target.open] = open_size(i, input, target);
  } else if (input) {
    const auto before = numel(*input).constant();
    const auto after = numel(target.sizes).constant();
    if (before && after && *before != *after) {
      i.fail("cannot reshape ", *before, " elements to a shape of ", *after);
    }
  }
  i.set(0, i.dtype(0), std::move(target.sizes));
  keep_contents(i);
}

void flatten(Inference& i) {
  const Shape* input = i.shape(0);
  if (!input) {
    i.set(0, i.dtype(0), i.unknown_shape(0, 2));
    return;
  }
  const auto rank = static_cast<int64_t>(input->size());
  const int64_t given = i.attribute("axis", 1);
  const int64_t axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis > rank)
    i.fail("axis ", given, " is out of range for a tensor of rank ", rank);
  Shape result = {1, 1};
  for (int64_t d = 0; d < rank; ++d) {
    Dim& side = result[d < axis ? 0 : 1];
    side = side * (*input)[static_cast<size_t>(d)];
  }
  i.set(0, i.dtype(0), std::move(result));
}

// Returns the axes of Squeeze and Unsqueeze: an input, or an attribute before opset 13.
std::optional<std::vector<int64_t>> axes_of(const Inference& i) {
  return i.optional(1) ? i.numbers(1) : i.attribute_ints("axes");
}

void squeeze(Inference& i) {
  const Shape* input = i.shape(0);
  const auto axes = axes_of(i);
  if (!input || (!axes && i.optional(1))) {
    i.set(0, i.dtype(0), std::nullopt);
    return;
  }
  const auto rank = static_cast<int64_t>(input->size());
  std::vector<bool> dropped(input->size(), false);
  if (axes) {
    for (const int64_t axis : *axes) {
      const auto at = static_cast<size_t>(i.axis(axis, rank));
      if ((*input)[at].constant_or(1) != 1) i.fail("axis ", axis, " does not have size 1");
      dropped[at] = true;
    }
  } else {
    for (size_t at = 0; at < input->size(); ++at) dropped[at] = (*input)[at].equals(1);
  }
  Shape result;
  for (size_t at = 0; at < input->size(); ++at) {
    if (!dropped[at]) result.push_back((*input)[at]);
  }
  i.set(0, i.dtype(0), std::move(result));
  keep_contents(i);
}

void unsqueeze(Inference& i) {
  const Shape* input = i.shape(0);
  const auto axes = axes_of(i);
  if (!input || !axes) {
    i.set(0, i.dtype(0), std::nullopt);
    return;
  }
  const auto rank = static_cast<int64_t>(input->size() + axes->size());
  std::vector<bool> added(static_cast<size_t>(rank), false);
  for (const int64_t axis : *axes) {
    const auto at = static_cast<size_t>(i.axis(axis, rank));
    if (added[at]) i.fail("axis ", axis, " appears twice");
    added[at] = true;
  }
  Shape result;
  size_t next = 0;
  for (const bool is_new : added) result.push_back(is_new ? Dim(1) : (*input)[next++]);
  i.set(0, i.dtype(0), std::move(result));
  keep_contents(i);
}

void transpose(Inference& i) {
  const Shape* input = i.shape(0);
  if (!input) {
    i.set(0, i.dtype(0), std::nullopt);
    return;
  }
  const auto permutation = i.attribute_ints("perm");
  Shape result;
  if (!permutation) {
    result.assign(input->rbegin(), input->rend());
  } else {
    if (permutation->size() != input->size()) i.fail("perm must have one element per axis");
    for (const int64_t axis : *permutation) {
      result.push_back(
          (*input)[static_cast<size_t>(i.axis(axis, static_cast<int64_t>(input->size())))]);
    }
  }
  i.set(0, i.dtype(0), std::move(result));
  keep_contents(i);
}

void expand(Inference& i) {
  const Shape* input = i.shape(0);
  const auto* target = i.contents(1);
  if (input && target) {
    i.set(0, i.dtype(0), broadcast(*input, *target));
  } else if (const Shape* length = i.shape(1);
             input && length && length->size() == 1 && (*length)[0].is_constant()) {
    const auto rank =
        std::max<int64_t>(*(*length)[0].constant(), static_cast<int64_t>(input->size()));
    i.set(0, i.dtype(0), i.unknown_shape(0, rank));
  } else {
    i.set(0, i.dtype(0), std::nullopt);
  }
  const auto* known = i.contents(0);
  const auto count = i.small_integers(0);
  if (known && known->size() == 1 && count) {
    i.set_contents(0, Shape(static_cast<size_t>(*count), known->front()));
  } else {
    keep_contents(i);
  }
}

void tile(Inference& i) {
  const Shape* input = i.shape(0);
  const auto* repeats = i.contents(1);
  if (!input || !repeats) {
    i.set(0, i.dtype(0), input ? std::optional(i.unknown_shape(0, i.in(0).rank())) : std::nullopt);
    return;
  }
  if (repeats->size() != input->size()) i.fail("repeats must have one element per axis");
  Shape result;
  for (size_t d = 0; d < input->size(); ++d) result.push_back((*input)[d] * (*repeats)[d]);
  i.set(0, i.dtype(0), std::move(result));
  const auto* known = i.contents(0);
  const auto count = i.small_integers(0);
  if (known && !known->empty() && count) {
    Shape elements;
    for (int64_t k = 0; k < *count; ++k) {
      elements.push_back((*known)[static_cast<size_t>(k) % known->size()]);
    }
    i.set_contents(0, std::move(elements));
  }
}

void concat_rule(Inference& i) {
  std::optional<Shape> result = i.in(0).shape;
  if (!result) {
    for (size_t input = 1; input < i.num_inputs(); ++input) i.same_dtype(0, input);
    i.set(0, i.dtype(0), std::nullopt);
    return;
  }
  const auto rank = static_cast<int64_t>(result->size());
  const auto axis = static_cast<size_t>(i.axis_attribute("axis", 0, rank));
  for (size_t input = 1; input < i.num_inputs() && result; ++input) {
    i.same_dtype(0, input);
    const Shape* next = i.shape(input);
    if (!next) {
      result.reset();
      break;
    }
    if (next->size() != result->size()) i.fail("the inputs have different ranks");
    for (size_t d = 0; d < result->size(); ++d) {
      (*result)[d] = d == axis ? (*result)[d] + (*next)[d] : i.unify((*result)[d], (*next)[d]);
    }
  }
  i.set(0, i.dtype(0), std::move(result));
  if (!i.small_integers(0)) return;
  Shape elements;
  for (size_t input = 0; input < i.num_inputs(); ++input) {
    const auto* known = i.contents(input);
    if (!known) return;
    elements.insert(elements.end(), known->begin(), known->end());
  }
  i.set_contents(0, std::move(elements));
}

void depth_to_space(Inference& i) {
  i.expect_rank(0, 4);
  const Shape* input = i.shape(0);
  const Dim block = i.attribute("blocksize", 1);
  i.set(0, i.dtype(0),
        input ? Shape{(*input)[0], Dim::floor_div((*input)[1], block * block), (*input)[2] * block,
                      (*input)[3] * block}
              : i.unknown_shape(0, 4));
}

void space_to_depth(Inference& i) {
  i.expect_rank(0, 4);
  const Shape* input = i.shape(0);
  const Dim block = i.attribute("blocksize", 1);
  i.set(0, i.dtype(0),
        input ? Shape{(*input)[0], (*input)[1] * block * block, Dim::floor_div((*input)[2], block),
                      Dim::floor_div((*input)[3], block)}
              : i.unknown_shape(0, 4));
}

}  // namespace

void add_shape_rules(Rules& rules) {
  rules["Concat"] = concat_rule;
  rules["DepthToSpace"] = depth_to_space;
  rules["Expand"] = expand;
  rules["Flatten"] = flatten;
  rules["Reshape"] = reshape;
  rules["Shape"] = shape;
  rules["Size"] = size;
  rules["SpaceToDepth"] = space_to_depth;
  rules["Squeeze"] = squeeze;
  rules["Tile"] = tile;
  rules["Transpose"] = transpose;
  rules["Unsqueeze"] = unsqueeze;
}

}  // namespace onnx_native::onnx
