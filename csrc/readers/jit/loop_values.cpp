#include "readers/jit/loop_values.h"

#include <algorithm>

namespace onnx_native::readers::jit {

using aten::Type;

void LoopValues::add_leaves(Carried& carried) {
  carried.first_leaf = leaves_.size();
  Items leaves;
  flatten(carried.initial, leaves);
  carried.leaves = leaves.size();
  for (const Item& leaf : leaves) leaves_.push_back({.initial = leaf});
}

void LoopValues::add_leaves(Changed& changed) {
  changed.first_leaf = leaves_.size();
  const Items leaves = leaves_of(changed, changed.places);
  changed.leaves = leaves.size();
  for (const Item& leaf : leaves) leaves_.push_back({.initial = leaf});
}

Item LoopValues::of_leaves(const Carried& carried, const Items& leaves) const {
  if (carried.same) return carried.initial;
  size_t next = carried.first_leaf;
  return rebuilt(carried.initial, leaves, next);
}

void LoopValues::grow(Changed& changed) {
  const Recorder::Inside outside(recorder_, *frame_.parent);
  if (!changed.format)
    run_.unsupported("cannot determine the element type of a list that a loop extends");
  changed.mode = Mode::growing;
  changed.places = {open_item(changed.before, *changed.format)};
  add_leaves(changed);
}

Item LoopValues::open_item(const Container::Contents& list, const OpenList& format) {
  ContainerPtr result = make_container(Container::Kind::list, {});
  result->contents.open = opened(run_, list, format);
  return result;
}

bool LoopValues::settle_list(Item& place, Container::Contents& after) {
  const Container::Contents& carried = place.container()->contents;
  const std::optional<OpenList> format = common_format(run_, carried, after);
  if (!carried.open || !fits(*carried.open, *format)) {
    place = open_item(carried, *format);
    return false;
  }
  const OpenListPtr columns = carried.open;
  const Recorder::Inside inside(recorder_, frame_);
  after = {.keys = {}, .items = {}, .open = opened(run_, after, *columns)};
  return true;
}

bool LoopValues::fits(const OpenList& list, const OpenList& format) const {
  for (size_t i = 0; i < list.columns.size(); ++i) {
    const OpenList::Column& column = list.columns[i];
    const OpenList::Column& wanted = format.columns.at(i);
    if (column.ragged != wanted.ragged) return false;
    if (!column.type.is_tensor()) continue;
    for (size_t axis = 0; axis < column.type.shape->size(); ++axis) {
      const Dim& dim = (*column.type.shape)[axis];
      if (recorder_.knows(dim) && dim != wanted.type.shape->at(axis)) return false;
    }
  }
  return true;
}

bool LoopValues::settle() {
  if (failed_) return false;
  const Recorder::Inside outside(recorder_, *frame_.parent);
  bool settled = true;
  for (size_t i = 0; i < carried_.size(); ++i)
    settled = settle(carried_[i], results_[i + 1]) && settled;
  for (Interpreter::Change& change : changes_) settled = settle(change) && settled;
  return settled;
}

bool LoopValues::settle(Carried& carried, Item& after) {
  if (carried.same && carried.initial.container() == after.container()) return true;
  Item wider = carried.initial;
  if (!carried.same && !carried.grows && jit::widen(wider, after)) {
    carried.initial = wider;
    replace_leaves(carried);
    return false;
  }
  if (carried.grows) {
    if (!after.container() || after.container()->kind != Container::Kind::list)
      run_.unsupported(
          "a loop replaces a list by a value of another type; keep its type the same in all "
          "iterations");
    Container::Contents list = after.container()->contents;
    if (!settle_list(carried.initial, list)) {
      replace_leaves(carried);
      return false;
    }
    ContainerPtr now = make_container(Container::Kind::list, {});
    now->contents = std::move(list);
    after = now;
  }
  const Items now = leaves_of(carried, after);
  if (carried.same || now.size() != carried.leaves) {
    carry(carried, after);
    return false;
  }
  return settle_leaves(carried, now);
}

Items LoopValues::leaves_of(const Carried& carried, const Item& item) const {
  Items leaves;
  if (!carried.same) flatten_like(carried.initial, item, leaves);
  return leaves;
}

Items LoopValues::rebuilt_all(const Items& places, const Items& leaves, size_t& next) {
  Items items;
  for (const Item& place : places) items.push_back(rebuilt(place, leaves, next));
  return items;
}

Items LoopValues::leaves_of(const Changed& changed, const Items& items) {
  Items leaves;
  for (size_t i = 0; i < items.size(); ++i) flatten_like(changed.places.at(i), items[i], leaves);
  return leaves;
}

void LoopValues::carry(Carried& carried, const Item& after) {
  const Container* before = carried.initial.container();
  const Container* now = after.container();
  if (!before || !now || before->kind != now->kind)
    run_.unsupported(
        "a loop replaces a tuple, list or dict by a value of another type; keep its type the same "
        "in all iterations");
  if (before->kind == Container::Kind::list && (before->contents.open || now->contents.open ||
                                                before->items().size() != now->items().size())) {
    const auto format = common_format(run_, before->contents, now->contents);
    carried.initial = open_item(before->contents, *format);
    carried.grows = true;
  } else if (!carried.same) {
    run_.unsupported(
        "a loop replaces a tuple or dict by one with different elements; keep its elements the "
        "same in all iterations");
  }
  carried.same = false;
  add_leaves(carried);
}

bool LoopValues::settle(Leaf& leaf, const Item& after) {
  if (!leaf.carried) {
    if (are_equal(leaf.initial, after) && !has_inner(after)) return true;
    if (after.is_uninitialized()) return true;
    const Type now = type_of(after);
    const Type initial = leaf.initial.is_uninitialized() ? now : type_of(leaf.initial);
    if (now.kind == Type::Kind::unknown || initial.kind == Type::Kind::unknown)
      run_.unsupported(concat("a loop-carried value changes from ", describe(leaf.initial), " to ",
                              describe(after), "; keep its type the same in all iterations"));
    leaf.carried = true;
    leaf.type = joined(recorder_, initial, now, &leaf.renamed);
    leaf.contiguous = is_contiguous(leaf.initial) && is_contiguous(after);
    return false;
  }
  if (after.is_uninitialized()) return true;
  const bool settled = !leaf.contiguous || is_contiguous(after);
  leaf.contiguous = leaf.contiguous && settled;
  return widen(leaf, type_of(after)) && settled;
}

bool LoopValues::is_contiguous(const Item& item) const {
  const aten::Value* tensor = item.tensor();
  return item.is_uninitialized() || (tensor && recorder_.layouts().is_contiguous(tensor));
}

bool LoopValues::widen(Leaf& leaf, const Type& now) {
  Renamed renamed;
  const Type entered = leaf.input->type;
  const Type both = joined(recorder_, entered, now, &renamed);
  if (!both.shape != !entered.shape) {
    leaf.type = both;
    leaf.renamed = renamed;
    return false;
  }
  bool settled = true;
  // A fresh symbol of the body stands for any size.
  for (size_t i = 0; i < renamed.size(); ++i) {
    if (!renamed[i] || leaf.renamed[i]) continue;
    leaf.renamed[i] = true;
    settled = false;
  }
  return settled;
}

bool LoopValues::has_inner(const Item& item) const {
  if (const auto* dim = item.get<Dim>()) return !recorder_.knows(*dim);
  const aten::Value* value = item.tensor() ? item.tensor() : item.number();
  return value && !recorder_.is_outside(value);
}

bool LoopValues::settle(Interpreter::Change& change) {
  const auto known = std::ranges::find(changed_, change.container, &Changed::container);
  if (known == changed_.end()) {
    add(change);
    return false;
  }
  Changed& changed = *known;
  Container::Contents& now = change.contents;
  if (changed.mode == Mode::stacked) {
    if (changed.appended == now.items.size() && !now.open)
      changed.format = format_with(changed, now);
    if (changed.appended == now.items.size() && is_scanned(changed)) return true;
    grow(changed);
    return false;
  }
  if (changed.mode == Mode::growing) {
    if (!settle_list(changed.places.at(0), now)) {
      replace_leaves(changed);
      return false;
    }
    ContainerPtr list = make_container(Container::Kind::list, {});
    list->contents = now;
    return settle_leaves(changed, leaves_of(changed, {list}));
  }
  if (now.items.size() != changed.places.size())
    run_.unsupported(
        "a loop adds elements to a container or removes elements from it; keep its elements the "
        "same in all iterations");
  Items wider = changed.places;
  bool widened = false;
  for (size_t i = 0; i < wider.size(); ++i) widened = jit::widen(wider[i], now.items[i]) || widened;
  if (widened) {
    changed.places = std::move(wider);
    replace_leaves(changed);
    return false;
  }
  return settle_leaves(changed, leaves_of(changed, now.items));
}

std::optional<OpenList> LoopValues::format_with(const Changed& changed,
                                                const Container::Contents& now) {
  return common_format(run_, changed.before, now);
}

bool LoopValues::is_scanned(const Changed& changed) {
  return changed.format && std::ranges::none_of(changed.format->columns, &OpenList::Column::ragged);
}

void LoopValues::add(const Interpreter::Change& change) {
  Changed changed{.container = change.container, .before = change.container->contents};
  const Container::Contents& before = changed.before;
  const Container::Contents& now = change.contents;
  const bool list = change.container->kind == Container::Kind::list;
  if (list && (before.open || now.open || now.items.size() != before.items.size())) {
    changed.format = format_with(changed, now);
    const bool appended =
        !now.open && now.items.size() > before.items.size() &&
        std::equal(before.items.begin(), before.items.end(), now.items.begin(), are_equal);
    if (appended && is_scanned(changed)) {
      changed.mode = Mode::stacked;
      changed.appended = now.items.size() - before.items.size();
    } else {
      grow(changed);
    }
  } else {
    if (now.items.size() != before.items.size() ||
        !std::ranges::equal(now.keys, before.keys, are_equal))
      run_.unsupported(
          "a loop adds elements to a container or removes elements from it; keep its elements the "
          "same in all iterations");
    changed.places = before.items;
    add_leaves(changed);
  }
  changed_.push_back(std::move(changed));
}

}  // namespace onnx_native::readers::jit
