// Evaluates the calls that ask for strides: is_contiguous, stride, storage_offset.
#include "aten/strides.h"

#include <algorithm>

#include "aten/torch_types.h"
#include "readers/jit/interpreter.h"

namespace onnx_native::readers::jit {
namespace {

using aten::Condition;

[[noreturn]] void fail_unknown(const Call& call, const aten::Value& value) {
  call.run.unsupported(concat("the strides of %", value.name,
                              " are unknown; call contiguous() before reading them"));
}

const aten::KnownLayout& known_layout(const Call& call, const aten::Value* value) {
  const aten::KnownLayout* known = call.run.recorder().layouts().find(value);
  if (!known) fail_unknown(call, *value);
  return *known;
}

Item record_binary(const Call& call, const char* op, const Item& a, const Item& b) {
  return call.run.record_number(op, {call.run.argument(a), call.run.argument(b)});
}

Item truth(const Call& call, const char* op, const Item& a, const Item& b) {
  const bool either = std::string_view(op) == "python::or_";
  for (const auto& [known, other] : {std::pair(&a, &b), {&b, &a}}) {
    if (const auto value = known->boolean()) return *value == either ? *known : *other;
  }
  return record_binary(call, op, a, b);
}

// Converts a condition on sizes to a bool Item.
Item decided(const Call& call, const Condition& condition) {
  if (condition.truth != Condition::Truth::depends)
    return c10::IValue(condition.truth == Condition::Truth::holds);
  Item all = c10::IValue(true);
  for (const Condition::Clause& clause : condition.clauses) {
    Item any = c10::IValue(false);
    for (const Condition::Case& equalities : clause) {
      Item both = c10::IValue(true);
      for (const auto& [a, b, equal] : equalities)
        both = truth(call, "python::and_", both,
                     record_binary(call, equal ? "python::eq" : "python::ne", a, b));
      any = truth(call, "python::or_", any, both);
    }
    all = truth(call, "python::and_", all, any);
  }
  return all;
}

std::optional<Items> is_contiguous(const Call& call) {
  const aten::Value* self = call.input(0).tensor();
  if (!self) return std::nullopt;
  std::string format = "contiguous_format";
  if (call.size() > 1) {
    const auto asked = call.input(1).integer();
    if (!asked) call.run.unsupported("the memory format must be a constant");
    format = aten::memory_format_name(static_cast<c10::MemoryFormat>(*asked));
  }
  if (!self->type.shape) fail_unknown(call, *self);
  const Shape& shape = *self->type.shape;
  const size_t rank = format == "channels_last" ? 4 : format == "channels_last_3d" ? 5 : 0;
  if (rank != 0 && shape.size() != rank) return one(c10::IValue(false));
  const Condition condition =
      aten::is_contiguous(self->type, known_layout(call, self).layout, format);
  if (condition.truth == Condition::Truth::unknown) fail_unknown(call, *self);
  Item result = decided(call, condition);
  if (rank != 0) return one(result);
  // A tensor without elements is contiguous.
  for (const Dim& size : shape) {
    if (result.boolean() == true) break;
    if (size.equals(0)) return one(c10::IValue(true));
    if (!size.known_positive(false))
      result = truth(call, "python::or_", result, record_binary(call, "python::eq", size, Dim(0)));
  }
  return one(result);
}

// Returns true if the clause can only hold if some size is 1.
bool needs_size_one(const Condition::Clause& clause) {
  return std::ranges::all_of(clause, [](const Condition::Case& equalities) {
    return std::ranges::any_of(equalities, [](const Condition::Equality& equality) {
      return equality.equal && (equality.a.equals(1) || equality.b.equals(1));
    });
  });
}

// Replaces sizes that may be 0 by max(size, 1), because PyTorch does so when it computes strides.
Dim of_positive_sizes(const Dim& stride) {
  return stride.substitute([&](std::string_view name) -> std::optional<Dim> {
    std::optional<Dim> result;
    stride.for_each_symbol([&](const Dim::Factor& symbol) {
      if (symbol.name == name && symbol.range.low.value_or(0) <= 0)
        result = Dim::max(Dim::of(symbol), 1);
    });
    return result;
  });
}

// The same for a storage offset, a sum of products of strides and indices. A factor that is not a
// plain symbol is an index (a min or max) and does not change.
Dim of_positive_strides(const Dim& offset) {
  Dim result = 0;
  for (const Dim::Term& term : offset.terms()) {
    Dim product = term.coefficient;
    for (const Dim::Factor& factor : term.factors) {
      const bool index = factor.kind != Dim::Atom::symbol;
      product = product * (index ? Dim::of(factor) : of_positive_sizes(Dim::of(factor)));
    }
    result = result + product;
  }
  return result;
}

Items strides_of(const Call& call, const aten::Value* self) {
  const aten::KnownLayout known = known_layout(call, self);
  if (!known.exact && !known.unless) fail_unknown(call, *self);
  Items items;
  for (size_t i = 0; i < known.layout.strides.size(); ++i) {
    const aten::Stride& stride = known.layout.strides[i];
    const aten::Stride& other = known.unless ? known.unless->second.at(i) : stride;
    if (!stride || !other) fail_unknown(call, *self);
    const Dim size = of_positive_sizes(*stride);
    const Dim size_unless = of_positive_sizes(*other);
    if (size == size_unless) {
      items.emplace_back(size);
      continue;
    }
    items.push_back(call.run
                        .branch(
                            decided(call, known.unless->first), [&] { return one(size_unless); },
                            [&] { return one(size); })
                        .at(0));
  }
  return items;
}

std::optional<Items> strides(const Call& call) {
  const aten::Value* self = call.input(0).tensor();
  if (!self) return std::nullopt;
  Items items = strides_of(call, self);
  if (call.size() < 2)
    return one(make_container(Container::Kind::list, std::move(items), c10::ListType::ofInts()));
  const auto axis = call.input(1).integer();
  const auto rank = static_cast<int64_t>(items.size());
  if (!axis) call.run.unsupported("the axis of stride() must be a constant");
  if (*axis < -rank || *axis >= rank)
    fail(ErrorKind::invalid_program, "stride(", *axis, ") is out of range for a tensor of rank ",
         rank);
  return one(items[static_cast<size_t>(*axis < 0 ? *axis + rank : *axis)]);
}

std::optional<Items> storage_offset(const Call& call) {
  const aten::Value* self = call.input(0).tensor();
  if (!self) return std::nullopt;
  const aten::Stride& offset = known_layout(call, self).layout.offset;
  if (!offset) fail_unknown(call, *self);
  return one(of_positive_strides(*offset));
}

}  // namespace

void Interpreter::check_viewable(const Item& base, const Item& view) {
  if (recorder_.frame().parent) return;  // the branch may never run
  const aten::Type& from = base.tensor()->type;
  const aten::Type& to = view.tensor()->type;
  const aten::KnownLayout* known = recorder_.layouts().find(base.tensor());
  if (!known || !from.shape || !to.shape) return;
  const Condition condition = aten::is_viewable(*from.shape, known->layout, *to.shape);
  if (condition.truth == Condition::Truth::fails ||
      std::ranges::any_of(condition.clauses, needs_size_one))
    fail(ErrorKind::invalid_program, "the strides of %", base.tensor()->name,
         " do not allow view(); call reshape() or contiguous() first");
}

void add_stride_handlers(Handlers& handlers) {
  handlers["aten::is_contiguous"].push_back(is_contiguous);
  handlers["aten::stride"].push_back(strides);
  handlers["aten::storage_offset"].push_back(storage_offset);
}

}  // namespace onnx_native::readers::jit
