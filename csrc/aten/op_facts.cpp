#include "aten/op_facts.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <iterator>
#include <unordered_map>

namespace onnx_native::aten {
namespace {

bool in_scattered_family(std::string_view name) {
  return std::ranges::any_of(scattered_families(),
                             [name](std::string_view family) { return name.starts_with(family); });
}

std::unordered_map<std::string_view, OpFacts> make_table() {
  std::unordered_map<std::string_view, OpFacts> table;
  for (const OpFactsRow& row : fact_rows()) {
    OpFacts& facts = table.emplace(row.name, row.facts).first->second;
    if (in_scattered_family(row.name) && facts.strides == Strides::of_operands)
      facts.strides = Strides::scattered;
  }
  return table;
}

// Returns the row with this name; nullptr if there is none.
const OpFacts* find_row(std::string_view name) {
  static const std::unordered_map<std::string_view, OpFacts> table = make_table();
  const auto at = table.find(name);
  return at == table.end() ? nullptr : &at->second;
}

bool has_tag(std::string_view name, const std::string& overload, at::Tag tag) {
  const auto found = c10::Dispatcher::singleton().findSchema({std::string(name), overload});
  return found && found->hasTag(tag);
}

bool has_tag(const Schema& schema, at::Tag tag) {
  return has_tag(schema.name, schema.overload, tag);
}

std::string_view without(std::string_view name, std::string_view suffix) {
  if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
  return name;
}

// Returns the view that the row with this name says; ViewKind::none if there is no such row.
ViewKind view_in_row(std::string_view name) {
  const OpFacts* facts = find_row(name);
  return facts ? facts->view : ViewKind::none;
}

bool is_integer(const SchemaType& type) {
  return type.kind == TypeKind::integer || type.kind == TypeKind::sym_int;
}

}  // namespace

const OpFacts& facts_of(const Schema& schema) {
  static constexpr OpFacts kNone;
  static constexpr OpFacts kScattered{.strides = Strides::scattered};
  if (!schema.overload.empty()) {
    if (const OpFacts* row = find_row(schema.key)) return *row;
  }
  if (const OpFacts* row = find_row(schema.name)) return *row;
  return in_scattered_family(schema.name) ? kScattered : kNone;
}

ViewFacts facts_of(ViewKind kind) {
  switch (kind) {
    case ViewKind::none:
    case ViewKind::dropout:
    case ViewKind::conjugate:
    case ViewKind::conjugate_copy:
    case ViewKind::view_as_complex:
      return {};
    case ViewKind::identity:
    case ViewKind::contiguous:
    case ViewKind::reshape:
    case ViewKind::copy_reshape:
      return {.moves_elements = true, .keeps_order = true};
    case ViewKind::to:
    case ViewKind::sum_to_size:
      return {.keeps_order = true};
    case ViewKind::expand:
    case ViewKind::select:
    case ViewKind::slice:
    case ViewKind::narrow:
    case ViewKind::unbind:
    case ViewKind::split:
      return {.moves_elements = true, .scatters = true, .keeps_order = true};
    case ViewKind::transpose:
    case ViewKind::permute:
    case ViewKind::last_two:
      return {.moves_elements = true, .scatters = true};
    case ViewKind::real:
    case ViewKind::imag:
    case ViewKind::view_as_real:
      return {.scatters = true, .keeps_order = true};
    case ViewKind::diagonal:
    case ViewKind::as_strided:
    case ViewKind::unfold:
    case ViewKind::movedim:
    case ViewKind::reverse:
    case ViewKind::conjugate_last:
    case ViewKind::several:
    case ViewKind::einsum:
    case ViewKind::other:
      return {.scatters = true};
  }
  return {};
}

bool is_check(const Schema& schema) {
  return (schema.returns.empty() && !schema.is_mutable()) || facts_of(schema).check;
}

ViewKind kind_of(const Schema& schema) {
  if (schema.is_mutable()) return ViewKind::none;
  const ViewKind kind = facts_of(schema).view;
  return kind == ViewKind::none && schema.is_view() ? ViewKind::other : kind;
}

bool changes_geometry(const Schema& schema) {
  return schema.is_mutable() && has_tag(schema, at::Tag::inplace_view);
}

bool reshapes_in_place(const Schema& schema) {
  if (!changes_geometry(schema)) return false;
  const ViewKind kind = view_in_row(without(schema.name, "_"));
  return kind == ViewKind::reshape || kind == ViewKind::transpose || kind == ViewKind::last_two;
}

bool is_pointwise(const Schema& schema) {
  const auto holds = [&schema](std::string_view name) {
    const OpFacts* row = find_row(name);
    return (row && row->pointwise) || has_tag(name, schema.overload, at::Tag::pointwise);
  };
  if (facts_of(schema).pointwise || holds(schema.name)) return true;
  // Operators in place lack tags of their functional forms.
  return schema.is_mutable() && schema.name.ends_with('_') && holds(without(schema.name, "_"));
}

bool is_item(const Schema& schema) {
  return schema.arguments.size() == 1 && schema.arguments[0].type.kind == TypeKind::tensor &&
         schema.returns.size() == 1 && schema.returns[0].type.kind == TypeKind::scalar;
}

ViewKind kind_by_shape(const Schema& schema) {
  const bool has_shape = std::ranges::any_of(schema.arguments, [](const SchemaArgument& argument) {
    return argument.type.list && role_of(argument) == ArgumentRole::sizes;
  });
  if (!has_shape || schema.index("stride") >= 0 || schema.is_mutable()) return ViewKind::none;
  const ViewKind kind =
      schema.name.ends_with("_copy") ? view_in_row(without(schema.name, "_copy")) : kind_of(schema);
  switch (kind) {
    case ViewKind::reshape:
    case ViewKind::expand:
      return kind;
    case ViewKind::copy_reshape:
      return ViewKind::reshape;
    default:
      return ViewKind::none;
  }
}

bool has_fixed_pieces(const Schema& schema) {
  return facts_of(schema).view == ViewKind::split &&
         std::ranges::none_of(schema.arguments, [](const SchemaArgument& argument) {
           return is_integer(argument.type) && !argument.type.list &&
                  (argument.name == "split_size" || argument.name == "chunks");
         });
}

bool is_over_packed_sequence(const Schema& schema) {
  const int steps = schema.index("batch_sizes");
  return steps >= 0 && schema.index("hx") >= 0 &&
         schema.arguments[static_cast<size_t>(steps)].type.kind == TypeKind::tensor;
}

Quantized quantized_of(const Schema& schema) {
  const OpFacts& facts = facts_of(schema);
  if (facts.quantized != Quantized::unknown) return facts.quantized;
  return facts_of(kind_of(schema)).moves_elements ? Quantized::kept : Quantized::unknown;
}

ArgumentRole role_of(const SchemaArgument& argument) {
  static constexpr std::pair<std::string_view, ArgumentRole> kOfTensors[] = {
      {"condition", ArgumentRole::place}, {"index", ArgumentRole::place},
      {"indices", ArgumentRole::place},   {"mask", ArgumentRole::place},
      {"other", ArgumentRole::element},   {"self", ArgumentRole::element},
      {"src", ArgumentRole::element},     {"value", ArgumentRole::element},
  };
  static constexpr std::pair<std::string_view, ArgumentRole> kOfIntegers[] = {
      {"axis0", ArgumentRole::axis},      {"axis1", ArgumentRole::axis},
      {"dim", ArgumentRole::axis},        {"dim0", ArgumentRole::axis},
      {"dim1", ArgumentRole::axis},       {"destination", ArgumentRole::axis},
      {"dims", ArgumentRole::axes},       {"end_dim", ArgumentRole::axis},
      {"source", ArgumentRole::axis},     {"start_dim", ArgumentRole::axis},
      {"shape", ArgumentRole::sizes},     {"size", ArgumentRole::sizes},
      {"repeats", ArgumentRole::repeats},
  };
  static constexpr std::pair<std::string_view, ArgumentRole> kOfNumbers[] = {
      {"fill_value", ArgumentRole::element}, {"other", ArgumentRole::element},
      {"s", ArgumentRole::element},          {"self", ArgumentRole::element},
      {"value", ArgumentRole::element},
  };
  const auto find = [&argument](const auto& roles) {
    const auto* at =
        std::ranges::find(roles, argument.name, &std::pair<std::string_view, ArgumentRole>::first);
    return at == std::end(roles) ? ArgumentRole::other : at->second;
  };
  switch (argument.type.kind) {
    case TypeKind::tensor:
      return find(kOfTensors);
    case TypeKind::integer:
    case TypeKind::sym_int:
      return find(kOfIntegers);
    case TypeKind::scalar:
    case TypeKind::floating:
      return find(kOfNumbers);
    default:
      return ArgumentRole::other;
  }
}

}  // namespace onnx_native::aten
