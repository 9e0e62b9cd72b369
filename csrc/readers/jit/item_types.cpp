#include "readers/jit/item_types.h"

#include <algorithm>

#include "readers/jit/open_list.h"

namespace onnx_native::readers::jit {

using aten::Argument;
using aten::Type;

Type type_of(const Item& item) {
  if (item.tensor()) return item.tensor()->type;
  if (item.number()) return item.number()->type;
  if (const auto* dim = item.get<Dim>()) return Type::sym_int(*dim);
  Type type;
  if (item.boolean()) type.kind = Type::Kind::sym_bool;
  if (item.floating()) type.kind = Type::Kind::sym_float;
  return type;
}

// Returns a range that covers both.
DimRange either(const DimRange& a, const DimRange& b) {
  DimRange both;
  if (a.low && b.low) both.low = std::min(*a.low, *b.low);
  if (a.high && b.high) both.high = std::max(*a.high, *b.high);
  return both;
}

Type joined(const Recorder& recorder, const Type& a, const Type& b, std::vector<bool>* renamed) {
  if (a.kind != b.kind)
    fail(ErrorKind::unsupported,
         "a value is a tensor or number of different kinds in different branches or iterations; "
         "give it the same type everywhere");
  Type result = a;
  const auto join = [&](const Dim& x, const Dim& y) {
    const bool same = x == y && recorder.knows(x);
    if (renamed) renamed->push_back(!same);
    if (same) return x;
    return Dim::fresh(a.is_tensor() ? DimRange::size() : either(x.range(), y.range()));
  };
  if (a.kind == Type::Kind::sym_int) {
    result.dim = join(*a.dim, *b.dim);
  } else if (a.is_tensor()) {
    if (a.dtype != b.dtype)
      fail(ErrorKind::unsupported, "a tensor has the dtype ", name(a.dtype),
           " in one branch or iteration and ", name(b.dtype),
           " in another; cast it to the same dtype");
    if (!a.shape || !b.shape || a.shape->size() != b.shape->size()) {
      result.shape.reset();
    } else {
      for (size_t i = 0; i < a.shape->size(); ++i)
        (*result.shape)[i] = join((*a.shape)[i], (*b.shape)[i]);
    }
  }
  return result;
}

Argument filler(Interpreter& run, const Type& type) {
  if (type.kind == Type::Kind::sym_bool) return false;
  // The type states the number's value.
  if (type.kind == Type::Kind::sym_int)
    return run.recorder().knows(*type.dim) ? run.recorder().size(*type.dim) : Argument(int64_t{0});
  if (type.kind == Type::Kind::sym_float) return 0.0;
  Argument::List sizes;
  if (!type.shape)
    fail(ErrorKind::unsupported,
         "a tensor of unknown rank is set in only one branch; set it in both branches");
  for (const Dim& dim : *type.shape)
    sizes.push_back(run.recorder().knows(dim) ? run.recorder().size(dim) : Argument(int64_t{1}));
  return run.record_one("aten::zeros", {std::move(sizes), type.dtype}).tensor();
}

Argument operand(Interpreter& run, const Item& item, const Type& type) {
  Argument argument = item.is_uninitialized() ? filler(run, type) : run.argument(item);
  if (type.kind == Type::Kind::sym_float)  // always double precision
    argument = run.argument(run.record_number("python::sym_float", {std::move(argument)}));
  run.recorder().lift(argument);
  return argument;
}

Item result_item(aten::Value* value) {
  if (value->type.kind == Type::Kind::sym_int) return *value->type.dim;
  if (value->type.is_tensor()) return Item::Tensor{value};
  return Item::Number{value};
}

namespace {

bool has_leaves(const Item& item) {
  const Container* container = item.container();
  return container && container->kind != Container::Kind::object;
}

}  // namespace

void flatten(const Item& item, Items& leaves) {
  if (const Maybe* maybe = item.maybe()) {
    leaves.push_back(maybe->present);
    flatten(maybe->value, leaves);
    return;
  }
  if (!has_leaves(item)) {
    leaves.push_back(item);
    return;
  }
  const Container& container = *item.container();
  if (container.accumulates)
    fail(ErrorKind::unsupported,
         "a list that a loop appends to cannot also be a loop-carried value");
  if (container.contents.open) columns_of(*container.contents.open, leaves);
  for (const Item& element : container.items()) flatten(element, leaves);
}

void flatten_like(const Item& like, const Item& item, Items& leaves) {
  const Container* places = like.container();
  const Container* container = item.container();
  if (item.is_uninitialized()) {
    Items all;
    flatten(like, all);
    leaves.resize(leaves.size() + all.size());
  } else if (const Maybe* maybe = like.maybe()) {
    leaves.push_back(presence(item));
    flatten_like(maybe->value, present_value(item), leaves);
  } else if (places && container && has_leaves(like) && has_leaves(item) &&
             !places->contents.open && places->items().size() == container->items().size()) {
    for (size_t i = 0; i < places->items().size(); ++i)
      flatten_like(places->items()[i], container->items()[i], leaves);
  } else {
    flatten(item, leaves);
  }
}

bool widen(Item& item, const Item& other) {
  if (other.is_uninitialized()) return false;
  if (const Maybe* maybe = item.maybe()) {
    Item value = maybe->value;
    if (!widen(value, present_value(other))) return false;
    item = std::make_shared<const Maybe>(Maybe{maybe->present, std::move(value)});
    return true;
  }
  if (other.maybe() || item.is_none() != other.is_none()) {
    Item value = present_value(item);
    widen(value, present_value(other));
    item = std::make_shared<const Maybe>(Maybe{presence(item), std::move(value)});
    return true;
  }
  if (!has_leaves(other)) return false;
  if (item.is_uninitialized()) {
    Items none;
    flatten(other, none);
    std::ranges::fill(none, Item());
    size_t next = 0;
    item = rebuilt(other, none, next);
    return true;
  }
  const Container& from = *other.container();
  if (!has_leaves(item) || item.container()->kind != from.kind ||
      item.container()->items().size() != from.items().size())
    return false;
  ContainerPtr wider = make_container(from.kind, {}, item.container()->type);
  wider->contents = item.container()->contents;
  bool changed = false;
  for (size_t i = 0; i < from.items().size(); ++i)
    changed = widen(wider->items()[i], from.items()[i]) || changed;
  if (changed) item = wider;
  return changed;
}

Item rebuilt(const Item& item, const Items& leaves, size_t& next) {
  if (const Maybe* maybe = item.maybe()) {
    const Item& present = leaves.at(next++);
    return jit::maybe(present, rebuilt(maybe->value, leaves, next));
  }
  if (!has_leaves(item)) return leaves.at(next++);
  const Container& container = *item.container();
  ContainerPtr result = make_container(container.kind, {}, container.type);
  result->contents.keys = container.contents.keys;
  if (container.contents.open)
    result->contents.open = with_columns(*container.contents.open, leaves, next);
  for (const Item& element : container.items())
    result->items().push_back(rebuilt(element, leaves, next));
  return result;
}

}  // namespace onnx_native::readers::jit
