#include "readers/jit/open_list.h"

#include <algorithm>

#include "readers/jit/item_types.h"
#include "readers/jit/pieces.h"

namespace onnx_native::readers::jit {
namespace {

using aten::Argument;
using aten::Type;
using Column = OpenList::Column;

DType leaf_dtype(const Type& type) {
  switch (type.kind) {
    case Type::Kind::sym_int:
      return DType::i64;
    case Type::Kind::sym_float:
      return DType::f64;
    case Type::Kind::sym_bool:
      return DType::boolean;
    default:
      return type.dtype;
  }
}

Shape shape_of(const Type& type) { return type.is_tensor() ? type.shape.value() : Shape(); }

aten::Value* join(Interpreter& run, aten::Value* a, aten::Value* b) {
  return run.record_tensor("aten::cat", {Argument::List{a, b}, int64_t{0}});
}

// Converts a leaf of an element to a tensor.
aten::Value* leaf_tensor(Interpreter& run, const Item& leaf, const Type& type) {
  if (leaf.tensor()) return leaf.tensor();
  Argument value = leaf.is_uninitialized() ? filler(run, type) : run.argument(leaf);
  if (aten::Value* made = value.as_value(); made && made->type.is_tensor()) return made;
  return run.record_tensor("aten::scalar_tensor", {std::move(value), leaf_dtype(type)});
}

aten::Value* flat(Interpreter& run, aten::Value* values) {
  return run.record_tensor("aten::reshape", {values, Argument::List{int64_t{-1}}});
}

// Returns the sizes of one element: i64[1, rank].
aten::Value* size_row(Interpreter& run, const Shape& shape) {
  Argument::List row;
  for (const Dim& dim : shape)
    row.emplace_back(
        run.record_tensor("aten::scalar_tensor", {run.recorder().size(dim), DType::i64}));
  aten::Value* sizes = run.record_tensor("aten::stack", {std::move(row), int64_t{0}});
  return run.record_tensor("aten::unsqueeze", {sizes, int64_t{0}});
}

// Widens the column to hold elements of this type.
void add_type(Interpreter& run, Column& column, const Type& type) {
  std::vector<bool> renamed;
  column.type = joined(run.recorder(), column.type, type, &renamed);
  if (!column.type.is_tensor()) return;
  if (!column.type.shape)
    run.unsupported(
        "the tensors in a list of unknown length have different or unknown ranks; give them the "
        "same rank");
  column.ragged = column.ragged || std::ranges::count(renamed, true) > 0;
}

Column to_ragged(Interpreter& run, const Column& column) {
  if (column.pieces) return copied_pieces(run, column);
  if (column.ragged) return column;
  Column result = column;
  result.ragged = true;
  const Shape shape = shape_of(column.type);
  result.values = flat(run, column.values);
  run.recorder().hold({result.values}, {column.values});
  result.sizes = run.record_tensor(
      "aten::expand", {size_row(run, shape),
                       Argument::List{run.recorder().size(column.values->type.shape.value()[0]),
                                      static_cast<int64_t>(shape.size())}});
  return result;
}

// Builds a column from one leaf of each element.
Column column_of_leaves(Interpreter& run, const Items& leaves, Column format) {
  for (const Item& leaf : leaves) {
    if (leaf.tensor()) add_type(run, format, leaf.tensor()->type);
  }
  const Shape shape = shape_of(format.type);
  if (leaves.empty()) {
    Type none = Type::tensor(leaf_dtype(format.type), format.ragged ? Shape{0} : shape);
    if (!format.ragged) none.shape->insert(none.shape->begin(), Dim(0));
    format.values = filler(run, none).as_value();
    const Shape no_rows{0, static_cast<int64_t>(shape.size())};
    if (format.ragged) format.sizes = filler(run, Type::tensor(DType::i64, no_rows)).as_value();
    return format;
  }
  Argument::List values, sizes;
  for (const Item& leaf : leaves) {
    aten::Value* value = leaf_tensor(run, leaf, format.type);
    values.emplace_back(format.ragged ? flat(run, value) : value);
    if (format.ragged) sizes.emplace_back(size_row(run, value->type.shape.value()));
  }
  format.values =
      run.record_tensor(format.ragged ? "aten::cat" : "aten::stack", {values, int64_t{0}});
  if (format.ragged) format.sizes = run.record_tensor("aten::cat", {std::move(sizes), int64_t{0}});
  std::vector<aten::Value*> originals;
  for (const Item& leaf : leaves) {
    if (leaf.tensor()) originals.push_back(leaf.tensor());
  }
  if (!originals.empty()) run.recorder().hold({format.values}, originals);
  return format;
}

Column joined_column(Interpreter& run, Column a, Column b) {
  if (!a.ragged && !b.ragged && shape_of(a.type) != shape_of(b.type)) a = to_ragged(run, a);
  if (a.ragged != b.ragged) (a.ragged ? b : a) = to_ragged(run, a.ragged ? b : a);
  aten::Value* both = join(run, a.values, b.values);
  run.recorder().hold({both}, {a.values, b.values});
  a.values = both;
  if (a.ragged) a.sizes = join(run, a.sizes, b.sizes);
  return a;
}

// Returns the number of values in each element: i64[length].
aten::Value* counts(Interpreter& run, const Column& column) {
  return run.record_tensor("aten::prod.dim_int", {column.sizes, int64_t{1}});
}

Item element_of_tensor(Interpreter& run, aten::Value* tensor) {
  return run.record_number("aten::item", {tensor});
}

Item number_at(Interpreter& run, aten::Value* tensor, const Argument& index) {
  return element_of_tensor(run, run.record_tensor("aten::select.int", {tensor, int64_t{0}, index}));
}

// Returns the sizes of an element; reads only those that are not already known.
Argument::List sizes_at(Interpreter& run, const Column& column, const Argument& index) {
  aten::Value* row = run.record_tensor("aten::select.int", {column.sizes, int64_t{0}, index});
  Argument::List sizes;
  for (const Dim& dim : shape_of(column.type)) {
    const auto axis = static_cast<int64_t>(sizes.size());
    sizes.push_back(run.recorder().knows(dim) ? run.recorder().size(dim)
                                              : run.argument(number_at(run, row, Argument(axis))));
  }
  return sizes;
}

Item ragged_at(Interpreter& run, const Column& column, const Argument& index) {
  aten::Value* each = counts(run, column);
  aten::Value* ends = run.record_tensor("aten::cumsum", {each, int64_t{0}});
  const Item end = number_at(run, ends, index);
  const Dim begin = *end.get<Dim>() - *number_at(run, each, index).get<Dim>();
  aten::Value* values = run.record_tensor(
      "aten::slice.Tensor",
      {column.values, int64_t{0}, run.recorder().size(begin), run.argument(end), int64_t{1}});
  Item element = run.record_one("aten::view", {values, sizes_at(run, column, index)});
  run.recorder().layouts().forget(element.tensor());
  return element;
}

Item value_at(Interpreter& run, const Column& column, const Item& item) {
  if (column.pieces) return piece_at(run, column, item);
  const Argument index = run.argument(item);
  if (column.ragged) return ragged_at(run, column, index);
  aten::Value* value = run.record_tensor("aten::select.int", {column.values, int64_t{0}, index});
  if (!column.type.is_tensor()) return element_of_tensor(run, value);
  run.recorder().layouts().forget(value);  // the program's element may have other strides
  return Item::Tensor{value};
}

Items elements_of(const Container::Contents& list, const OpenList& format) {
  Items leaves;
  for (const Item& item : list.items) flatten_like(format.element, item, leaves);
  return leaves;
}

// Returns one leaf of each element; `step` is the number of leaves per element.
Items every(const Items& leaves, size_t first, size_t step) {
  Items result;
  for (size_t i = first; i < leaves.size(); i += step) result.push_back(leaves[i]);
  return result;
}

std::optional<OpenList> format_of(Interpreter& run, const Container::Contents& list) {
  if (list.open) {
    OpenList format = *list.open;
    for (Column& column : format.columns) {
      column.values = column.sizes = nullptr;
      column.ragged = column.ragged || column.pieces;
      column.pieces.reset();
      add_type(run, column, column.type);
    }
    return format;
  }
  if (list.items.empty()) return std::nullopt;
  OpenList format{.element = list.items[0]};
  for (const Item& item : list.items) widen(format.element, item);
  Items places;
  flatten(format.element, places);
  const Items leaves = elements_of(list, format);
  if (places.empty() || leaves.size() != places.size() * list.items.size())
    run.unsupported("the elements of a list of unknown length must have the same structure");
  for (size_t i = 0; i < places.size(); ++i) {
    Column column;
    for (const Item& leaf : every(leaves, i, places.size())) {
      if (leaf.is_uninitialized()) continue;
      const Type type = type_of(leaf);
      if (type.kind == Type::Kind::unknown)
        run.unsupported("a list of unknown length cannot contain " + describe(leaf));
      if (column.type.kind == Type::Kind::unknown) column.type = type;
      add_type(run, column, type);
    }
    format.columns.push_back(std::move(column));
  }
  std::ranges::fill(places, Item());
  size_t next = 0;
  format.element = rebuilt(format.element, places, next);
  return format;
}

}  // namespace

std::optional<OpenList> common_format(Interpreter& run, const Container::Contents& a,
                                      const Container::Contents& b) {
  std::optional<OpenList> format = format_of(run, a), other = format_of(run, b);
  if (!format || !other) return format ? format : other;
  if (format->columns.size() != other->columns.size())
    run.unsupported("the elements of a list of unknown length must have the same structure");
  for (size_t i = 0; i < format->columns.size(); ++i) {
    format->columns[i].ragged = format->columns[i].ragged || other->columns[i].ragged;
    add_type(run, format->columns[i], other->columns[i].type);
  }
  return format;
}

OpenListPtr opened(Interpreter& run, const Container::Contents& list, const OpenList& format) {
  OpenList result = list.open ? *list.open : format;
  if (list.open) {
    for (size_t i = 0; i < result.columns.size(); ++i) {
      if (format.columns.at(i).ragged) result.columns[i] = to_ragged(run, result.columns[i]);
      result.columns[i].type = format.columns[i].type;
    }
  } else {
    const Items leaves = elements_of(list, format);
    const size_t width = format.columns.size();
    if (leaves.size() != width * list.items.size())
      run.unsupported("the elements of a list of unknown length must have the same structure");
    for (size_t i = 0; i < width; ++i)
      result.columns[i] = column_of_leaves(run, every(leaves, i, width), format.columns[i]);
  }
  return std::make_shared<const OpenList>(std::move(result));
}

std::vector<aten::Value*> row(Interpreter& run, const OpenList& format, const Item& element) {
  Items leaves;
  flatten_like(format.element, element, leaves);
  std::vector<aten::Value*> values;
  for (size_t i = 0; i < leaves.size(); ++i)
    values.push_back(leaf_tensor(run, leaves[i], format.columns.at(i).type));
  return values;
}

bool same_columns(const OpenList& a, const OpenList& b) {
  return std::ranges::equal(a.columns, b.columns, std::equal_to(), &Column::ragged,
                            &Column::ragged);
}

Dim length(const OpenList& list) {
  const Column& column = list.columns.at(0);
  if (column.pieces) return column.pieces->count;
  return (column.ragged ? column.sizes : column.values)->type.shape.value()[0];
}

Item element(Interpreter& run, const OpenList& list, const Item& index) {
  Items leaves;
  for (const Column& column : list.columns) leaves.push_back(value_at(run, column, index));
  size_t next = 0;
  return rebuilt(list.element, leaves, next);
}

OpenListPtr sliced(Interpreter& run, const OpenList& list, const Item& begin, const Item& end,
                   int64_t step) {
  const auto limit = [&](const Item& item) {
    return item.is_none() ? Argument() : run.argument(item);
  };
  const auto part = [&](aten::Value* rows, Argument from, Argument to) {
    return run.record_tensor("aten::slice.Tensor",
                             {rows, int64_t{0}, std::move(from), std::move(to), step});
  };
  const auto total = [&](aten::Value* numbers) {
    return *element_of_tensor(run, run.record_tensor("aten::sum", {numbers})).get<Dim>();
  };
  OpenList result = list;
  for (Column& column : result.columns) {
    if (column.pieces && step == 1) {
      column = pieces_between(run, column, begin, end);
      continue;
    }
    column = column.pieces ? copied_pieces(run, column) : column;
    if (!column.ragged) {
      column.values = part(column.values, limit(begin), limit(end));
      continue;
    }
    if (step != 1)
      run.unsupported("cannot slice a list of tensors of different sizes with a step other than 1");
    aten::Value* each = counts(run, column);
    const Dim before = begin.is_none() ? Dim(0) : total(part(each, {}, limit(begin)));
    const Dim taken = total(part(each, limit(begin), limit(end)));
    column.values =
        part(column.values, run.recorder().size(before), run.recorder().size(before + taken));
    column.sizes = part(column.sizes, limit(begin), limit(end));
  }
  return std::make_shared<const OpenList>(std::move(result));
}

OpenListPtr reversed(Interpreter& run, const OpenList& list) {
  OpenList result = list;
  for (Column& column : result.columns) {
    if (column.ragged || column.pieces)
      run.unsupported("cannot reverse a list of tensors of different sizes");
    aten::Value* before = column.values;
    column.values = run.record_tensor("aten::flip", {before, Argument::List{int64_t{0}}});
    run.recorder().hold({column.values}, {before});
  }
  return std::make_shared<const OpenList>(std::move(result));
}

Container::Contents joined(Interpreter& run, const Container::Contents& a,
                           const Container::Contents& b) {
  if (!a.open && a.items.empty()) return b;
  if (!b.open && b.items.empty()) return a;
  const std::optional<OpenList> format = common_format(run, a, b);
  const OpenListPtr first = opened(run, a, *format), second = opened(run, b, *format);
  OpenList result = *first;
  for (size_t i = 0; i < result.columns.size(); ++i)
    result.columns[i] = joined_column(run, first->columns[i], second->columns[i]);
  return {.keys = {}, .items = {}, .open = std::make_shared<const OpenList>(std::move(result))};
}

const Column& only_column(Interpreter& run, const OpenList& list) {
  if (list.columns.size() != 1 || !list.element.is_uninitialized())
    run.unsupported("cannot use a list of tuples or lists as a list of tensors or numbers");
  return list.columns[0];
}

namespace {

// Returns the column or columns of an element, from `next` on, with a row for each element.
aten::Value* rows_of(Interpreter& run, const OpenList& list, const Item& element, size_t& next) {
  if (const Container* inner = element.container()) {
    Argument::List parts;
    for (const Item& item : inner->items()) parts.emplace_back(rows_of(run, list, item, next));
    return run.record_tensor("aten::stack", {std::move(parts), int64_t{1}});
  }
  const Column& column = list.columns.at(next++);
  if (column.type.is_tensor())
    run.unsupported("cannot export torch.tensor of a list of tensors; use torch.stack");
  return column.values;
}

}  // namespace

aten::Value* table(Interpreter& run, const OpenList& list) {
  size_t next = 0;
  return rows_of(run, list, list.element, next);
}

aten::Value* stacked(Interpreter& run, const OpenList& list) {
  const Column& column = only_column(run, list);
  if (column.pieces) return stacked_pieces(run, column);
  if (!column.ragged) return run.record_tensor("aten::clone", {column.values});
  Argument::List sizes = sizes_at(run, column, int64_t{0});
  sizes.insert(sizes.begin(), run.recorder().size(length(list)));
  return run.record_tensor("aten::clone",
                           {run.record_tensor("aten::view", {column.values, std::move(sizes)})});
}

aten::Value* concatenated(Interpreter& run, const OpenList& list, int64_t dim) {
  const Column& column = only_column(run, list);
  const auto rank = static_cast<int64_t>(shape_of(column.type).size());
  const int64_t axis = dim < 0 ? dim + rank : dim;
  if (axis < 0 || axis >= rank)
    fail(ErrorKind::invalid_program, "axis ", dim, " is out of range for tensors of rank ", rank);
  if (column.pieces) {
    if (column.pieces->axis == axis) return run.record_tensor("aten::clone", {column.values});
    OpenList copies = list;
    copies.columns[0] = copied_pieces(run, column);
    return concatenated(run, copies, dim);
  }
  if (!column.ragged) {
    aten::Value* moved = column.values;
    if (axis != 0) moved = run.record_tensor("aten::movedim.int", {moved, int64_t{0}, axis});
    return run.record_tensor(
        "aten::clone", {run.record_tensor("aten::flatten.using_ints", {moved, axis, axis + 1})});
  }
  if (axis != 0)
    run.unsupported("cannot concatenate tensors of different sizes along an axis other than 0");
  Argument::List sizes = sizes_at(run, column, int64_t{0});
  sizes[0] = int64_t{-1};
  return run.record_tensor("aten::clone",
                           {run.record_tensor("aten::view", {column.values, std::move(sizes)})});
}

Container::Contents spliced(Interpreter& run, const OpenList& list, const Item& begin,
                            int64_t count, Items items) {
  const auto* given = begin.get<Dim>();
  if (!given) run.unsupported("cannot change a list at an index that is " + describe(begin));
  // aten::slice handles a constant negative index itself.
  Dim at = *given;
  if (!at.is_constant() && !at.known_non_negative()) at = Dim::mod(at, length(list));
  const bool to_end = at.constant() && *at.constant() < 0 && *at.constant() + count >= 0;
  Container::Contents result{
      .keys = {}, .items = {}, .open = sliced(run, list, Item::none(), at, 1)};
  if (!items.empty()) result = joined(run, result, {.keys = {}, .items = std::move(items)});
  if (to_end && count > 0) return result;
  return joined(run, result,
                {.keys = {}, .items = {}, .open = sliced(run, list, at + count, Item::none(), 1)});
}

OpenListPtr repeated(Interpreter& run, const OpenList& list, const Dim& times) {
  const Argument count = run.recorder().size(Dim::max(0, times));
  const auto repeat = [&](aten::Value* rows) {
    Argument::List factors(rows->type.shape.value().size(), Argument(int64_t{1}));
    factors[0] = count;
    return run.record_tensor("aten::repeat", {rows, std::move(factors)});
  };
  OpenList result = list;
  for (Column& column : result.columns) {
    if (column.pieces) column = copied_pieces(run, column);
    aten::Value* before = column.values;
    column.values = repeat(before);
    run.recorder().hold({column.values}, {before}, true);
    if (column.ragged) column.sizes = repeat(column.sizes);
  }
  return std::make_shared<const OpenList>(std::move(result));
}

void columns_of(const OpenList& list, Items& leaves) {
  for (const Column& column : list.columns) {
    leaves.emplace_back(Item::Tensor{column.values});
    if (column.ragged) leaves.emplace_back(Item::Tensor{column.sizes});
  }
}

OpenListPtr with_columns(const OpenList& list, const Items& leaves, size_t& next) {
  OpenList result = list;
  for (Column& column : result.columns) {
    column.values = leaves.at(next++).tensor();
    if (column.ragged) column.sizes = leaves.at(next++).tensor();
  }
  return std::make_shared<const OpenList>(std::move(result));
}

}  // namespace onnx_native::readers::jit
