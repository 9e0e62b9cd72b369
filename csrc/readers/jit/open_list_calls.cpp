// Operators of lists whose length the model computes.
#include <algorithm>

#include "aten/torch_types.h"
#include "readers/jit/open_list.h"

namespace onnx_native::readers::jit {
namespace {

using aten::Argument;
using Kind = aten::Type::Kind;

// The open list that the first input is.
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
  ContainerPtr result = make_container(Container::Kind::list, {}, call.node.output()->type());
  OpenList list{.element = {}, .columns = {{.type = type, .values = moved.tensor()}}};
  result->contents.open = std::make_shared<const OpenList>(std::move(list));
  return one(result);
}

// torch.tensor of numbers.
std::optional<Items> tensor(const Call& call) {
  const OpenList* list = open_list(call);
  if (!list) return std::nullopt;
  const OpenList::Column& numbers = only_column(call.run, *list);
  if (numbers.type.is_tensor())
    call.run.unsupported("torch.tensor of a list of tensors: torch.stack joins them");
  DType dtype = numbers.values->type.dtype;
  if (dtype == DType::f64) dtype = DType::f32;
  if (const auto given = call.size() > 1 ? call.input(1).integer() : std::nullopt) {
    const std::optional<DType> wanted = aten::to_dtype(static_cast<c10::ScalarType>(*given));
    if (!wanted) call.run.unsupported("an element type that ONNX does not have");
    dtype = *wanted;
  }
  return one(call.run.record_one("aten::to.dtype", {numbers.values, dtype}));
}

// A number from all numbers of a list.
std::optional<Items> reduce(const Call& call, const char* op) {
  const OpenList* list = open_list(call);
  if (!list || call.size() != 1) return std::nullopt;
  const OpenList::Column& numbers = only_column(call.run, *list);
  if (numbers.type.is_tensor()) return std::nullopt;
  return one(
      call.run.record_number("aten::item", {call.run.record_one(op, {numbers.values}).tensor()}));
}

std::optional<Items> sum(const Call& call) { return reduce(call, "aten::sum"); }
std::optional<Items> largest(const Call& call) { return reduce(call, "aten::max"); }
std::optional<Items> smallest(const Call& call) { return reduce(call, "aten::min"); }

std::optional<Items> contains(const Call& call) {
  const OpenList* list = open_list(call);
  if (!list) return std::nullopt;
  const OpenList::Column& numbers = only_column(call.run, *list);
  if (numbers.type.is_tensor()) return std::nullopt;
  aten::Value* same =
      call.run.record_one("aten::eq.Scalar", {numbers.values, call.run.argument(call.input(1))})
          .tensor();
  return one(
      call.run.record_number("aten::item", {call.run.record_one("aten::any", {same}).tensor()}));
}

}  // namespace

void add_open_list_handlers(Handlers& handlers) {
  handlers["aten::stack"].push_back(stack);
  handlers["aten::cat"].push_back(concatenate);
  handlers["aten::unbind"].push_back(unbind);
  handlers["aten::tensor"].push_back(tensor);
  handlers["aten::sum"].push_back(sum);
  handlers["prim::max"].push_back(largest);
  handlers["prim::min"].push_back(smallest);
  handlers["aten::__contains__"].push_back(contains);
}

}  // namespace onnx_native::readers::jit
