#include "readers/jit/pieces.h"

#include <algorithm>

namespace onnx_native::readers::jit {
namespace {

using aten::Argument;
using Column = OpenList::Column;
using Pieces = OpenList::Pieces;

const Dim& whole_size(const Column& column) {
  return column.values->type.shape.value()[static_cast<size_t>(column.pieces->axis)];
}

// Returns the length of each piece: i64[count].
aten::Value* lengths(Interpreter& run, const Column& column) {
  Recorder& recorder = run.recorder();
  aten::Value* index =
      run.record_tensor("aten::arange", {recorder.size(column.pieces->count), DType::i64});
  const Argument size = recorder.size(column.pieces->size);
  aten::Value* begin = run.record_tensor("aten::mul.Scalar", {index, size});
  aten::Value* left = run.record_tensor("aten::rsub.Scalar",
                                        {begin, recorder.size(whole_size(column)), int64_t{1}});
  return run.record_tensor("aten::clamp_max", {left, size});
}

// Returns the elements of all pieces, piece by piece, as a 1-D tensor.
aten::Value* pieces_in_order(Interpreter& run, const Column& column) {
  const Pieces& pieces = *column.pieces;
  const Argument::List flat{int64_t{-1}};
  if (pieces.axis == 0) return run.record_tensor("aten::reshape", {column.values, flat});
  Recorder& recorder = run.recorder();
  const Shape& shape = *column.values->type.shape;
  const auto rank = static_cast<int64_t>(shape.size());
  Argument::List pads(static_cast<size_t>(2 * (rank - pieces.axis)), Argument(int64_t{0}));
  pads.back() = recorder.size(pieces.count * pieces.size - whole_size(column));
  aten::Value* padded =
      run.record_tensor("aten::constant_pad_nd", {column.values, std::move(pads), int64_t{0}});
  Argument::List parts;
  for (int64_t axis = 0; axis < rank; ++axis) {
    if (axis == pieces.axis) parts.push_back(recorder.size(pieces.count));
    parts.push_back(
        recorder.size(axis == pieces.axis ? pieces.size : shape[static_cast<size_t>(axis)]));
  }
  aten::Value* split = run.record_tensor("aten::reshape", {padded, std::move(parts)});
  aten::Value* first = run.record_tensor("aten::movedim.int", {split, pieces.axis, int64_t{0}});
  aten::Value* place = run.record_tensor("aten::arange", {recorder.size(pieces.size), DType::i64});
  aten::Value* limit = run.record_tensor("aten::unsqueeze", {lengths(run, column), int64_t{1}});
  aten::Value* inside = run.record_tensor("aten::lt.Tensor", {place, limit});
  Argument::List mask(static_cast<size_t>(rank + 1), Argument(int64_t{1}));
  mask[0] = recorder.size(pieces.count);
  mask[static_cast<size_t>(pieces.axis + 1)] = recorder.size(pieces.size);
  return run.record_tensor("aten::masked_select",
                           {first, run.record_tensor("aten::reshape", {inside, std::move(mask)})});
}

// Converts an index to a position counted from the start.
Dim position(Interpreter& run, const Item& index, const Dim& count) {
  const auto* at = index.get<Dim>();
  if (!at) run.unsupported("cannot use " + describe(index) + " as an index");
  if (const auto known = at->constant()) return *known < 0 ? *at + count : *at;
  return at->known_non_negative() ? *at : Dim::mod(*at, count);
}

}  // namespace

Item piece_at(Interpreter& run, const Column& column, const Item& index) {
  const Pieces& pieces = *column.pieces;
  const Dim begin = position(run, index, pieces.count) * pieces.size;
  Recorder& recorder = run.recorder();
  return run.record_one("aten::slice.Tensor", {column.values, pieces.axis, recorder.size(begin),
                                               recorder.size(begin + pieces.size), int64_t{1}});
}

Column pieces_between(Interpreter& run, const Column& column, const Item& begin, const Item& end) {
  Column result = column;
  Pieces& pieces = *result.pieces;
  const auto limit = [&](const Item& item, const Dim& otherwise) {
    if (item.is_none()) return otherwise;
    const Dim at = position(run, item, pieces.count);
    return Dim::min(Dim::max(0, at), pieces.count);
  };
  const Dim from = limit(begin, 0);
  const Dim to = Dim::max(from, limit(end, pieces.count));
  Recorder& recorder = run.recorder();
  result.values = run.record_tensor("aten::slice.Tensor",
                                    {column.values, pieces.axis, recorder.size(from * pieces.size),
                                     recorder.size(to * pieces.size), int64_t{1}});
  pieces.count = to - from;
  return result;
}

Column copied_pieces(Interpreter& run, const Column& column) {
  const Pieces& pieces = *column.pieces;
  const Shape& shape = *column.values->type.shape;
  Column result = column;
  result.pieces.reset();
  result.ragged = true;
  result.values = pieces_in_order(run, column);
  run.recorder().hold({result.values}, {column.values});
  Recorder& recorder = run.recorder();
  Argument::List sizes;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    sizes.emplace_back(
        static_cast<int64_t>(axis) == pieces.axis
            ? lengths(run, column)
            : run.record_tensor("aten::full", {Argument::List{recorder.size(pieces.count)},
                                               recorder.size(shape[axis]), DType::i64}));
  }
  result.sizes = run.record_tensor("aten::stack", {std::move(sizes), int64_t{1}});
  return result;
}

aten::Value* stacked_pieces(Interpreter& run, const Column& column) {
  const Pieces& pieces = *column.pieces;
  Recorder& recorder = run.recorder();
  const Shape& shape = *column.values->type.shape;
  Argument::List sizes;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const bool here = static_cast<int64_t>(axis) == pieces.axis;
    if (here) sizes.push_back(recorder.size(pieces.count));
    // A single piece may be shorter than `size`.
    sizes.push_back(recorder.size(here ? Dim::min(pieces.size, shape[axis]) : shape[axis]));
  }
  aten::Value* parts = run.record_tensor("aten::reshape", {column.values, std::move(sizes)});
  if (pieces.axis != 0)
    parts = run.record_tensor("aten::movedim.int", {parts, pieces.axis, int64_t{0}});
  return run.record_tensor("aten::clone", {parts});
}

}  // namespace onnx_native::readers::jit
