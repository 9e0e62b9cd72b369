// Operators on lists and tuples.
#include <algorithm>
#include <limits>

#include "readers/jit/open_list.h"

namespace onnx_native::readers::jit {
namespace {

using aten::Argument;

Items new_list(Items items, const c10::TypePtr& type) {
  return one(make_container(Container::Kind::list, std::move(items), type));
}

ContainerPtr list(const Call& call, size_t i = 0) { return readable_list(call, i); }

int64_t index_in(const Call& call, int64_t index, size_t size) {
  const auto length = static_cast<int64_t>(size);
  const int64_t at = index < 0 ? index + length : index;
  if (at < 0 || at >= length)
    fail(ErrorKind::invalid_program, "index ", index, " is out of range for a container of ",
         length, " elements");
  (void)call;
  return at;
}

// --- Construction and unpacking

std::optional<Items> make_list(const Call& call) {
  return new_list(call.inputs, call.output_type());
}

std::optional<Items> make_tuple(const Call& call) {
  return one(make_container(Container::Kind::tuple, call.inputs, call.output_type()));
}

std::optional<Items> unpack_items(const Call& call) {
  const Container* container = call.input(0).container();
  const size_t wanted = call.output_count();
  if (!container) call.run.unsupported("cannot unpack " + describe(call.input(0)));
  if (container->contents.open) {
    Items items;
    for (size_t i = 0; i < wanted; ++i)
      items.push_back(element(call.run, *container->contents.open, Dim(static_cast<int64_t>(i))));
    return items;
  }
  if (container->items().size() != wanted)
    fail(ErrorKind::invalid_program, "the program unpacks ", container->items().size(),
         " elements into ", wanted, " values");
  return container->items();
}

std::optional<Items> tuple_index(const Call& call) {
  const ContainerPtr tuple = container(call, 0, Container::Kind::tuple);
  const auto index = call.input(1).integer();
  if (!tuple || !index)
    call.run.unsupported("cannot index " + describe(call.input(0)) +
                         "; a tuple needs a constant index");
  return one(tuple->items()[static_cast<size_t>(index_in(call, *index, tuple->items().size()))]);
}

std::optional<Items> tuple_slice(const Call& call) {
  const ContainerPtr tuple = container(call, 0, Container::Kind::tuple);
  if (!tuple) return std::nullopt;
  const auto begin = tuple->items().begin() + call.attribute("beg");
  const auto end = tuple->items().begin() + call.attribute("end");
  return one(make_container(Container::Kind::tuple, Items(begin, end), call.output_type()));
}

// --- Reading

// Returns an element at a data-dependent index. The elements must be tensors of one type.
Item computed_element(const Call& call, const Container& list, const Item& index) {
  const aten::Value* first = list.items().empty() ? nullptr : list.items()[0].tensor();
  const bool uniform =
      first && first->type.shape && std::ranges::all_of(list.items(), [&](const Item& item) {
        return item.tensor() && item.tensor()->type.dtype == first->type.dtype &&
               item.tensor()->type.shape == first->type.shape;
      });
  if (!uniform)
    call.run.unsupported("cannot index " + describe(call.input(0)) +
                         " with an index that the model computes; use a list of tensors with the "
                         "same dtype and shape");
  Argument::List elements;
  std::vector<aten::Value*> originals;
  for (const Item& item : list.items()) {
    elements.emplace_back(item.tensor());
    originals.push_back(item.tensor());
  }
  aten::Value* stacked =
      call.run.record_one("aten::stack", {std::move(elements), int64_t{0}}).tensor();
  call.run.recorder().hold({stacked}, originals);
  return call.run.record_one("aten::select.int", {stacked, int64_t{0}, call.run.argument(index)});
}

std::optional<Items> get_from_list(const Call& call) {
  const ContainerPtr list = jit::list(call);
  if (!list) return std::nullopt;
  if (list->contents.open) return one(element(call.run, *list->contents.open, call.input(1)));
  const auto index = call.input(1).integer();
  if (!index) return one(computed_element(call, *list, call.input(1)));
  return one(list->items()[static_cast<size_t>(index_in(call, *index, list->items().size()))]);
}

std::optional<Items> container_length(const Call& call) {
  const Container* container = call.input(0).container();
  if (!container || container->kind == Container::Kind::object) return std::nullopt;
  if (container->accumulates) list(call);
  if (container->contents.open) return one(jit::length(*container->contents.open));
  return one(Dim(static_cast<int64_t>(container->items().size())));
}

std::optional<Items> list_contains(const Call& call) {
  const Container* container = call.input(0).container();
  if (!container || container->kind != Container::Kind::list || container->contents.open)
    return std::nullopt;
  if (!is_known(call.input(0)) || !is_known(call.input(1))) return std::nullopt;
  const bool found = std::ranges::any_of(
      container->items(), [&](const Item& item) { return are_equal(item, call.input(1)); });
  return one(c10::IValue(found));
}

// Resolves a slice bound for a list of this length.
int64_t bound(const Item& item, int64_t length, int64_t otherwise) {
  const auto number = item.integer();
  if (!number) return otherwise;
  return std::clamp(*number < 0 ? *number + length : *number, int64_t{0}, length);
}

std::optional<Items> slice(const Call& call) {
  const ContainerPtr list = jit::list(call);
  if (!list) return std::nullopt;
  int64_t step = call.size() > 3 ? call.input(3).integer().value_or(1) : 1;
  if (step == 0) call.run.unsupported("cannot slice a list with the step 0");
  if (list->contents.open) {
    ContainerPtr result = make_container(Container::Kind::list, {}, list->type);
    if (step > 0) {
      result->contents.open =
          sliced(call.run, *list->contents.open, call.input(1), call.input(2), step);
    } else if (step == -1 && call.input(1).is_none() && call.input(2).is_none()) {
      result->contents.open = reversed(call.run, *list->contents.open);
    } else {
      call.run.unsupported("cannot slice a list of unknown length backward");
    }
    return one(result);
  }
  const auto size = static_cast<int64_t>(list->items().size());
  step = std::clamp(step, -size - 1, size + 1);  // no index overflows
  for (const size_t i : {1, 2}) {
    if (!call.input(i).is_none() && !call.input(i).integer())
      call.run.unsupported("cannot slice a list with bounds that the model computes");
  }
  Items items;
  if (step > 0) {
    const int64_t end = bound(call.input(2), size, size);
    for (int64_t i = bound(call.input(1), size, 0); i < end; i += step)
      items.push_back(list->items()[static_cast<size_t>(i)]);
  } else {
    const auto from = call.input(1).integer(), to = call.input(2).integer();
    int64_t i = from ? std::min(*from < 0 ? *from + size : *from, size - 1) : size - 1;
    const int64_t end = to ? std::max(*to < 0 ? *to + size : *to, int64_t{-1}) : -1;
    for (; i > end && i >= 0; i += step) items.push_back(list->items()[static_cast<size_t>(i)]);
  }
  return new_list(std::move(items), list->type);
}

ContainerPtr joined_lists(const Call& call, const Container& a, const Container& b) {
  ContainerPtr result = make_container(Container::Kind::list, {}, a.type);
  if (a.contents.open || b.contents.open) {
    result->contents = joined(call.run, a.contents, b.contents);
  } else {
    check_length(a.items().size() + b.items().size());
    result->items() = a.items();
    result->items().insert(result->items().end(), b.items().begin(), b.items().end());
  }
  return result;
}

std::optional<Items> add(const Call& call) {
  const ContainerPtr a = list(call, 0), b = list(call, 1);
  if (!a || !b) return std::nullopt;
  return one(joined_lists(call, *a, *b));
}

// list * n and n * list; `list *= n` changes the list.
std::optional<Items> multiply(const Call& call) {
  for (const size_t i : {0, 1}) {
    const ContainerPtr list = jit::list(call, i);
    const auto* count = call.size() > 1 ? call.input(1 - i).get<Dim>() : nullptr;
    if (!list || !count) continue;
    const auto times = count->constant();
    if (list->contents.open || (!times && !list->items().empty())) {
      const auto format = common_format(call.run, list->contents, list->contents);
      ContainerPtr result = make_container(Container::Kind::list, {}, list->type);
      result->contents.open =
          repeated(call.run, *opened(call.run, list->contents, *format), *count);
      return one(result);
    }
    if (list->items().empty()) return new_list({}, list->type);
    Items items;
    if (*times <= 0) return new_list(std::move(items), list->type);
    check_length(static_cast<size_t>(*times));
    check_length(static_cast<size_t>(*times) * list->items().size());
    for (int64_t n = 0; n < *times; ++n)
      items.insert(items.end(), list->items().begin(), list->items().end());
    return new_list(std::move(items), list->type);
  }
  return std::nullopt;
}

std::optional<Items> multiply_in_place(const Call& call) {
  const ContainerPtr list = jit::list(call);
  std::optional<Items> product = list ? multiply(call) : std::nullopt;
  if (!product) return std::nullopt;
  call.run.change(list) = product->front().container()->contents;
  return Items(call.output_count(), call.input(0));
}

// Returns a bool that is true if two elements of lists are equal; nullopt if it cannot be computed.
std::optional<Item> is_equal(const Call& call, const Item& a, const Item& b) {
  if (is_known(a) && is_known(b)) return c10::IValue(are_equal(a, b));
  if (aten::Value* x = a.tensor(), *y = b.tensor(); x && y) {
    for (const aten::Value* value : {x, y}) {
      if (!value->type.shape || !numel(*value->type.shape).equals(1))
        call.run.unsupported("cannot compare lists of tensors; each tensor must have one element");
    }
    const Item same = call.run.record_one("aten::eq.Tensor", {x, y});
    return call.run.record_number("aten::item", {same.tensor()});
  }
  const auto* x = a.get<Dim>();
  const auto* y = b.get<Dim>();
  if (x && y) {
    if (*x == *y) return c10::IValue(true);
    if ((*x - *y).is_constant()) return c10::IValue(false);
  }
  const auto is_number = [](const Item& item) {
    return item.number() || item.get<Dim>() || item.floating() || item.boolean();
  };
  if (!is_number(a) || !is_number(b)) return std::nullopt;
  return call.run.record_number("python::eq", {call.run.argument(a), call.run.argument(b)});
}

std::optional<Items> equal(const Call& call, bool wanted) {
  const ContainerPtr a = list(call, 0), b = list(call, 1);
  if (!a || !b || a->contents.open || b->contents.open) return std::nullopt;
  if (a->items().size() != b->items().size()) return one(c10::IValue(!wanted));
  Item all = c10::IValue(true);
  for (size_t i = 0; i < a->items().size(); ++i) {
    const std::optional<Item> next = is_equal(call, a->items()[i], b->items()[i]);
    if (!next) return std::nullopt;
    if (next->boolean() == false) return one(c10::IValue(!wanted));
    if (next->boolean()) continue;
    all = all.boolean() ? *next
                        : call.run.record_number(
                              "python::and_", {call.run.argument(all), call.run.argument(*next)});
  }
  if (wanted || all.boolean()) return one(all.boolean() ? Item(c10::IValue(wanted)) : all);
  return one(call.run.record_number("python::sym_not", {call.run.argument(all)}));
}

std::optional<Items> equal_to(const Call& call) { return equal(call, true); }
std::optional<Items> unequal_to(const Call& call) { return equal(call, false); }

std::optional<Items> copy(const Call& call) {
  const Container* container = call.input(0).container();
  if (!container || container->kind == Container::Kind::object ||
      container->kind == Container::Kind::tuple)
    return std::nullopt;
  if (container->accumulates) list(call);
  ContainerPtr result = make_container(container->kind, {}, container->type);
  result->contents = container->contents;
  return one(result);
}

std::optional<Items> extreme(const Call& call, Dim (*formula)(const Dim&, const Dim&)) {
  const ContainerPtr list = jit::list(call);
  if (!list || call.size() != 1 || list->items().empty()) return std::nullopt;
  std::optional<Dim> result;
  for (const Item& item : list->items()) {
    const auto* dim = item.get<Dim>();
    if (!dim) return std::nullopt;
    // INT64_MAX is the length of `enumerate`; the list's own length is smaller.
    if (dim->equals(std::numeric_limits<int64_t>::max()) && list->items().size() > 1 &&
        formula == &Dim::min)
      continue;
    result = result ? formula(*result, *dim) : *dim;
  }
  if (!result) return std::nullopt;
  return one(*result);
}

std::optional<Items> largest_number(const Call& call) { return extreme(call, Dim::max); }
std::optional<Items> smallest_number(const Call& call) { return extreme(call, Dim::min); }

// --- Mutation

std::optional<Items> append(const Call& call) {
  const ContainerPtr list = container(call, 0, Container::Kind::list);
  if (!list) return std::nullopt;
  Container::Contents& contents = call.run.change(list);
  if (contents.open) {
    contents = joined(call.run, contents, {.keys = {}, .items = {call.input(1)}});
  } else {
    contents.items.push_back(call.input(1));
  }
  return one(list);
}

std::optional<Items> extend(const Call& call) {
  const ContainerPtr list = container(call, 0, Container::Kind::list);
  const ContainerPtr more = jit::list(call, 1);
  if (!list || !more) return std::nullopt;
  Container::Contents& contents = call.run.change(list);
  if (contents.open || more->contents.open) {
    if (list->accumulates) jit::list(call);
    contents = joined_lists(call, *list, *more)->contents;
  } else {
    const Items added = more->items();  // `more` may be the same list
    check_length(contents.items.size() + added.size());
    contents.items.insert(contents.items.end(), added.begin(), added.end());
  }
  return Items(call.output_count(), call.input(0));
}

// Replaces `count` elements of an open list.
void replace(const Call& call, const ContainerPtr& list, int64_t count, Items items) {
  Container::Contents contents =
      spliced(call.run, *list->contents.open, call.input(1), count, std::move(items));
  call.run.change(list) = std::move(contents);
}

std::optional<Items> insert(const Call& call) {
  const ContainerPtr list = jit::list(call);
  if (list && list->contents.open) {
    replace(call, list, 0, {call.input(2)});
    return Items();
  }
  const auto index = list ? call.input(1).integer() : std::nullopt;
  if (!index) return std::nullopt;
  const auto size = static_cast<int64_t>(list->items().size());
  auto& items = call.run.change(list).items;
  items.insert(items.begin() + bound(call.input(1), size, 0), call.input(2));
  return Items();
}

std::optional<Items> pop_from_list(const Call& call) {
  const ContainerPtr list = jit::list(call);
  if (list && list->contents.open) {
    Item item = element(call.run, *list->contents.open, call.input(1));
    replace(call, list, 1, {});
    return one(std::move(item));
  }
  const auto index = list ? call.input(1).integer() : std::nullopt;
  if (!index) return std::nullopt;
  const int64_t at = index_in(call, *index, list->items().size());
  auto& items = call.run.change(list).items;
  Item item = items[static_cast<size_t>(at)];
  items.erase(items.begin() + at);
  return one(std::move(item));
}

std::optional<Items> clear(const Call& call) {
  const auto* pointer = call.input(0).get<ContainerPtr>();
  if (!pointer || (*pointer)->accumulates) return std::nullopt;
  call.run.change(*pointer) = {};
  return Items();
}

std::optional<Items> reverse(const Call& call) {
  const ContainerPtr list = jit::list(call);
  if (!list) return std::nullopt;
  Container::Contents& contents = call.run.change(list);
  if (contents.open) {
    contents.open = reversed(call.run, *contents.open);
  } else {
    std::ranges::reverse(contents.items);
  }
  return Items();
}

std::optional<Items> set_in_list(const Call& call) {
  const ContainerPtr list = jit::list(call);
  if (!list) return std::nullopt;
  if (list->contents.open) {
    replace(call, list, 1, {call.input(2)});
    return Items(call.output_count(), call.input(0));
  }
  const auto index = call.input(1).integer();
  if (!index)
    call.run.unsupported("cannot set an element of a list at an index that the model computes");
  const int64_t at = index_in(call, *index, list->items().size());
  call.run.change(list).items[static_cast<size_t>(at)] = call.input(2);
  return Items(call.output_count(), call.input(0));
}

std::optional<Items> delete_from_list(const Call& call) {
  const ContainerPtr list = jit::list(call);
  if (list && list->contents.open) {
    replace(call, list, 1, {});
    return Items();
  }
  const auto index = list ? call.input(1).integer() : std::nullopt;
  if (!index) return std::nullopt;
  const int64_t at = index_in(call, *index, list->items().size());
  auto& items = call.run.change(list).items;
  items.erase(items.begin() + at);
  return Items();
}

}  // namespace

ContainerPtr container(const Call& call, size_t i, Container::Kind kind) {
  if (i >= call.size()) return nullptr;
  const auto* pointer = call.input(i).get<ContainerPtr>();
  return pointer && (*pointer)->kind == kind ? *pointer : nullptr;
}

ContainerPtr readable_list(const Call& call, size_t i) {
  ContainerPtr list = container(call, i, Container::Kind::list);
  if (list && list->accumulates)
    call.run.unsupported("a loop cannot read the list that it appends to");
  return list;
}

void add_container_handlers(Handlers& handlers) {
  handlers["prim::ListConstruct"].push_back(make_list);
  handlers["prim::TupleConstruct"].push_back(make_tuple);
  handlers["prim::ListUnpack"].push_back(unpack_items);
  handlers["prim::TupleUnpack"].push_back(unpack_items);
  handlers["prim::TupleIndex"].push_back(tuple_index);
  handlers["prim::TupleSlice"].push_back(tuple_slice);
  handlers["aten::__getitem__"].push_back(get_from_list);
  handlers["aten::len"].push_back(container_length);
  handlers["aten::__contains__"].push_back(list_contains);
  handlers["aten::slice"].push_back(slice);
  handlers["aten::add"].push_back(add);
  handlers["aten::mul"].push_back(multiply);
  handlers["aten::mul_"].push_back(multiply_in_place);
  handlers["aten::eq"].push_back(equal_to);
  handlers["aten::ne"].push_back(unequal_to);
  handlers["aten::list"].push_back(copy);
  handlers["aten::Size"].push_back(copy);
  handlers["aten::copy"].push_back(copy);
  handlers["prim::max"].push_back(largest_number);
  handlers["prim::min"].push_back(smallest_number);
  handlers["aten::append"].push_back(append);
  handlers["aten::extend"].push_back(extend);
  handlers["aten::add_"].push_back(extend);
  handlers["aten::insert"].push_back(insert);
  handlers["aten::pop"].push_back(pop_from_list);
  handlers["aten::clear"].push_back(clear);
  handlers["aten::reverse"].push_back(reverse);
  handlers["aten::_set_item"].push_back(set_in_list);
  handlers["aten::Delete"].push_back(delete_from_list);
}

}  // namespace onnx_native::readers::jit
