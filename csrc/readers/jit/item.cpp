#include "readers/jit/item.h"

#include <ATen/core/List.h>

#include <algorithm>
#include <utility>

namespace onnx_native::readers::jit {

std::optional<bool> Item::boolean() const {
  const auto* known = get<c10::IValue>();
  return known && known->isBool() ? std::optional(known->toBool()) : std::nullopt;
}

std::optional<double> Item::floating() const {
  const auto* known = get<c10::IValue>();
  return known && known->isDouble() ? std::optional(known->toDouble()) : std::nullopt;
}

std::optional<int64_t> Item::integer() const {
  const auto* dim = get<Dim>();
  return dim ? dim->constant() : std::nullopt;
}

Item::Tensor::Tensor(aten::Value* value)
    : object(make_container(Container::Kind::tensor, {Item(Current{value})})) {}

aten::Value* Item::tensor() const {
  if (const auto* current = get<Current>()) return current->value;
  const auto* tensor = get<Tensor>();
  return tensor ? tensor->object->items()[0].tensor() : nullptr;
}

Item maybe(Item present, Item value) {
  if (const std::optional<bool> known = present.boolean()) return *known ? value : Item::none();
  return std::make_shared<const Maybe>(Maybe{std::move(present), std::move(value)});
}

Item presence(const Item& item) {
  if (item.is_uninitialized()) return {};
  if (const Maybe* maybe = item.maybe()) return maybe->present;
  return c10::IValue(!item.is_none());
}

Item present_value(const Item& item) {
  if (const Maybe* maybe = item.maybe()) return maybe->value;
  return item.is_none() ? Item() : item;
}

namespace {

thread_local uint64_t made = 0;

}  // namespace

uint64_t containers_made() { return made; }

void check_length(size_t elements) {
  constexpr size_t kMost = 1'000'000;
  if (elements > kMost) fail(ErrorKind::unsupported, "a list has more than ", kMost, " elements");
}

ContainerPtr make_container(Container::Kind kind, std::vector<Item> items, c10::TypePtr type) {
  check_length(items.size());
  auto container = std::make_shared<Container>();
  container->kind = kind;
  container->type = std::move(type);
  container->contents.items = std::move(items);
  container->born = ++made;
  return container;
}

bool is_known(const Item& item) {
  if (item.get<c10::IValue>()) return true;
  if (const auto* dim = item.get<Dim>()) return dim->is_constant();
  const Container* container = item.container();
  if (!container || container->kind == Container::Kind::object || container->accumulates ||
      container->contents.open) {
    return false;
  }
  return std::ranges::all_of(container->contents.keys, is_known) &&
         std::ranges::all_of(container->items(), is_known);
}

c10::IValue to_ivalue(const Item& item, const c10::TypePtr& type) {
  if (const auto* known = item.get<c10::IValue>()) return *known;
  if (const auto* dim = item.get<Dim>()) return *dim->constant();
  const Container& container = *item.container();
  c10::TypePtr wanted = type ? type : container.type;
  if (const auto optional = wanted ? wanted->cast<c10::OptionalType>() : nullptr) {
    wanted = optional->getElementType();
  }
  if (wanted && wanted->kind() == c10::TypeKind::AnyType) wanted = container.type;
  if (container.kind == Container::Kind::tuple) {
    std::vector<c10::IValue> elements;
    const auto tuple = wanted ? wanted->cast<c10::TupleType>() : nullptr;
    for (size_t i = 0; i < container.items().size(); ++i) {
      elements.push_back(
          to_ivalue(container.items()[i], tuple ? tuple->elements().at(i) : nullptr));
    }
    return c10::ivalue::Tuple::create(std::move(elements));
  }
  if (container.kind == Container::Kind::dict) {
    const auto dict_type = wanted ? wanted->cast<c10::DictType>() : nullptr;
    c10::impl::GenericDict dict(dict_type ? dict_type->getKeyType() : c10::AnyType::get(),
                                dict_type ? dict_type->getValueType() : c10::AnyType::get());
    for (size_t i = 0; i < container.items().size(); ++i) {
      dict.insert(to_ivalue(container.contents.keys[i], dict.keyType()),
                  to_ivalue(container.items()[i], dict.valueType()));
    }
    return dict;
  }
  auto list_type = wanted ? wanted->cast<c10::ListType>() : nullptr;
  if (list_type && list_type->getElementType()->kind() == c10::TypeKind::VarType) {
    list_type = container.type ? container.type->cast<c10::ListType>() : nullptr;
  }
  c10::TypePtr element = list_type ? list_type->getElementType() : nullptr;
  std::vector<c10::IValue> elements;
  for (const Item& inner : container.items()) elements.push_back(to_ivalue(inner, element));
  if (!element) element = elements.empty() ? c10::AnyType::get() : elements.front().type();
  c10::impl::GenericList list(element);
  for (c10::IValue& value : elements) list.push_back(std::move(value));
  return list;
}

bool are_equal(const Item& a, const Item& b) {
  if (a.tensor()) return a.tensor() == b.tensor();
  if (a.is.index() != b.is.index()) return false;
  if (const auto* dim = a.get<Dim>()) return *dim == *b.get<Dim>();
  if (a.number()) return a.number() == b.number();
  if (const auto* known = a.get<c10::IValue>()) {
    const auto* other = b.get<c10::IValue>();
    return known->is(*other) || (known->type()->kind() == other->type()->kind() &&
                                 !known->isObject() && known->equals(*other).toBool());
  }
  if (const Maybe* maybe = a.maybe())
    return are_equal(maybe->present, b.maybe()->present) &&
           are_equal(maybe->value, b.maybe()->value);
  const Container* x = a.container();
  const Container* y = b.container();
  if (!x || x == y) return true;
  if (x->kind != y->kind || x->kind == Container::Kind::object ||
      x->contents.open != y->contents.open || x->items().size() != y->items().size() ||
      x->contents.keys.size() != y->contents.keys.size()) {
    return false;
  }
  return std::ranges::equal(x->contents.keys, y->contents.keys, are_equal) &&
         std::ranges::equal(x->items(), y->items(), are_equal);
}

std::string describe(const Item& item) {
  if (item.is_uninitialized()) return "an unset value";
  if (item.tensor()) return "a tensor";
  if (item.number()) {
    return item.number()->type.kind == aten::Type::Kind::sym_bool
               ? "a bool that the model computes"
               : "a float that the model computes";
  }
  if (const auto* dim = item.get<Dim>()) return "the int " + dim->str();
  if (const auto* known = item.get<c10::IValue>()) {
    return known->isNone() ? "None" : "a value of type " + known->type()->str();
  }
  if (const Maybe* maybe = item.maybe())
    return concat("a data-dependent choice of None or ", describe(maybe->value));
  const Container& container = *item.container();
  const size_t size = container.items().size();
  switch (container.kind) {
    case Container::Kind::list:
      return container.contents.open ? "a list of unknown length"
                                     : concat("a list of length ", size);
    case Container::Kind::tuple:
      return concat("a tuple of length ", size);
    case Container::Kind::dict:
      return concat("a dict of size ", size);
    default:
      return "an object of type " + (container.type ? container.type->str() : "?");
  }
}

}  // namespace onnx_native::readers::jit
