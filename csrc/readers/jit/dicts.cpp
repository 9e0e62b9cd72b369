// Operators on dicts.
#include <algorithm>

#include "base/dim_order.h"
#include "readers/jit/interpreter.h"

namespace onnx_native::readers::jit {
namespace {

ContainerPtr dict_of(const Call& call, size_t i = 0) {
  return container(call, i, Container::Kind::dict);
}

// Returns true if two keys are equal; nullopt if that is data-dependent.
std::optional<bool> are_same_keys(const Item& a, const Item& b) {
  if (a.object() && a.object() == b.object()) return true;
  if (is_known(a) && is_known(b)) return are_equal(a, b);
  const auto* x = a.get<Dim>();
  const auto* y = b.get<Dim>();
  if (!x || !y) return std::nullopt;
  if (*x == *y) return true;
  const bool different = (*x - *y).is_constant() || known_greater(*x, *y) || known_greater(*y, *x);
  return different ? std::optional(false) : std::nullopt;
}

// Returns the position of a key; nullopt if the dict does not have it.
std::optional<size_t> find_key(const Call& call, const Container& dict, const Item& key) {
  bool is_certain = true;
  for (size_t i = 0; i < dict.items().size(); ++i) {
    const std::optional<bool> same = are_same_keys(dict.contents.keys[i], key);
    if (same == true) return i;
    is_certain = is_certain && same;
  }
  if (!is_certain)
    call.run.unsupported("cannot find " + describe(key) +
                         " among the keys of a dict; use keys that are constants");
  return std::nullopt;
}

// Adds an item, or replaces the one that has this key.
void set(const Call& call, const ContainerPtr& dict, const Item& key, const Item& item) {
  const std::optional<size_t> at = find_key(call, *dict, key);
  Container::Contents& contents = call.run.change(dict);
  if (at) {
    contents.items[*at] = item;
    return;
  }
  check_length(contents.items.size() + 1);
  contents.keys.push_back(key);
  contents.items.push_back(item);
}

Item removed(const Call& call, const ContainerPtr& dict, size_t at) {
  Container::Contents& contents = call.run.change(dict);
  Item item = contents.items[at];
  contents.items.erase(contents.items.begin() + static_cast<std::ptrdiff_t>(at));
  contents.keys.erase(contents.keys.begin() + static_cast<std::ptrdiff_t>(at));
  return item;
}

std::optional<Items> make_dict(const Call& call) {
  const ContainerPtr dict = make_container(Container::Kind::dict, {}, call.output_type());
  for (size_t i = 0; i + 1 < call.size(); i += 2) set(call, dict, call.input(i), call.input(i + 1));
  return one(dict);
}

// dict(), dict(other) and dict(list of pairs).
std::optional<Items> dict(const Call& call) {
  if (call.size() == 0) return make_dict(call);
  if (const ContainerPtr other = dict_of(call)) {
    const ContainerPtr result = make_container(Container::Kind::dict, {}, other->type);
    result->contents = other->contents;
    return one(result);
  }
  const ContainerPtr pairs = readable_list(call, 0);
  if (!pairs || pairs->contents.open) return std::nullopt;
  const ContainerPtr result = make_container(Container::Kind::dict, {}, call.output_type());
  for (const Item& item : pairs->items()) {
    const Container* pair = item.container();
    if (!pair || pair->items().size() != 2)
      call.run.unsupported("cannot make a dict from " + describe(item) +
                           "; each element must be a pair of key and value");
    // PyTorch keeps the first item of a key.
    if (!find_key(call, *result, pair->items()[0]))
      set(call, result, pair->items()[0], pair->items()[1]);
  }
  return one(result);
}

// --- Reading

std::optional<Items> get_from_dict(const Call& call) {
  const ContainerPtr dict = dict_of(call);
  if (!dict) return std::nullopt;
  const std::optional<size_t> at = find_key(call, *dict, call.input(1));
  if (!at) fail(ErrorKind::invalid_program, "the program reads a key that is not in the dict");
  return one(dict->items()[*at]);
}

std::optional<Items> get(const Call& call) {
  const ContainerPtr dict = dict_of(call);
  if (!dict) return std::nullopt;
  const std::optional<size_t> at = find_key(call, *dict, call.input(1));
  return one(at ? dict->items()[*at] : call.size() > 2 ? call.input(2) : Item::none());
}

std::optional<Items> dict_contains(const Call& call) {
  const ContainerPtr dict = dict_of(call);
  if (!dict) return std::nullopt;
  return one(c10::IValue(find_key(call, *dict, call.input(1)).has_value()));
}

Items list_from(const Call& call, Items items) {
  return one(make_container(Container::Kind::list, std::move(items), call.output_type()));
}

std::optional<Items> keys(const Call& call) {
  const ContainerPtr dict = dict_of(call);
  if (!dict) return std::nullopt;
  return list_from(call, dict->contents.keys);
}

std::optional<Items> values(const Call& call) {
  const ContainerPtr dict = dict_of(call);
  if (!dict) return std::nullopt;
  return list_from(call, dict->items());
}

std::optional<Items> pairs(const Call& call) {
  const ContainerPtr dict = dict_of(call);
  if (!dict) return std::nullopt;
  Items items;
  for (size_t i = 0; i < dict->items().size(); ++i) {
    items.push_back(
        make_container(Container::Kind::tuple, {dict->contents.keys[i], dict->items()[i]}));
  }
  return list_from(call, std::move(items));
}

// --- Mutation

std::optional<Items> set_in_dict(const Call& call) {
  const ContainerPtr dict = dict_of(call);
  if (!dict) return std::nullopt;
  set(call, dict, call.input(1), call.input(2));
  return Items(call.output_count(), call.input(0));
}

std::optional<Items> set_default(const Call& call) {
  const ContainerPtr dict = dict_of(call);
  if (!dict) return std::nullopt;
  if (const std::optional<size_t> at = find_key(call, *dict, call.input(1)))
    return one(dict->items()[*at]);
  set(call, dict, call.input(1), call.input(2));
  return one(call.input(2));
}

std::optional<Items> pop_from_dict(const Call& call) {
  const ContainerPtr dict = dict_of(call);
  if (!dict) return std::nullopt;
  const std::optional<size_t> at = find_key(call, *dict, call.input(1));
  if (at) return one(removed(call, dict, *at));
  if (call.size() > 2) return one(call.input(2));
  fail(ErrorKind::invalid_program, "the program pops a key that is not in the dict");
}

// TorchScript pops the first item; Python pops the last.
std::optional<Items> pop_item(const Call& call) {
  const ContainerPtr dict = dict_of(call);
  if (!dict) return std::nullopt;
  if (dict->items().empty())
    fail(ErrorKind::invalid_program, "the program pops an item of an empty dict");
  const Item key = dict->contents.keys[0];
  return one(make_container(Container::Kind::tuple, {key, removed(call, dict, 0)}));
}

std::optional<Items> delete_from_dict(const Call& call) {
  if (!dict_of(call)) return std::nullopt;
  const std::optional<size_t> at = find_key(call, *dict_of(call), call.input(1));
  if (!at) fail(ErrorKind::invalid_program, "the program deletes a key that is not in the dict");
  removed(call, dict_of(call), *at);
  return Items();
}

std::optional<Items> update(const Call& call) {
  const ContainerPtr dict = dict_of(call), more = dict_of(call, 1);
  if (!dict || !more) return std::nullopt;
  const Container::Contents added = more->contents;  // `more` may be the same dict
  for (size_t i = 0; i < added.items.size(); ++i) set(call, dict, added.keys[i], added.items[i]);
  return Items();
}

}  // namespace

void add_dict_handlers(Handlers& handlers) {
  handlers["prim::DictConstruct"].push_back(make_dict);
  handlers["aten::dict"].push_back(dict);
  handlers["aten::__getitem__"].push_back(get_from_dict);
  handlers["aten::get"].push_back(get);
  handlers["aten::__contains__"].push_back(dict_contains);
  handlers["aten::keys"].push_back(keys);
  handlers["aten::values"].push_back(values);
  handlers["aten::items"].push_back(pairs);
  handlers["aten::_set_item"].push_back(set_in_dict);
  handlers["aten::setdefault"].push_back(set_default);
  handlers["aten::pop"].push_back(pop_from_dict);
  handlers["aten::popitem"].push_back(pop_item);
  handlers["aten::Delete"].push_back(delete_from_dict);
  handlers["aten::update"].push_back(update);
}

}  // namespace onnx_native::readers::jit
