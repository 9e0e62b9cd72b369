// In-place changes of a program: of containers, and of the shapes of tensors.
#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>

#include "aten/op_facts.h"
#include "aten/schema.h"
#include "aten/views.h"
#include "readers/jit/interpreter.h"

namespace onnx_native::readers::jit {

namespace {

// Marks an attribute's value as existing before the program ran.
void was_there(const Item& item) {
  if (const ContainerPtr object = item.object()) object->born = 0;
  if (const auto* container = item.get<ContainerPtr>()) {
    (*container)->born = 0;
    std::ranges::for_each((*container)->items(), was_there);
  }
}

bool is_inside(const JitNode* node, const JitNode* around) {
  for (; node; node = node->owningBlock()->owningNode()) {
    if (node == around) return true;
  }
  return false;
}

bool holds(const Item& item, const Container& container) {
  if (item.container() == &container || item.object().get() == &container) return true;
  if (const Maybe* maybe = item.maybe()) return holds(maybe->value, container);
  const Container* items = item.container();
  return items && items->kind != Container::Kind::object &&
         std::ranges::any_of(items->items(), [&](const Item& i) { return holds(i, container); });
}

// Returns true if the value is used later in the same loop iteration, or in a later iteration.
bool is_used_after(const torch::jit::Value& value, const JitNode* node) {
  return std::ranges::any_of(value.uses(), [&](const torch::jit::Use& use) {
    if (use.user->isAfter(node)) return true;
    for (const JitNode* loop = node; loop; loop = loop->owningBlock()->owningNode()) {
      if (loop->kind() == torch::jit::prim::Loop && use.user != loop && is_inside(use.user, loop) &&
          !is_inside(value.node(), loop))
        return true;
    }
    return false;
  });
}

}  // namespace

bool Interpreter::is_used_later(const Container& container) const {
  return std::ranges::any_of(stack_, [&](const Active& active) {
    return std::ranges::any_of(active.environment, [&](const auto& name) {
      return holds(name.second, container) && is_used_after(*name.first, active.node);
    });
  });
}

Container::Contents& Interpreter::change(const ContainerPtr& container) {
  for (const auto& [one, other, certain] : aliases_) {
    if (certain) continue;
    if ((one != container || !is_used_later(*other)) &&
        (other != container || !is_used_later(*one)))
      continue;
    if (container->kind == Container::Kind::tensor)
      unsupported(
          "cannot change the shape of a tensor that may be aliased, depending on branches, loops "
          "or strides; call clone() where the alias is created");
    unsupported(
        "cannot change a list or dict that may be aliased, depending on branches or loops; make a "
        "copy where the alias is created");
  }
  return record_change(container);
}

Container::Contents& Interpreter::record_change(const ContainerPtr& container) {
  const Moment within = open_.empty() ? Moment{} : open_.back();
  if (container->born <= within.containers && container->recorded <= within.changes) {
    journal_.push_back({container, container->contents, container->recorded});
    container->recorded = journal_.size();
  }
  return container->contents;
}

Interpreter::Moment Interpreter::begin() {
  open_.push_back({journal_.size(), containers_made(), aliases_.size(), open_.size()});
  return open_.back();
}

void Interpreter::load(const ContainerPtr& object, size_t slot, const Item& item) {
  was_there(item);
  object->items()[slot] = item;
  for (Change& change : journal_) {
    if (change.container != object) continue;
    Item& before = change.contents.items[slot];
    if (before.is_uninitialized()) before = item;
  }
}

std::vector<Interpreter::Change> Interpreter::rewind(const Moment& since) {
  std::vector<Change> after;
  for (; journal_.size() > since.changes; journal_.pop_back()) {
    Change& change = journal_.back();
    change.container->recorded = change.recorded;
    if (change.container->born > since.containers) continue;
    if (std::ranges::none_of(after,
                             [&](const Change& c) { return c.container == change.container; })) {
      after.push_back({change.container, change.container->contents});
    }
    change.container->contents = std::move(change.contents);
  }
  aliases_.resize(since.aliases);
  keep(since);
  std::ranges::reverse(after);
  return after;
}

const Container::Contents& Interpreter::contents_after(const std::vector<Change>& changes,
                                                       const Container& container) {
  const auto change =
      std::ranges::find(changes, &container, [](const Change& c) { return c.container.get(); });
  return change == changes.end() ? container.contents : change->contents;
}

Item Interpreter::after(const std::vector<Change>& changes, const Item& item) {
  if (const Maybe* maybe = item.maybe())
    return std::make_shared<const Maybe>(Maybe{maybe->present, after(changes, maybe->value)});
  if (const ContainerPtr object = item.object()) {
    const Container::Contents& contents = contents_after(changes, *object);
    return &contents == &object->contents ? item : Item::Tensor(contents.items[0].tensor());
  }
  const Container* container = item.container();
  if (!container || container->kind == Container::Kind::object) return item;
  const Container::Contents& contents = contents_after(changes, *container);
  bool changed = &contents != &container->contents;
  Items items;
  for (const Item& inner : contents.items) {
    items.push_back(after(changes, inner));
    changed = changed || items.back().maybe() || items.back().container() != inner.container() ||
              items.back().object() != inner.object();
  }
  if (!changed) return item;
  ContainerPtr copy = make_container(container->kind, std::move(items), container->type);
  copy->contents.keys = contents.keys;
  copy->contents.open = contents.open;
  return copy;
}

// --- Tensors

// An in-place operator returns its argument, which may have a new shape.
void Interpreter::keep_identity(const Call& call, const aten::Schema& schema, Items& results) {
  for (size_t r = 0; r < results.size() && r < schema.returns.size(); ++r) {
    const auto& sets = schema.returns[r].alias_sets;
    for (size_t i = 0; i < call.size() && !sets.empty(); ++i) {
      const aten::SchemaArgument& argument = schema.arguments.at(i);
      const ContainerPtr object = call.input(i).object();
      if (!object || !argument.writes || argument.alias_sets != sets) continue;
      aten::Value* now = results[r].tensor();
      if (aten::changes_geometry(schema) || now->type.shape != call.input(i).tensor()->type.shape)
        reshape(object, now);
      results[r] = call.input(i);
    }
  }
}

// Gives all aliases of a tensor the new value.
void Interpreter::reshape(const ContainerPtr& object, aten::Value* now) {
  std::vector<ContainerPtr> names{object};
  for (size_t i = 0; i < names.size(); ++i) {
    change(names[i]).items = {Item(Item::Current{now})};
    for (const Alias& alias : aliases_) {
      for (const auto& [one, other] :
           {std::pair(alias.one, alias.other), {alias.other, alias.one}}) {
        if (alias.certain && one == names[i] && std::ranges::find(names, other) == names.end())
          names.push_back(other);
      }
    }
  }
}

// Records an alias if the operator returns, or may return, its argument itself.
void Interpreter::share(const Item& argument, const Item& result) {
  if (!argument.object() || result.tensor()->type.shape != argument.tensor()->type.shape) return;
  const aten::KnownLayout* known = recorder_.layouts().find(argument.tensor());
  const aten::Sharing sharing = aten::sharing(*result.tensor()->producer, [&] {
    return known ? std::optional(known->layout) : std::nullopt;
  });
  const bool certain = sharing.kind == aten::Sharing::Kind::same;
  if (certain || sharing.maybe_same)
    aliases_.push_back({argument.object(), result.object(), certain});
}

}  // namespace onnx_native::readers::jit
