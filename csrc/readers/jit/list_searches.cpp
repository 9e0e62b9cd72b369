// Operators that search, sort or reduce the elements of a list. A list whose length or elements are
// data-dependent becomes a tensor.
#include <algorithm>

#include "readers/jit/item_types.h"
#include "readers/jit/open_list.h"

namespace onnx_native::readers::jit {
namespace {

using aten::Argument;

// The elements of a list on axis 0 of a tensor.
struct Table {
  OpenListPtr list;
  std::optional<int64_t> length;  // nullopt if the model computes it
  const OpenList::Column& column() const { return list->columns[0]; }
};

bool is_element(const Item& item) {
  return item.tensor() || type_of(item).kind != aten::Type::Kind::unknown;
}

// Returns nullopt if the first input is not a list of numbers or tensors, or if all inputs are
// constants.
std::optional<Table> table_of(const Call& call) {
  if (call.size() == 0 || !call.input(0).container()) return std::nullopt;
  if (std::ranges::all_of(call.inputs, is_known)) return std::nullopt;
  const ContainerPtr list = readable_list(call, 0);
  if (!list) return std::nullopt;
  if (list->contents.open) {
    only_column(call.run, *list->contents.open);
    return Table{list->contents.open, std::nullopt};
  }
  if (list->items().empty() || !std::ranges::all_of(list->items(), is_element)) return std::nullopt;
  const auto format = common_format(call.run, list->contents, {});
  return Table{opened(call.run, list->contents, *format),
               static_cast<int64_t>(list->items().size())};
}

Item item_of(const Call& call, aten::Value* tensor) {
  return call.run.record_number("aten::item", {tensor});
}

aten::Value* flat_values(const Call& call, aten::Value* tensor) {
  return call.run.record_tensor("aten::reshape", {tensor, Argument::List{int64_t{-1}}});
}

// Returns the elements as a 1-D tensor. Python compares only tensors with one element.
aten::Value* scalars(const Call& call, const Table& table) {
  const OpenList::Column& column = table.column();
  if (!column.type.is_tensor()) return column.values;
  if (column.ragged || column.pieces || !numel(column.type.shape.value()).equals(1))
    call.run.unsupported(
        "cannot compare the tensors of a list; each must have one element and the same rank");
  return flat_values(call, column.values);
}

// Returns 1 for each element that equals the second input, else 0.
aten::Value* matches(const Call& call, const Table& table) {
  aten::Value* elements = scalars(call, table);
  const Item& wanted = call.input(1);
  aten::Value* same = nullptr;
  if (wanted.tensor()) {
    if (!wanted.tensor()->type.shape || !numel(*wanted.tensor()->type.shape).equals(1))
      call.run.unsupported("cannot search a list for a tensor without exactly one element");
    same =
        call.run.record_tensor("aten::eq.Tensor", {elements, flat_values(call, wanted.tensor())});
  } else {
    same = call.run.record_tensor("aten::eq.Scalar", {elements, call.run.argument(wanted)});
  }
  return call.run.record_tensor("aten::to.dtype", {same, DType::i64});
}

// Returns the list with the elements at these positions.
Container::Contents selected(const Call& call, const Table& table, aten::Value* positions,
                             std::optional<int64_t> length) {
  OpenList result = *table.list;
  OpenList::Column& column = result.columns[0];
  aten::Value* before = column.values;
  column.values = call.run.record_tensor("aten::index_select", {before, int64_t{0}, positions});
  if (column.type.is_tensor()) call.run.recorder().hold({column.values}, {before});
  Container::Contents contents;
  if (!length) {
    contents.open = std::make_shared<const OpenList>(std::move(result));
    return contents;
  }
  for (int64_t i = 0; i < *length; ++i) contents.items.push_back(element(call.run, result, Dim(i)));
  return contents;
}

// --- Searching

std::optional<Items> open_list_contains(const Call& call) {
  const auto list = table_of(call);
  if (!list) return std::nullopt;
  aten::Value* any = call.run.record_tensor("aten::any", {matches(call, *list)});
  return one(item_of(call, any));
}

std::optional<Items> count_matches(const Call& call) {
  const auto list = table_of(call);
  if (!list) return std::nullopt;
  return one(item_of(call, call.run.record_tensor("aten::sum", {matches(call, *list)})));
}

// The program assumes that the list has the element.
std::optional<Items> index(const Call& call) {
  const auto list = table_of(call);
  if (!list) return std::nullopt;
  return one(item_of(call, call.run.record_tensor("aten::argmax", {matches(call, *list)})));
}

std::optional<Items> remove(const Call& call) {
  const auto list = table_of(call);
  if (!list) return std::nullopt;
  const Item at = index(call)->front();
  const ContainerPtr& changed = *call.input(0).get<ContainerPtr>();
  Container::Contents contents;
  if (list->length) {
    const int64_t left = *list->length - 1;
    aten::Value* position = call.run.record_tensor("aten::arange", {left, DType::i64});
    aten::Value* later =
        call.run.record_tensor("aten::ge.Scalar", {position, call.run.argument(at)});
    contents =
        selected(call, *list,
                 call.run.record_tensor("aten::add.Tensor", {position, later, int64_t{1}}), left);
  } else {
    contents = spliced(call.run, *list->list, at, 1, {});
  }
  call.run.change(changed) = std::move(contents);
  return Items();
}

// --- Sorting

std::optional<Container::Contents> sorted_contents(const Call& call) {
  const auto list = table_of(call);
  if (!list) return std::nullopt;
  const std::optional<bool> descending =
      call.size() > 1 ? call.input(1).boolean() : std::optional(false);
  if (!descending) call.run.unsupported("the order of a sort must be a constant");
  const Items sorted =
      call.run.record("aten::sort", {scalars(call, *list), int64_t{0}, *descending});
  return selected(call, *list, sorted.at(1).tensor(), list->length);
}

std::optional<Items> sort(const Call& call) {
  std::optional<Container::Contents> contents = sorted_contents(call);
  if (!contents) return std::nullopt;
  call.run.change(*call.input(0).get<ContainerPtr>()) = std::move(*contents);
  return Items();
}

std::optional<Items> sorted(const Call& call) {
  std::optional<Container::Contents> contents = sorted_contents(call);
  if (!contents) return std::nullopt;
  ContainerPtr result = make_container(Container::Kind::list, {}, call.output_type());
  result->contents = std::move(*contents);
  return one(result);
}

// --- Reductions to one number

std::optional<Items> reduce(const Call& call, const char* op, const char* of_bools) {
  if (call.size() != 1) return std::nullopt;
  const auto list = table_of(call);
  if (!list || list->column().type.is_tensor()) return std::nullopt;
  const bool is_bool = list->column().values->type.dtype == DType::boolean;
  return one(
      item_of(call, call.run.record_tensor(is_bool ? of_bools : op, {list->column().values})));
}

std::optional<Items> sum_of_elements(const Call& call) {
  return reduce(call, "aten::sum", "aten::sum");
}
std::optional<Items> largest_element(const Call& call) {
  return reduce(call, "aten::max", "aten::any");
}
std::optional<Items> smallest_element(const Call& call) {
  return reduce(call, "aten::min", "aten::all");
}
std::optional<Items> any(const Call& call) { return reduce(call, "aten::any", "aten::any"); }
std::optional<Items> all(const Call& call) { return reduce(call, "aten::all", "aten::all"); }

}  // namespace

void add_list_search_handlers(Handlers& handlers) {
  handlers["aten::__contains__"].push_back(open_list_contains);
  handlers["aten::count"].push_back(count_matches);
  handlers["aten::index"].push_back(index);
  handlers["aten::remove"].push_back(remove);
  handlers["aten::sort"].push_back(sort);
  handlers["aten::sorted"].push_back(sorted);
  handlers["aten::sum"].push_back(sum_of_elements);
  handlers["prim::max"].push_back(largest_element);
  handlers["prim::min"].push_back(smallest_element);
  handlers["aten::any"].push_back(any);
  handlers["aten::all"].push_back(all);
}

}  // namespace onnx_native::readers::jit
