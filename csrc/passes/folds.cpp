#include "passes/folds.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace onnx_native::passes {
namespace {

using onnx::Node;
using Ints = std::vector<int64_t>;
using Result = std::optional<Elements>;

constexpr int64_t kNone = -1;  // the source of an element that no other tensor has

// Calls `visit` with each index of a tensor, in row-major order.
void for_each_index(const Ints& shape, const std::function<void(const Ints&)>& visit) {
  Ints index(shape.size(), 0);
  for (int64_t left = count_elements(shape); left > 0; --left) {
    visit(index);
    for (size_t axis = shape.size(); axis-- > 0 && ++index[axis] == shape[axis];) index[axis] = 0;
  }
}

int64_t offset_of(const Ints& index, const Ints& strides) {
  return std::inner_product(index.begin(), index.end(), strides.begin(), int64_t{0});
}

bool counts_from_end(int64_t& index, int64_t size) {
  if (index < 0) index += size;
  return index >= 0 && index < size;
}

Elements zeros(DType dtype, Ints shape) {
  Elements result{dtype, std::move(shape), {}, {}};
  const auto size = static_cast<size_t>(result.size());
  result.floating() ? result.floats.resize(size) : result.integers.resize(size);
  return result;
}

void copy_element(const Elements& from, int64_t source, Elements& to, int64_t target) {
  const auto i = static_cast<size_t>(source), j = static_cast<size_t>(target);
  if (from.floating()) {
    to.floats[j] = from.floats[i];
  } else {
    to.integers[j] = from.integers[i];
  }
}

// Returns the offset in `x` of each element of `indices`, which replaces the index along the node's
// axis; nullopt if the ranks differ or one is out of range.
std::optional<Ints> offsets_along_axis(const Node& node, const Elements& x,
                                       const Elements& indices) {
  const auto axis = axis_of(node.attribute_int("axis", 0), x.shape.size());
  if (!axis || indices.shape.size() != x.shape.size()) return std::nullopt;
  const Ints strides = strides_of(x.shape);
  Ints offsets;
  bool valid = true;
  for_each_index(indices.shape, [&](Ints index) {
    index[*axis] = indices.integers[offsets.size()];
    valid &= counts_from_end(index[*axis], x.shape[*axis]);
    offsets.push_back(offset_of(index, strides));
  });
  return valid ? std::optional(std::move(offsets)) : std::nullopt;
}

Result fold_gather_elements(const Node& node, const FoldInputs& inputs, int64_t) {
  const Elements &x = *inputs[0], &indices = *inputs[1];
  const auto sources = offsets_along_axis(node, x, indices);
  return sources ? Result(pick(x, *sources, indices.shape)) : std::nullopt;
}

// Returns the offsets of the slices that the rows of `indices` select; nullopt if one is out of
// range.
std::optional<Ints> slices_of(const Elements& x, const Elements& indices) {
  if (indices.shape.empty()) return std::nullopt;
  const int64_t depth = indices.shape.back();
  if (depth < 1 || depth > static_cast<int64_t>(x.shape.size())) return std::nullopt;
  const Ints strides = strides_of(x.shape);
  Ints offsets;
  for (size_t i = 0; i < indices.integers.size(); ++i) {
    const size_t axis = i % static_cast<size_t>(depth);
    int64_t index = indices.integers[i];
    if (!counts_from_end(index, x.shape[axis])) return std::nullopt;
    if (axis == 0) offsets.push_back(0);
    offsets.back() += index * strides[axis];
  }
  return offsets;
}

Result fold_gather_nd(const Node& node, const FoldInputs& inputs, int64_t limit) {
  const Elements &x = *inputs[0], &indices = *inputs[1];
  const auto slices = slices_of(x, indices);
  if (!slices || node.attribute_int("batch_dims", 0) != 0) return std::nullopt;
  const Ints inner(x.shape.begin() + indices.shape.back(), x.shape.end());
  Ints shape(indices.shape.begin(), indices.shape.end() - 1);
  shape.insert(shape.end(), inner.begin(), inner.end());
  if (count_elements(shape) > limit) return std::nullopt;
  Ints sources;
  for (const int64_t start : *slices) {
    for (int64_t i = 0; i < count_elements(inner); ++i) sources.push_back(start + i);
  }
  return pick(x, sources, shape);
}

// Runtimes may write to a place several times in any order.
bool has_repeated(const Ints& places) {
  return std::unordered_set<int64_t>(places.begin(), places.end()).size() != places.size();
}

Result fold_scatter_nd(const Node& node, const FoldInputs& inputs, int64_t) {
  Elements x = *inputs[0];
  const Elements& updates = *inputs[2];
  const auto slices = slices_of(x, *inputs[1]);
  if (!slices || has_repeated(*slices) || updates.dtype != x.dtype) return std::nullopt;
  if (node.attribute_string("reduction", "none") != "none") return std::nullopt;
  const auto count = static_cast<int64_t>(slices->size());
  const int64_t size =
      count_elements(Ints(x.shape.begin() + inputs[1]->shape.back(), x.shape.end()));
  if (updates.size() != count * size) return std::nullopt;
  for (int64_t i = 0; i < updates.size(); ++i) {
    copy_element(updates, i, x, (*slices)[static_cast<size_t>(i / size)] + i % size);
  }
  return x;
}

Result fold_scatter_elements(const Node& node, const FoldInputs& inputs, int64_t) {
  Elements x = *inputs[0];
  const Elements &indices = *inputs[1], &updates = *inputs[2];
  if (indices.shape != updates.shape || updates.dtype != x.dtype ||
      node.attribute_string("reduction", "none") != "none") {
    return std::nullopt;
  }
  const auto places = offsets_along_axis(node, x, indices);
  if (!places || has_repeated(*places)) return std::nullopt;
  for (size_t i = 0; i < places->size(); ++i) {
    copy_element(updates, static_cast<int64_t>(i), x, (*places)[i]);
  }
  return x;
}

Result fold_tile(const Node&, const FoldInputs& inputs, int64_t limit) {
  const Elements& x = *inputs[0];
  const Ints& repeats = inputs[1]->integers;
  if (repeats.size() != x.shape.size()) return std::nullopt;
  Ints shape = x.shape;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (repeats[i] < 0 || __builtin_mul_overflow(shape[i], repeats[i], &shape[i]))
      return std::nullopt;
  }
  if (count_elements(shape) > limit) return std::nullopt;
  const Ints strides = strides_of(x.shape);
  Ints sources;
  for_each_index(shape, [&](Ints index) {
    for (size_t i = 0; i < index.size(); ++i) index[i] %= x.shape[i];
    sources.push_back(offset_of(index, strides));
  });
  return pick(x, sources, shape);
}

// Returns the position from which Pad copies; kNone for a position of its constant value.
int64_t padded_from(int64_t position, int64_t size, std::string_view mode) {
  if (position >= 0 && position < size) return position;
  if (mode == "edge") return position < 0 ? 0 : size - 1;
  if (mode == "reflect") return position < 0 ? -position : 2 * (size - 1) - position;
  if (mode == "wrap") return position < 0 ? position + size : position - size;
  return kNone;
}

Result fold_pad(const Node& node, const FoldInputs& inputs, int64_t limit) {
  const Elements& x = *inputs[0];
  const std::string mode = node.attribute_string("mode", "constant");
  if (inputs.size() < 2 || !inputs[1]) return std::nullopt;
  const Ints& pads = inputs[1]->integers;
  Ints axes(x.shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (inputs.size() > 3 && inputs[3]) axes = inputs[3]->integers;
  if (pads.size() != 2 * axes.size()) return std::nullopt;
  Ints shape = x.shape;
  Ints before(x.shape.size(), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = axis_of(axes[i], shape.size());
    if (!axis) return std::nullopt;
    const int64_t begin = pads[i], end = pads[axes.size() + i], size = x.shape[*axis];
    const int64_t most = mode == "reflect" ? size - 1 : mode == "wrap" ? size : limit;
    const bool is_bounded = mode == "constant"
                                ? size + std::min(begin, int64_t{0}) >= 0
                                : begin >= 0 && end >= 0 && std::max(begin, end) <= most;
    if (!is_bounded || begin > limit || end > limit) return std::nullopt;
    before[*axis] = begin;
    shape[*axis] += begin + end;
    if (shape[*axis] <= 0) return std::nullopt;
  }
  if (count_elements(shape) > limit) return std::nullopt;
  Elements result = zeros(x.dtype, shape);
  const Result fill = inputs.size() > 2 ? inputs[2] : std::nullopt;
  if (fill && (fill->size() != 1 || fill->dtype != x.dtype)) return std::nullopt;
  const Ints strides = strides_of(x.shape);
  int64_t place = 0;
  for_each_index(shape, [&](const Ints& index) {
    int64_t source = 0;
    for (size_t i = 0; i < index.size() && source != kNone; ++i) {
      const int64_t from = padded_from(index[i] - before[i], x.shape[i], mode);
      source = from == kNone ? kNone : source + from * strides[i];
    }
    if (source != kNone) {
      copy_element(x, source, result, place);
    } else if (fill) {
      copy_element(*fill, 0, result, place);
    }
    ++place;
  });
  return result;
}

Result fold_cumulative_sum(const Node& node, const FoldInputs& inputs, int64_t) {
  Elements x = *inputs[0];
  if (x.dtype == DType::f64 || inputs[1]->integers.size() != 1) return std::nullopt;
  const auto axis = axis_of(inputs[1]->integers[0], x.shape.size());
  if (!axis) return std::nullopt;
  const bool exclusive = node.attribute_int("exclusive", 0) != 0;
  const bool reverse = node.attribute_int("reverse", 0) != 0;
  const int64_t size = x.shape[*axis], stride = strides_of(x.shape)[*axis];
  const auto sum = [&](auto& values, auto zero) {
    for (int64_t start = 0; start < x.size(); ++start) {
      if (start / stride % size != 0) continue;  // not the first one of a row
      auto total = zero;
      for (int64_t i = 0; i < size; ++i) {
        const int64_t place = start + (reverse ? size - 1 - i : i) * stride;
        auto& value = values[static_cast<size_t>(place)];
        const auto next = static_cast<decltype(zero)>(total + static_cast<decltype(zero)>(value));
        value = static_cast<std::remove_reference_t<decltype(value)>>(exclusive ? total : next);
        total = next;
      }
    }
  };
  x.floating() ? sum(x.floats, 0.0) : sum(x.integers, uint64_t{0});
  return x;
}

Result fold_triangle(const Node& node, const FoldInputs& inputs, int64_t) {
  const Elements& x = *inputs[0];
  if (x.shape.size() < 2) return std::nullopt;
  if (inputs.size() > 1 && inputs[1] && inputs[1]->integers.size() != 1) return std::nullopt;
  const int64_t k = inputs.size() > 1 && inputs[1] ? inputs[1]->integers[0] : 0;
  const bool upper = node.attribute_int("upper", 1) != 0;
  Elements result = zeros(x.dtype, x.shape);
  int64_t place = 0;
  for_each_index(x.shape, [&](const Ints& index) {
    const int64_t distance = index.end()[-1] - index.end()[-2];
    if (upper ? distance >= k : distance <= k) copy_element(x, place, result, place);
    ++place;
  });
  return result;
}

Result fold_one_hot(const Node& node, const FoldInputs& inputs, int64_t limit) {
  const Elements &indices = *inputs[0], &values = *inputs[2];
  if (inputs[1]->integers.size() != 1 || indices.floating() || values.size() != 2)
    return std::nullopt;
  const int64_t depth = inputs[1]->integers[0];
  const auto axis = axis_of(node.attribute_int("axis", -1), indices.shape.size() + 1);
  if (!axis || depth < 1) return std::nullopt;
  Ints shape = indices.shape;
  shape.insert(shape.begin() + static_cast<int64_t>(*axis), depth);
  if (count_elements(shape) > limit) return std::nullopt;
  const Ints strides = strides_of(indices.shape);
  Ints sources;
  for_each_index(shape, [&](Ints index) {
    const int64_t place = index[*axis];
    index.erase(index.begin() + static_cast<int64_t>(*axis));
    int64_t wanted = indices.integers[static_cast<size_t>(offset_of(index, strides))];
    sources.push_back(counts_from_end(wanted, depth) && wanted == place ? 1 : 0);
  });
  return pick(values, sources, shape);
}

Result fold_nonzero(const Node&, const FoldInputs& inputs, int64_t) {
  const Elements& x = *inputs[0];
  if (x.shape.empty()) return std::nullopt;
  std::vector<Ints> found;
  size_t place = 0;
  for_each_index(x.shape, [&](const Ints& index) {
    if (x.floating() ? x.floats[place] != 0 : x.integers[place] != 0) found.push_back(index);
    ++place;
  });
  Elements result{DType::i64, {static_cast<int64_t>(x.shape.size()), 0}, {}, {}};
  result.shape[1] = static_cast<int64_t>(found.size());
  for (size_t axis = 0; axis < x.shape.size(); ++axis) {
    for (const Ints& index : found) result.integers.push_back(index[axis]);
  }
  return result;
}

Result fold_arg(const Node& node, const FoldInputs& inputs, int64_t) {
  const Elements& x = *inputs[0];
  const auto axis = axis_of(node.attribute_int("axis", 0), x.shape.size());
  if (!axis || std::ranges::any_of(x.floats, [](double value) { return std::isnan(value); }))
    return std::nullopt;
  const int64_t size = x.shape[*axis], stride = strides_of(x.shape)[*axis];
  const bool last = node.attribute_int("select_last_index", 0) != 0;
  const bool greatest = node.is("ArgMax");
  Elements result{DType::i64, x.shape, {}, {}};
  result.shape[*axis] = 1;
  const auto select = [&](const auto& values) {
    for (int64_t start = 0; start < x.size(); ++start) {
      if (start / stride % size != 0) continue;
      int64_t best = 0;
      for (int64_t i = 1; i < size; ++i) {
        const auto a = values[static_cast<size_t>(start + i * stride)];
        const auto b = values[static_cast<size_t>(start + best * stride)];
        if ((greatest ? a > b : a < b) || (last && a == b)) best = i;
      }
      result.integers.push_back(best);
    }
  };
  x.floating() ? select(x.floats) : select(x.integers);
  if (node.attribute_int("keepdims", 1) == 0)
    result.shape.erase(result.shape.begin() + static_cast<int64_t>(*axis));
  return result;
}

// Without fmod, the sign is the divisor's, else the dividend's. The remainder of floats needs no
// rounding.
Result fold_mod(const Node& node, const FoldInputs& inputs, int64_t) {
  const auto shape = broadcast_shape(inputs[0]->shape, inputs[1]->shape);
  const bool fmod = node.attribute_int("fmod", 0) != 0;
  if (!shape || inputs[0]->dtype != inputs[1]->dtype || (inputs[0]->floating() && !fmod))
    return std::nullopt;
  Elements x = expanded(*inputs[0], *shape);
  const Elements y = expanded(*inputs[1], *shape);
  for (size_t i = 0; i < x.floats.size(); ++i) x.floats[i] = std::fmod(x.floats[i], y.floats[i]);
  for (size_t i = 0; i < x.integers.size(); ++i) {
    const int64_t divisor = y.integers[i];
    if (divisor == 0) return std::nullopt;
    int64_t rest = divisor == -1 ? 0 : x.integers[i] % divisor;
    if (!fmod && rest != 0 && (rest < 0) != (divisor < 0)) rest += divisor;
    x.integers[i] = rest;
  }
  return x;
}

Result fold_float_class(const Node& node, const FoldInputs& inputs, int64_t) {
  const Elements& x = *inputs[0];
  if (!x.floating()) return std::nullopt;
  const bool negative = node.attribute_int("detect_negative", 1) != 0;
  const bool positive = node.attribute_int("detect_positive", 1) != 0;
  Elements result{DType::boolean, x.shape, {}, {}};
  for (const double value : x.floats) {
    const bool is_infinite = std::isinf(value) && (value < 0 ? negative : positive);
    result.integers.push_back(node.is("IsNaN") ? std::isnan(value) : is_infinite);
  }
  return result;
}

}  // namespace

std::optional<size_t> axis_of(int64_t axis, size_t rank) {
  if (axis < 0) axis += static_cast<int64_t>(rank);
  if (axis < 0 || axis >= static_cast<int64_t>(rank)) return std::nullopt;
  return static_cast<size_t>(axis);
}

Result fold_split(const Node& node, const FoldInputs& inputs, size_t output) {
  const Elements& x = *inputs[0];
  const auto axis = axis_of(node.attribute_int("axis", 0), x.shape.size());
  if (!axis) return std::nullopt;
  const auto pieces = static_cast<int64_t>(node.outputs.size());
  const int64_t whole = x.shape[*axis], most = (whole + pieces - 1) / pieces;
  Ints sizes(node.outputs.size(), most);
  if (inputs.size() > 1 && inputs[1]) {
    sizes = inputs[1]->integers;
    if (sizes.size() != node.outputs.size()) return std::nullopt;
  } else {
    sizes.back() = whole - most * (pieces - 1);
  }
  if (std::ranges::any_of(sizes, [](int64_t size) { return size < 0; }) ||
      std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) != whole) {
    return std::nullopt;
  }
  const Ints strides = strides_of(x.shape);
  const int64_t start =
      std::accumulate(sizes.begin(), sizes.begin() + static_cast<int64_t>(output), int64_t{0});
  Ints shape = x.shape;
  shape[*axis] = sizes[output];
  return pick(x, strided_indices(shape, strides, start * strides[*axis]), shape);
}

Fold find_indexing_fold(std::string_view op_type) {
  static const std::unordered_map<std::string_view, Fold> kFolds{
      {"ArgMax", fold_arg},
      {"ArgMin", fold_arg},
      {"CumSum", fold_cumulative_sum},
      {"GatherElements", fold_gather_elements},
      {"GatherND", fold_gather_nd},
      {"IsInf", fold_float_class},
      {"IsNaN", fold_float_class},
      {"Mod", fold_mod},
      {"NonZero", fold_nonzero},
      {"OneHot", fold_one_hot},
      {"Pad", fold_pad},
      {"ScatterElements", fold_scatter_elements},
      {"ScatterND", fold_scatter_nd},
      {"Tile", fold_tile},
      {"Trilu", fold_triangle},
  };
  const auto found = kFolds.find(op_type);
  return found == kFolds.end() ? nullptr : found->second;
}

}  // namespace onnx_native::passes
