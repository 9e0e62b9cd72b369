#include "capture/memory_layouts.h"

#include <c10/core/SymNodeImpl.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "aten/layouts.h"
#include "aten/op_facts.h"
#include "aten/view_kinds.h"
#include "aten/views.h"
#include "aten/visit.h"
#include "base/error.h"
#include "capture/recorded_tensor.h"

namespace onnx_native::capture {
namespace {

void add_dynamic(const aten::Value& value, MemoryLayout::Sizes& sizes) {
  if (!value.type.is_tensor() || !value.type.shape) return;
  for (const Dim& size : *value.type.shape)
    if (!size.is_constant()) sizes.try_emplace(size.str(), size);
}

bool is_static(const Shape& shape) {
  return std::ranges::all_of(shape, [](const Dim& size) { return size.is_constant(); });
}

// Returns the layout with the example's order of the dimensions; nullopt if the order is not clear,
// or the tensor is not dense.
std::optional<aten::Layout> layout_in_order(const Shape& shape, const at::Tensor& meta,
                                            const Decisions& decisions) {
  std::vector<size_t> order(shape.size());
  std::iota(order.rbegin(), order.rend(), size_t{0});  // from the innermost
  const auto stride_of = [&](size_t axis) { return meta.stride(static_cast<int64_t>(axis)); };
  const auto size_of = [&](size_t axis) { return meta.size(static_cast<int64_t>(axis)); };
  const auto small_sizes = std::ranges::count_if(
      order, [&](size_t axis) { return !shape[axis].is_constant() && size_of(axis) < 2; });
  if (!is_row_major(meta) || small_sizes > 1) {
    if (small_sizes > 0) return std::nullopt;  // their strides do not show the order
    std::ranges::stable_sort(
        order, {}, [&](size_t axis) { return std::pair(stride_of(axis), size_of(axis)); });
  }
  aten::Layout layout{.strides = {shape.size(), Dim(0)}, .offset = Dim(0)};
  Dim next = 1;
  for (const size_t axis : order) {
    if (stride_of(axis) == 0) continue;  // expanded
    if (decisions.stand_in(next) != stride_of(axis)) return std::nullopt;
    layout.strides[axis] = next;
    next = next * shape[axis];
  }
  return layout;
}

std::optional<aten::Layout> layout_of_example(const at::Tensor& meta) {
  aten::Layout layout{.strides = {}, .offset = Dim(meta.storage_offset())};
  for (const int64_t stride : meta.strides()) layout.strides.emplace_back(Dim(stride));
  return layout;
}

std::string_view name_of(at::MemoryFormat format) {
  return format == at::MemoryFormat::ChannelsLast     ? "channels_last"
         : format == at::MemoryFormat::ChannelsLast3d ? "channels_last_3d"
                                                      : "contiguous_format";
}

// The answer to a question about a layout. Notes the guards when the program asks for it.
class Answer final : public c10::SymNodeImpl {
 public:
  Answer(std::shared_ptr<const int> token, aten::Condition condition, MemoryLayout::Sizes above_one)
      : token_(std::move(token)),
        condition_(std::move(condition)),
        above_one_(std::move(above_one)) {}

  bool is_bool() override { return true; }
  bool is_symbolic() override { return true; }
  std::optional<bool> constant_bool() override { return std::nullopt; }
  bool bool_() override { return decided(); }
  bool guard_bool(const char* /*file*/, int64_t /*line*/) override { return decided(); }
  bool expect_true(const char* /*file*/, int64_t /*line*/) override { return decided(); }
  bool guard_or_false(const char* /*file*/, int64_t /*line*/) override { return false; }
  bool guard_or_true(const char* /*file*/, int64_t /*line*/) override { return true; }
  std::string str() override { return "whether a tensor is contiguous"; }

 private:
  bool decided() const {
    Decisions* decisions = active_decisions();
    TORCH_CHECK(decisions && decisions->token() == token_,
                "a tensor that onnx_native recorded is used outside of its capture");
    if (condition_.truth == aten::Condition::Truth::unknown)
      decisions->refuse("the program asks for the layout of a tensor whose strides are not known");
    decide(above_one_, *decisions);
    return decide(condition_, "contiguous", *decisions);
  }

  std::shared_ptr<const int> token_;
  aten::Condition condition_;
  MemoryLayout::Sizes above_one_;
};

}  // namespace

// Returns true if the layout has the strides of the meta tensor in the example.
bool MemoryLayouts::fits(const MemoryLayout& layout, const at::Tensor& meta) const {
  const std::vector<aten::Stride>& strides = layout.layout.strides;
  if (static_cast<int64_t>(strides.size()) != meta.dim()) return false;
  for (size_t axis = 0; axis < strides.size(); ++axis) {
    const auto at = static_cast<int64_t>(axis);
    if (!strides[axis] || (!layout.above_one.empty() && meta.size(at) == 1)) continue;
    if (decisions_.stand_in(*strides[axis]) != meta.stride(at)) return false;
  }
  return true;
}

// Returns true if the value is contiguous at all sizes, and its strides are those of its sizes.
bool MemoryLayouts::is_packed(const aten::Value* value) const {
  if (!value->type.is_tensor()) return true;
  const MemoryLayout* known = find(value);
  return known && known->above_one.empty() &&
         known->layout.strides == aten::contiguous_layout(value->type)->strides;
}

MemoryLayouts::Found MemoryLayouts::in_order(const aten::Value* value,
                                             const at::Tensor& meta) const {
  const Shape& shape = *value->type.shape;
  auto layout =
      is_static(shape) ? layout_of_example(meta) : layout_in_order(shape, meta, decisions_);
  if (!layout) return std::nullopt;
  return MemoryLayout{.layout = std::move(*layout), .above_one = {}};
}

void MemoryLayouts::settle(const aten::Value* value, const at::Tensor& meta) {
  if (!value->type.is_tensor() || !value->type.shape || layouts_.contains(value)) return;
  Found found = in_order(value, meta);
  if (found && !is_row_major(meta)) add_dynamic(*value, found->above_one);
  layouts_.emplace(value, std::move(found));
}

// Returns the layout of the argument that the call writes to and returns.
MemoryLayouts::Found MemoryLayouts::written(const aten::Node& node, size_t result) const {
  if (result >= node.schema->returns.size()) return std::nullopt;
  const auto& sets = node.schema->returns[result].alias_sets;
  for (size_t i = 0; i < node.arguments.size() && !sets.empty(); ++i) {
    const aten::SchemaArgument& argument = node.schema->arguments[i];
    const aten::Value* target = node.arguments[i].as_value();
    if (!target || !argument.writes || argument.alias_sets != sets) continue;
    if (target->type.shape != node.outputs[result]->type.shape) return std::nullopt;
    const MemoryLayout* known = find(target);
    return known ? Found(*known) : std::nullopt;
  }
  return std::nullopt;
}

MemoryLayouts::Found MemoryLayouts::viewed(const aten::Node& node, size_t result,
                                           const at::Tensor& meta) const {
  const aten::Value* base = node.arguments.empty() ? nullptr : node.arguments[0].as_value();
  const MemoryLayout* known = base && base->type.is_tensor() ? find(base) : nullptr;
  if (!known || !aten::may_share(*node.schema)) return std::nullopt;
  const aten::ViewKind kind = aten::kind_of(*node.schema);
  const bool reshapes = kind == aten::ViewKind::reshape || kind == aten::ViewKind::copy_reshape;
  MemoryLayout found = *known;
  if (reshapes && known->layout.strides == aten::contiguous_layout(base->type)->strides) {
    found.layout.strides = aten::contiguous_layout(node.outputs[result]->type)->strides;
    return found;
  }
  if (kind == aten::ViewKind::contiguous || kind == aten::ViewKind::copy_reshape) {
    using Kind = aten::Sharing::Kind;
    const Kind sharing = aten::sharing(node, [&] { return std::optional(known->layout); }).kind;
    // At some sizes, the result is a copy, which is contiguous.
    if (sharing != Kind::same && sharing != Kind::view)
      return is_row_major(meta) ? computed(node, result, meta) : std::nullopt;
  }
  try {
    std::optional<aten::Layout> layout =
        aten::view_layout(node, static_cast<int>(result), known->layout);
    if (!layout) return std::nullopt;
    found.layout = std::move(*layout);
  } catch (const ExportError&) {
    return std::nullopt;
  }
  // A reshape gives dimensions of size 1 other strides, and an expanded dimension of size 1 keeps
  // its stride.
  if (reshapes) add_dynamic(*base, found.above_one);
  if (reshapes || kind == aten::ViewKind::expand)
    add_dynamic(*node.outputs[result], found.above_one);
  return found;
}

// Returns the layout of a new tensor.
MemoryLayouts::Found MemoryLayouts::computed(const aten::Node& node, size_t result,
                                             const at::Tensor& meta) const {
  const aten::Value* value = node.outputs[result];
  const auto is_scattered = [this](const aten::Value* operand) { return !is_packed(operand); };
  if (!aten::may_scatter(node, is_scattered)) {
    Found packed = MemoryLayout{.layout = *aten::contiguous_layout(value->type), .above_one = {}};
    if (fits(*packed, meta)) return packed;
  }
  Found found = in_order(value, meta);
  if (!found) return found;
  for (const aten::Argument& argument : node.arguments) {
    aten::for_each_value(argument, [&](const aten::Value* operand) {
      add_dynamic(*operand, found->above_one);
      if (const MemoryLayout* known = find(operand))
        found->above_one.insert(known->above_one.begin(), known->above_one.end());
    });
  }
  return found;
}

void MemoryLayouts::record(const aten::Node& node, const std::vector<at::Tensor>& metas,
                           const std::function<bool(const at::Tensor&)>& is_view) {
  if (!node.schema) return;
  for (size_t i = 0; i < std::min(node.outputs.size(), metas.size()); ++i) {
    const aten::Value* value = node.outputs[i];
    if (!value->type.is_tensor() || !value->type.shape) continue;
    Found found = !is_view(metas[i])          ? computed(node, i, metas[i])
                  : node.schema->is_mutable() ? written(node, i)
                                              : viewed(node, i, metas[i]);
    if (found && !fits(*found, metas[i])) found.reset();
    layouts_.insert_or_assign(value, std::move(found));
  }
}

void MemoryLayouts::copy(const aten::Value* from, const aten::Value* to) {
  if (const auto at = layouts_.find(from); at != layouts_.end()) {
    Found same = at->second;
    layouts_.insert_or_assign(to, std::move(same));
  }
}

const MemoryLayout* MemoryLayouts::find(const aten::Value* value) const {
  const auto at = layouts_.find(value);
  return at != layouts_.end() && at->second ? &*at->second : nullptr;
}

void decide(const MemoryLayout::Sizes& above_one, Decisions& decisions) {
  for (const auto& [text, size] : above_one)
    decisions.decide(size - Dim(1), Relation::equal, text + " == 1");
}

bool decide(const aten::Condition& condition, std::string_view what, Decisions& decisions) {
  using Case = aten::Condition::Case;
  using Clause = aten::Condition::Clause;
  using Equality = aten::Condition::Equality;
  if (condition.truth != aten::Condition::Truth::depends)
    return condition.truth == aten::Condition::Truth::holds;
  const auto equality_holds = [&](const Equality& each) {
    return (decisions.stand_in(each.a - each.b) == 0) == each.equal;
  };
  const auto holds = [&](const Case& all) { return std::ranges::all_of(all, equality_holds); };
  const auto note = [&](const Equality& each) {
    decisions.decide(each.a - each.b, Relation::equal, concat(each.a.str(), " == ", each.b.str()));
  };
  // One clause that fails is enough: the one that needs the fewest guards.
  const Clause* failing = nullptr;
  for (const Clause& clause : condition.clauses) {
    if (std::ranges::none_of(clause, holds) && (!failing || clause.size() < failing->size()))
      failing = &clause;
  }
  if (failing) {
    for (const Case& all : *failing) note(*std::ranges::find_if_not(all, equality_holds));
    return false;
  }
  const auto says_one = [](const Case& all) {
    return std::ranges::any_of(all,
                               [](const Equality& each) { return each.equal && each.b.equals(1); });
  };
  for (const Clause& clause : condition.clauses) {
    const auto good =
        std::ranges::find_if(clause, [&](const Case& all) { return holds(all) && !says_one(all); });
    if (good == clause.end())
      decisions.refuse(concat("a tensor is ", what, " only because a dynamic size is 1"));
    for (const Equality& each : *good) note(each);
  }
  return true;
}

namespace {

c10::SymBool answer(const Shape& shape, const MemoryLayout* layout, std::string_view format,
                    const Decisions& decisions) {
  aten::Condition condition{.truth = aten::Condition::Truth::unknown, .clauses = {}};
  MemoryLayout::Sizes above_one;
  if (layout) {
    condition = aten::is_contiguous(aten::Type::tensor(DType::f32, shape), layout->layout, format);
    above_one = layout->above_one;
  }
  const bool holds = condition.truth == aten::Condition::Truth::holds;
  if (above_one.empty() && (holds || condition.truth == aten::Condition::Truth::fails))
    return c10::SymBool(holds);
  return c10::SymBool(c10::SymNode(
      c10::make_intrusive<Answer>(decisions.token(), std::move(condition), std::move(above_one))));
}

}  // namespace

c10::SymBool is_contiguous(const Shape& shape, const MemoryLayout* layout, at::MemoryFormat format,
                           const Decisions& decisions) {
  const size_t rank = format == at::MemoryFormat::ChannelsLast     ? 4
                      : format == at::MemoryFormat::ChannelsLast3d ? 5
                                                                   : shape.size();
  if (rank != shape.size()) return c10::SymBool(false);
  return answer(shape, layout, name_of(format), decisions);
}

c10::SymBool is_dense(const Shape& shape, const MemoryLayout* layout, const at::Tensor& meta,
                      const Decisions& decisions) {
  std::vector<int64_t> order(shape.size());  // from the outermost
  std::iota(order.begin(), order.end(), int64_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](int64_t axis) {
    return std::pair(meta.stride(axis), meta.size(axis));
  });
  Shape sizes;
  std::vector<aten::Stride> strides;
  for (const int64_t axis : order) {
    sizes.push_back(shape[static_cast<size_t>(axis)]);
    if (layout) strides.push_back(layout->layout.strides[static_cast<size_t>(axis)]);
  }
  if (!layout) return answer(sizes, nullptr, "contiguous_format", decisions);
  const MemoryLayout sorted{.layout = {.strides = std::move(strides), .offset = {}},
                            .above_one = layout->above_one};
  return answer(sizes, &sorted, "contiguous_format", decisions);
}

}  // namespace onnx_native::capture
