// Operators on lists of data-dependent length.
#include <algorithm>

#include "readers/jit/open_list.h"

namespace onnx_native::readers::jit {
namespace {

// Returns the first input if it is an open list, else nullptr.
const OpenList* open_list(const Call& call) {
  if (call.size() == 0 || !call.input(0).container()) return nullptr;
  const ContainerPtr list = readable_list(call, 0);
  return list ? list->contents.open.get() : nullptr;
}

std::optional<Items> stack(const Call& call) {
  const OpenList* list = open_list(call);
  if (!list) return std::nullopt;
  const int64_t dim = call.input(1).integer().value_or(0);
  aten::Value* values = stacked(call.run, *list);
  if (dim == 0) return one(Item::Tensor{values});
  return one(call.run.record_one("aten::movedim.int", {values, int64_t{0}, dim}));
}

std::optional<Items> concatenate(const Call& call) {
  const OpenList* list = open_list(call);
  if (!list) return std::nullopt;
  const int64_t dim = call.input(1).integer().value_or(0);
  return one(Item::Tensor{concatenated(call.run, *list, dim)});
}

std::optional<Items> unbind(const Call& call) {
  aten::Value* self = call.input(0).tensor();
  const auto dim = call.size() > 1 ? call.input(1).integer() : std::optional<int64_t>(0);
  if (!self || !self->type.shape || !dim) return std::nullopt;
  const auto rank = static_cast<int64_t>(self->type.shape->size());
  const int64_t axis = *dim < 0 ? *dim + rank : *dim;
  if (axis < 0 || axis >= rank || (*self->type.shape)[static_cast<size_t>(axis)].is_constant())
    return std::nullopt;
  Item moved = call.input(0);
  if (axis != 0) moved = call.run.record_one("aten::movedim.int", {self, axis, int64_t{0}});
  aten::Type type = self->type;
  type.shape->erase(type.shape->begin() + axis);
  ContainerPtr result = make_container(Container::Kind::list, {}, call.output_type());
  OpenList list{.element = {}, .columns = {{.type = type, .values = moved.tensor()}}};
  result->contents.open = std::make_shared<const OpenList>(std::move(list));
  return one(result);
}

// Splits a tensor along an axis into a data-dependent number of pieces. `piece` returns the size of
// a piece and the number of pieces of an empty axis.
template <class Piece>
std::optional<Items> pieces(const Call& call, Piece piece) {
  aten::Value* self = call.input(0).tensor();
  const auto* number = call.input(1).get<Dim>();
  const auto dim = call.input(2).integer();
  if (!self || !self->type.shape || !number || !dim) return std::nullopt;
  if (number->constant().value_or(1) <= 0) return std::nullopt;  // PyTorch rejects most of them
  const auto rank = static_cast<int64_t>(self->type.shape->size());
  const int64_t axis = *dim < 0 ? *dim + rank : *dim;
  if (axis < 0 || axis >= rank) return std::nullopt;
  const Dim& whole = (*self->type.shape)[static_cast<size_t>(axis)];
  const auto [size, of_nothing] = piece(whole, *number);
  if (Dim::ceil_div(whole, size).is_constant()) return std::nullopt;
  const Dim some = Dim::max(1, size);
  // An empty axis yields empty pieces.
  const Dim filled = Dim::ceil_div(whole, some);
  const Dim count =
      of_nothing.equals(1) ? Dim::max(1, filled) : filled + (1 - Dim::min(1, whole)) * of_nothing;
  aten::Type type = self->type;
  (*type.shape)[static_cast<size_t>(axis)] = Dim::fresh();
  OpenList list{.element = {}, .columns = {{.type = type, .values = self}}};
  list.columns[0].pieces = {.axis = axis, .size = size.is_constant() ? size : some, .count = count};
  ContainerPtr result = make_container(Container::Kind::list, {}, call.output_type());
  result->contents.open = std::make_shared<const OpenList>(std::move(list));
  return one(result);
}

std::optional<Items> split(const Call& call) {
  return pieces(call, [](const Dim&, const Dim& size) { return std::pair(size, Dim(1)); });
}

std::optional<Items> chunk(const Call& call) {
  return pieces(call, [](const Dim& whole, const Dim& count) {
    return std::pair(Dim::ceil_div(whole, count), count);
  });
}

}  // namespace

void add_open_list_handlers(Handlers& handlers) {
  handlers["aten::stack"].push_back(stack);
  handlers["aten::cat"].push_back(concatenate);
  handlers["aten::unbind"].push_back(unbind);
  for (const std::string_view name : {"aten::split", "aten::unsafe_split"})
    handlers[name].push_back(split);
  for (const std::string_view name : {"aten::chunk", "aten::unsafe_chunk"})
    handlers[name].push_back(chunk);
}

}  // namespace onnx_native::readers::jit
