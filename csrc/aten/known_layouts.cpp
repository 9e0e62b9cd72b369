#include "aten/known_layouts.h"

#include <algorithm>

#include "aten/functional_schema.h"
#include "aten/layouts.h"
#include "aten/op_facts.h"
#include "aten/view_kinds.h"
#include "aten/views.h"
#include "aten/visit.h"

namespace onnx_native::aten {
namespace {

bool has_layout(const Value* value) { return value->type.is_tensor() && value->type.shape; }

// Returns true if the strides are those of a tensor without gaps, in some order of its dimensions.
bool is_dense(const Shape& shape, const Layout& layout) {
  std::vector<bool> used(shape.size());
  Dim stride = 1;
  for (size_t found = 0; found < shape.size(); ++found) {
    size_t next = 0;
    while (next < shape.size() &&
           (used[next] || !layout.strides[next] || *layout.strides[next] != stride))
      ++next;
    if (next == shape.size()) return false;
    used[next] = true;
    stride = stride * shape[next];
  }
  return true;
}

bool has_size_one(const Shape& shape) {
  return std::ranges::any_of(shape,
                             [](const Dim& size) { return !(size - 2).known_non_negative(); });
}

bool are_same(const Layout& a, const Layout& b) { return a.strides == b.strides; }

}  // namespace

void KnownLayouts::set(const Value* value, std::optional<Layout> layout, bool exact,
                       bool in_order) {
  if (!layout) return forget(value);
  if (value->type.shape && layout->strides.size() == value->type.shape->size())
    layouts_.insert_or_assign(value, KnownLayout{std::move(*layout), exact, in_order});
}

void KnownLayouts::set_contiguous(const Value* value) {
  if (has_layout(value)) set(value, contiguous_layout(value->type), true, true);
}

void KnownLayouts::copy(const Value* from, const Value* to) {
  const KnownLayout* known = find(from);
  if (!known || !to->type.shape) return;
  if (known->layout.strides.size() == to->type.shape->size())
    layouts_.insert_or_assign(to, KnownLayout(*known));
}

const KnownLayout* KnownLayouts::find(const Value* value) const {
  const auto at = layouts_.find(value);
  return at == layouts_.end() ? nullptr : &at->second;
}

bool KnownLayouts::is_contiguous(const Value* value) const {
  const KnownLayout* known = find(value);
  return known && known->exact && are_same(known->layout, *contiguous_layout(value->type));
}

void KnownLayouts::record(const Node& node) {
  if (!node.schema || std::ranges::none_of(node.outputs, has_layout)) return;
  if (node.schema->is_mutable()) return record_write(node);
  const Value* base = node.arguments.empty() ? nullptr : node.arguments[0].as_value();
  if (base && base->type.is_tensor() && may_share(*node.schema)) return record_view(node, base);
  record_fresh(node);
}

void KnownLayouts::record_write(const Node& node) {
  const Value* written = node.outputs[0];
  if (changes_geometry(*node.schema)) {
    const FunctionalSchema functional = find_functional(*node.schema);
    if (!functional.schema) return;
    Node view = node;
    make_functional(view, functional, written->type);
    record(view);
    return;
  }
  for (size_t r = 0; r < node.outputs.size() && r < node.schema->returns.size(); ++r) {
    const auto& sets = node.schema->returns[r].alias_sets;
    for (size_t i = 0; i < node.arguments.size() && !sets.empty(); ++i) {
      const SchemaArgument& argument = node.schema->arguments[i];
      const Value* target = node.arguments[i].as_value();
      if (!target || !argument.writes || argument.alias_sets != sets) continue;
      if (target->type.shape == node.outputs[r]->type.shape) copy(target, node.outputs[r]);
    }
  }
}

void KnownLayouts::record_view(const Node& node, const Value* base) {
  const KnownLayout* known = find(base);
  const ViewKind kind = kind_of(*node.schema);
  const auto layout = [&] {
    return known ? std::optional(known->layout) : unknown_layout(base->type);
  };
  const Sharing sharing = aten::sharing(node, layout);
  const bool packs = kind == ViewKind::contiguous;
  const Argument* format = packs ? find_argument(node, "memory_format") : nullptr;
  const auto* name = format ? format->get<std::string>() : nullptr;
  switch (sharing.kind) {
    case Sharing::Kind::same:
      return copy(base, node.outputs[0]);
    case Sharing::Kind::view:
      if (!known) return;
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        const bool reshapes = kind == ViewKind::reshape || kind == ViewKind::copy_reshape;
        const bool exact = known->exact && (!reshapes || is_contiguous(base));
        const Value* output = node.outputs[i];
        set(output, view_layout(node, static_cast<int>(i), known->layout), exact,
            known->in_order && facts_of(kind).keeps_order);
      }
      return;
    case Sharing::Kind::fresh:
      if (kind == ViewKind::copy_reshape || (packs && (!name || *name == "contiguous_format")))
        return set_contiguous(node.outputs[0]);
      return record_fresh(node);
    default:
      if (!packs || (name && *name != "contiguous_format")) return;
      // The result is a copy, or the tensor itself, which then is contiguous.
      set(node.outputs[0], contiguous_layout(node.outputs[0]->type), false, true);
      if (known && known->exact && sharing.kind == Sharing::Kind::depends) {
        KnownLayout& result = layouts_.at(node.outputs[0]);
        result.unless = {sharing.condition, find(base)->layout.strides};
      }
  }
}

void KnownLayouts::record_fresh(const Node& node) {
  const int format = node.schema->index("memory_format");
  const auto* asked =
      format < 0 ? nullptr : node.arguments[static_cast<size_t>(format)].get<std::string>();
  const auto pack = [&](bool exact) {
    for (const Value* output : node.outputs)
      if (has_layout(output)) set(output, contiguous_layout(output->type), exact, true);
  };
  const bool always = !may_scatter(node, [](const Value*) { return true; });
  if (always) return pack(true);
  if (asked && *asked != "preserve_format") return;
  bool all_packed = true, all_exact = true, all_in_order = true, same = true;
  const KnownLayout* first = nullptr;
  const Shape* shape = nullptr;
  const bool copies = facts_of(*node.schema).strides == Strides::of_self;
  for (size_t i = 0; i < (copies ? 1 : node.arguments.size()); ++i) {
    for_each_value(node.arguments[i], [&](const Value* value) {
      if (!value->type.is_tensor() || (value->type.shape && value->type.shape->empty())) return;
      const KnownLayout* known = find(value);
      all_packed = all_packed && known && are_same(known->layout, *contiguous_layout(value->type));
      all_exact = all_exact && known && known->exact;
      all_in_order = all_in_order && known && known->in_order;
      same = same && known && (!first || are_same(first->layout, known->layout)) &&
             (!shape || *shape == *value->type.shape);
      if (known && !first) {
        first = known;
        shape = &*value->type.shape;
      }
    });
  }
  if (all_packed && !may_scatter(node, [](const Value*) { return false; })) return pack(all_exact);
  if ((!copies && !is_pointwise(*node.schema)) || node.outputs.size() != 1) return;
  const Value* output = node.outputs[0];
  if (all_in_order) return pack(all_exact && !has_size_one(*output->type.shape));
  if (!same || !first || !shape || *shape != *output->type.shape) return;
  if (!is_dense(*shape, first->layout)) return;
  // Arithmetic treats tensors that are contiguous only because of a size of 1 as contiguous.
  const bool exact = first->exact && (copies || !has_size_one(*shape));
  Layout layout = first->layout;
  layout.offset = 0;
  set(output, std::move(layout), exact, false);
}

}  // namespace onnx_native::aten
