// Operators that gather or scatter elements by index.
#include <algorithm>

#include "onnx/infer_rules.h"

namespace onnx_native::onnx {
namespace {

Shape concatenated(const Shape& shape, size_t from, size_t to, Shape onto) {
  onto.insert(onto.end(), shape.begin() + static_cast<std::ptrdiff_t>(from),
              shape.begin() + static_cast<std::ptrdiff_t>(to));
  return onto;
}

void gather(Inference& i) {
  const Shape* data = i.shape(0);
  const Shape* indices = i.shape(1);
  if (!data || !indices) {
    i.set(0, i.dtype(0), std::nullopt);
    return;
  }
  const auto rank = static_cast<int64_t>(data->size());
  const auto axis = static_cast<size_t>(i.axis_attribute("axis", 0, rank));
  Shape result = concatenated(*data, 0, axis, {});
  result = concatenated(*indices, 0, indices->size(), std::move(result));
  i.set(0, i.dtype(0), concatenated(*data, axis + 1, data->size(), std::move(result)));
  const auto* known = i.contents(0);
  const auto picks = i.numbers(1);
  if (!known || !picks || rank != 1 || !i.small_integers(0)) return;
  Shape elements;
  for (const int64_t pick : *picks) {
    elements.push_back(
        (*known)[static_cast<size_t>(i.axis(pick, static_cast<int64_t>(known->size())))]);
  }
  i.set_contents(0, std::move(elements));
}

void gather_elements(Inference& i) { i.set(0, i.dtype(0), i.in(1).shape); }

void gather_nd(Inference& i) {
  const Shape* data = i.shape(0);
  const Shape* indices = i.shape(1);
  const auto depth = indices && !indices->empty() ? indices->back().constant() : std::nullopt;
  if (!data || !depth) {
    i.set(0, i.dtype(0), std::nullopt);
    return;
  }
  const size_t consumed = static_cast<size_t>(i.attribute("batch_dims", 0) + *depth);
  if (consumed > data->size())
    i.fail("the indices select along ", *depth, " axes, but the data has fewer");
  Shape result = concatenated(*indices, 0, indices->size() - 1, {});
  i.set(0, i.dtype(0), concatenated(*data, consumed, data->size(), std::move(result)));
}

void scatter(Inference& i) {
  i.same_dtype(0, 2);
  same_as_first(i);
}

void tensor_scatter(Inference& i) {
  i.same_dtype(0, 1);
  same_as_first(i);
}

void one_hot(Inference& i) {
  const Shape* indices = i.shape(0);
  if (!indices) {
    i.set(0, i.dtype(2), std::nullopt);
    return;
  }
  const auto rank = static_cast<int64_t>(indices->size()) + 1;
  const int64_t axis = i.axis_attribute("axis", -1, rank);
  const auto* depth = i.contents(1);
  Shape result = *indices;
  result.insert(result.begin() + axis,
                depth && depth->size() == 1 ? depth->front() : i.unknown(0, rank, axis));
  i.set(0, i.dtype(2), std::move(result));
}

void non_zero(Inference& i) {
  const int64_t rank = i.in(0).rank_or(-1);
  const Dim count = i.unknown(0, 2, 1);
  i.set(0, DType::i64,
        Shape{rank < 0 ? i.unknown(0, 2, 0) : Dim(std::max<int64_t>(rank, 1)), count});
}

void compress(Inference& i) {
  if (!i.has("axis")) {
    i.set(0, i.dtype(0), Shape{i.unknown(0, 1, 0)});
    return;
  }
  std::optional<Shape> result = i.in(0).shape;
  if (result) {
    const int64_t rank = i.in(0).rank();
    const int64_t axis = i.axis_attribute("axis", 0, rank);
    (*result)[static_cast<size_t>(axis)] = i.unknown(0, rank, axis);
  }
  i.set(0, i.dtype(0), std::move(result));
}

void unique(Inference& i) {
  const Shape* input = i.shape(0);
  if (!i.has("axis")) {
    const Dim count = i.unknown(0, 1, 0);
    i.set(0, i.dtype(0), Shape{count});
    i.set(1, DType::i64, Shape{count});
    i.set(2, DType::i64, Shape{input ? numel(*input) : i.unknown(2, 1, 0)});
    i.set(3, DType::i64, Shape{count});
    return;
  }
  std::optional<Shape> result = i.in(0).shape;
  Dim count;
  Dim before;
  if (result) {
    const int64_t rank = i.in(0).rank();
    const int64_t axis = i.axis_attribute("axis", 0, rank);
    count = i.unknown(0, rank, axis);
    before = (*input)[static_cast<size_t>(axis)];
    (*result)[static_cast<size_t>(axis)] = count;
  } else {
    count = i.unknown(1, 1, 0);
    before = i.unknown(2, 1, 0);
  }
  i.set(0, i.dtype(0), std::move(result));
  i.set(1, DType::i64, Shape{count});
  i.set(2, DType::i64, Shape{before});
  i.set(3, DType::i64, Shape{count});
}

void top_k(Inference& i) {
  std::optional<Shape> result = i.in(0).shape;
  if (result) {
    const int64_t rank = i.in(0).rank();
    const int64_t axis = i.axis_attribute("axis", -1, rank);
    const auto* k = i.contents(1);
    (*result)[static_cast<size_t>(axis)] =
        k && k->size() == 1 ? k->front() : i.unknown(0, rank, axis);
  }
  i.set(0, i.dtype(0), result);
  i.set(1, DType::i64, std::move(result));
}

void non_max_suppression(Inference& i) { i.set(0, DType::i64, Shape{i.unknown(0, 2, 0), 3}); }

}  // namespace

void add_indexing_rules(Rules& rules) {
  rules["Compress"] = compress;
  rules["Gather"] = gather;
  rules["GatherElements"] = gather_elements;
  rules["GatherND"] = gather_nd;
  rules["NonMaxSuppression"] = non_max_suppression;
  rules["NonZero"] = non_zero;
  rules["OneHot"] = one_hot;
  rules["ReverseSequence"] = same_as_first;
  rules["Scatter"] = scatter;
  rules["ScatterElements"] = scatter;
  rules["ScatterND"] = scatter;
  rules["TensorScatter"] = tensor_scatter;
  rules["TopK"] = top_k;
  rules["Unique"] = unique;
}

}  // namespace onnx_native::onnx
