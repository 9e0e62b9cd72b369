#include "aten/views.h"

#include <algorithm>
#include <limits>

#include "aten/fault.h"
#include "aten/view_kinds.h"

namespace onnx_native::aten {
namespace {

bool is_real(const Type* type) {
  return type && type->dtype != DType::undefined && !is_complex(type->dtype);
}

Sharing fresh() { return {.kind = Sharing::Kind::fresh, .condition = {}, .cause = {}}; }
Sharing same() { return {.kind = Sharing::Kind::same, .condition = {}, .cause = {}}; }
Sharing view() { return {.kind = Sharing::Kind::view, .condition = {}, .cause = {}}; }

// `maybe_same`: the result may be the argument itself.
Sharing unknown(std::string cause, bool maybe_same = false) {
  return {.kind = Sharing::Kind::unknown,
          .maybe_same = maybe_same,
          .condition = {},
          .cause = std::move(cause)};
}

Sharing unknown_strides(const Node& node, bool maybe_same) {
  return unknown(concat("whether ", node.schema->name, " made a copy depends on unknown strides"),
                 maybe_same);
}

// Returns `holds` if the condition holds, else fresh().
Sharing by(const Node& node, Condition condition, Sharing holds) {
  const bool maybe_same = holds.kind == Sharing::Kind::same;
  switch (condition.truth) {
    case Condition::Truth::holds:
      return holds;
    case Condition::Truth::fails:
      return fresh();
    case Condition::Truth::unknown:
      return unknown_strides(node, maybe_same);
    case Condition::Truth::depends:
      break;
  }
  return {.kind = Sharing::Kind::depends,
          .maybe_same = maybe_same,
          .condition = std::move(condition),
          .cause = {}};
}

Sharing of_to(const Node& node) {
  const Argument* copy = find_argument(node, "copy");
  if (copy && copy->get<bool>() && *copy->get<bool>()) return fresh();
  const Argument* format = find_argument(node, "memory_format");
  const auto* format_name = format ? format->get<std::string>() : nullptr;
  const Type* from = base_type(node);
  const Type& to = node.outputs[0]->type;
  if (!from || from->dtype == DType::undefined || to.dtype == DType::undefined) {
    return unknown(concat("whether ", node.op, " made a copy depends on an unknown dtype"), true);
  }
  if (from->dtype != to.dtype) return fresh();
  return !format_name || *format_name == "preserve_format" ? same() : unknown_strides(node, true);
}

Sharing of_contiguous(const Node& node, const std::optional<Layout>& layout) {
  const Type* type = base_type(node);
  if (!layout || !type || !type->shape) return unknown_strides(node, true);
  const Argument* argument = find_argument(node, "memory_format");
  const auto* format = argument ? argument->get<std::string>() : nullptr;
  if (format && *format == "preserve_format") return unknown_strides(node, true);
  return by(node, is_contiguous(*type, *layout, format ? *format : "contiguous_format"), same());
}

Sharing of_reshape(const Node& node, const std::function<std::optional<Layout>()>& layout) {
  const Type* type = base_type(node);
  const Type& to = node.outputs[0]->type;
  if (!type || !type->shape || !to.shape) return unknown_strides(node, false);
  if (node.schema->name == "aten::ravel") {  // contiguous, and then a view
    const std::optional<Layout> known = layout();
    if (!known) return unknown_strides(node, false);
    return by(node, is_contiguous(*type, *known, "contiguous_format"), view());
  }
  if (*type->shape == *to.shape) {
    // flatten of a single dimension returns the argument itself.
    return node.schema->name == "aten::flatten" && !to.shape->empty() ? same() : view();
  }
  const std::optional<Layout> known = layout();
  if (!known) return unknown_strides(node, false);
  return by(node, is_viewable(*type->shape, *known, *to.shape), view());
}

Sharing of_sum_to_size(const Node& node) {
  const Type* type = base_type(node);
  const Type& to = node.outputs[0]->type;
  if (!type || !type->shape || !to.shape)
    return unknown("whether aten::sum_to_size sums depends on unknown sizes");
  // Eager sums a number too. A sum of small integers has another dtype than they have.
  const bool converts =
      type->dtype != DType::undefined && to.dtype != DType::undefined && type->dtype != to.dtype;
  if (to.shape->empty() || type->shape->size() != to.shape->size() || converts) return fresh();
  return by(node, are_equal(*type->shape, *to.shape), same());
}

// An einsum computes a new tensor if it multiplies operands or sums over a label that the result
// lacks.
Sharing of_einsum(const Node& node) {
  const auto* equation = node.arguments[0].get<std::string>();
  const auto* operands = node.arguments[1].get<Argument::List>();
  if (operands && operands->size() > 1) return fresh();
  if (equation) {
    std::string inputs = *equation;
    const size_t arrow = inputs.find("->");
    const std::string output = arrow == std::string::npos ? "" : inputs.substr(arrow + 2);
    inputs.resize(std::min(inputs.size(), arrow));
    for (const char label : inputs) {
      const bool is_label = (label >= 'a' && label <= 'z') || (label >= 'A' && label <= 'Z');
      if (arrow != std::string::npos && is_label && output.find(label) == std::string::npos)
        return fresh();
    }
  }
  return unknown("an einsum of one tensor without a sum returns a view of it");
}

// Advances the offset to an element of a dimension; unknown if the stride or the index is.
void move(Stride& offset, const Stride& stride, const std::optional<Dim>& index, const Dim& size) {
  const bool known =
      offset && stride && index && (index->is_constant() || index->known_non_negative());
  if (!known) {
    offset = std::nullopt;
    return;
  }
  offset = *offset + *stride * (index->constant_or(0) < 0 ? *index + size : *index);
}

// Returns the first index of a slice. A start out of bounds is clamped to the dimension.
std::optional<Dim> first_of_slice(const Node& view, const Dim& size) {
  const Argument& start = *find_argument(view, "start");
  if (start.is_none()) return Dim(0);
  std::optional<Dim> first = size_of(start);
  if (!first) return first;
  return first->constant_or(0) < 0 ? Dim::max(*first + size, 0) : Dim::min(*first, size);
}

Stride scaled(const Stride& stride, const std::optional<Dim>& factor) {
  return stride && factor ? Stride(*stride * *factor) : std::nullopt;
}

Layout of_expand(const Shape& from, const Shape& to, const Layout& base) {
  if (to.size() < from.size()) return base;  // view_layout reports the rank
  Layout layout{.strides = std::vector<Stride>(to.size(), Dim(0)), .offset = base.offset};
  const size_t added = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) {
    Stride& stride = layout.strides[added + i];
    if (from[i] == to[added + i]) {
      stride = base.strides[i];
    } else if (!from[i].equals(1)) {
      stride = std::nullopt;  // this size may be 1
    }
  }
  return layout;
}

Layout of_as_strided(const Node& view, const Layout& base, size_t rank) {
  Layout layout{.strides = std::vector<Stride>(rank), .offset = base.offset};
  const auto* strides = find_argument(view, "stride")->get<Argument::List>();
  if (strides && strides->size() == rank) {
    for (size_t i = 0; i < rank; ++i) layout.strides[i] = size_of((*strides)[i]);
  }
  const Argument* offset = find_argument(view, "storage_offset");
  if (offset && !offset->is_none()) layout.offset = size_of(*offset);
  return layout;
}

// The layout of a complex tensor seen as pairs of real numbers.
Layout of_parts(ViewKind kind, const Layout& base) {
  Layout layout = base;
  for (Stride& stride : layout.strides) stride = scaled(stride, Dim(2));
  layout.offset = scaled(layout.offset, Dim(2));
  if (kind == ViewKind::imag && layout.offset) layout.offset = *layout.offset + 1;
  if (kind == ViewKind::view_as_real) layout.strides.emplace_back(1);
  return layout;
}

Layout of_diagonal(const Node& view, const Shape& from, const Layout& base, const Layout& unknown) {
  const auto a = dim_argument(view, "dim1");
  const auto b = dim_argument(view, "dim2");
  const auto offset = int_argument(view, "offset");
  if (!a || !b || !offset || *a == *b) return unknown;
  const auto rank = static_cast<int64_t>(from.size());
  if (*a < 0 || *b < 0 || *a >= rank || *b >= rank) return unknown;
  const auto first = static_cast<size_t>(*a);
  const auto second = static_cast<size_t>(*b);
  Layout layout = base;
  const Stride down = base.strides[first];
  const Stride right = base.strides[second];
  move(layout.offset, *offset < 0 ? down : right, Dim(std::abs(*offset)), from[0]);
  layout.strides.erase(layout.strides.begin() +
                       static_cast<std::ptrdiff_t>(std::max(first, second)));
  layout.strides.erase(layout.strides.begin() +
                       static_cast<std::ptrdiff_t>(std::min(first, second)));
  layout.strides.push_back(down && right ? Stride(*down + *right) : std::nullopt);
  return layout;
}

}  // namespace

bool is_idle_dropout(const Node& node) {
  if (kind_of(*node.schema) != ViewKind::dropout) return false;
  const auto* train = node.arguments[2].get<bool>();
  const auto* p = node.arguments[1].get<double>();
  return (train && !*train) || (p && *p == 0);
}

bool may_share(const Schema& schema) { return kind_of(schema) != ViewKind::none; }

// Returns true if the result is the argument itself, not another tensor with its memory.
static bool returns_argument(const Node& node) {
  const std::string_view op = node.schema->name;
  if (op == "aten::resolve_conj" || op == "aten::resolve_neg") return is_real(base_type(node));
  return op == "aten::lift" || op == "aten::lift_fresh" || op == "aten::positive";
}

Sharing sharing(const Node& node, const std::function<std::optional<Layout>()>& layout) {
  switch (kind_of(*node.schema)) {
    case ViewKind::none:
      return fresh();
    case ViewKind::to:
      return of_to(node);
    case ViewKind::identity:
      return returns_argument(node) ? same() : view();
    case ViewKind::dropout:
      return is_idle_dropout(node) ? same() : fresh();
    case ViewKind::contiguous:
      return of_contiguous(node, layout());
    case ViewKind::copy_reshape:
      return of_reshape(node, layout);
    case ViewKind::sum_to_size:
      return of_sum_to_size(node);
    case ViewKind::einsum:
      return of_einsum(node);
    case ViewKind::several:
      return unknown(
          concat(node.schema->name, " may return its arguments, whose shapes are unknown"), true);
    case ViewKind::conjugate_copy:
      return is_real(base_type(node)) ? same() : fresh();
    default:
      return view();
  }
}

// Returns the layout of a view, given the layout of its base, whose shape is known like that of the
// view. Its rank is that of the operator's result, whatever rank the program records.
static Layout layout_of_view(const Node& view, int output, const Layout& base) {
  const ViewKind kind = kind_of(*view.schema);
  const Type* from = base_type(view);
  const Type& to = view.outputs[static_cast<size_t>(output)]->type;
  const Layout unknown = *unknown_layout(to);
  const Shape& shape = *from->shape;
  Layout layout = base;
  switch (kind) {
    case ViewKind::identity:
    case ViewKind::to:
    case ViewKind::contiguous:
    case ViewKind::sum_to_size:
      return layout;
    case ViewKind::reshape:
    case ViewKind::copy_reshape:
      return layout_of_reshape(shape, layout, *to.shape);
    case ViewKind::expand:
      return of_expand(shape, *to.shape, layout);
    case ViewKind::as_strided:
      return of_as_strided(view, layout, to.shape->size());
    case ViewKind::diagonal:
      return of_diagonal(view, shape, layout, unknown);
    case ViewKind::real:
    case ViewKind::imag:
    case ViewKind::view_as_real:
      return is_real(from) ? layout : of_parts(kind, layout);
    case ViewKind::conjugate:
    case ViewKind::conjugate_copy:
      return layout;
    default:
      break;
  }
  if (const auto order = permutation(view, kind)) {
    for (size_t i = 0; i < order->size(); ++i)
      layout.strides[i] = base.strides[static_cast<size_t>((*order)[i])];
    return layout;
  }
  const auto dim = kind == ViewKind::split
                       ? split_dim(view)
                       : dim_argument(view, kind == ViewKind::unfold ? "dimension" : "dim");
  if (!dim || *dim < 0 || static_cast<size_t>(*dim) >= shape.size()) return unknown;
  const auto at = static_cast<size_t>(*dim);
  Stride& stride = layout.strides[at];
  switch (kind) {
    case ViewKind::select:
      move(layout.offset, stride, size_argument(view, "index"), shape[at]);
      layout.strides.erase(layout.strides.begin() + *dim);
      return layout;
    case ViewKind::unbind:
      move(layout.offset, stride, Dim(output), shape[at]);
      layout.strides.erase(layout.strides.begin() + *dim);
      return layout;
    case ViewKind::narrow:
      move(layout.offset, stride, size_argument(view, "start"), shape[at]);
      return layout;
    case ViewKind::slice: {
      move(layout.offset, stride, first_of_slice(view, shape[at]), shape[at]);
      stride = scaled(stride, size_argument(view, "step"));
      return layout;
    }
    case ViewKind::split:
      for (int i = 0; i < output; ++i) {
        const Type& piece = view.outputs[static_cast<size_t>(i)]->type;
        const bool known = piece.shape && at < piece.shape->size();
        move(layout.offset, stride, known ? std::optional((*piece.shape)[at]) : std::nullopt,
             shape[at]);
      }
      return layout;
    case ViewKind::unfold:
      stride = scaled(stride, size_argument(view, "step"));
      layout.strides.push_back(base.strides[at]);
      return layout;
    default:
      return unknown;
  }
}

std::optional<Layout> view_layout(const Node& view, int output, const std::optional<Layout>& base) {
  const Type* from = base_type(view);
  const Type& to = view.outputs[static_cast<size_t>(output)]->type;
  if (!to.shape || !base || !from || !from->shape) return unknown_layout(to);
  const auto check = [&](size_t computed, std::string_view what, size_t recorded) {
    if (computed != recorded)
      throw ExportError(ErrorKind::invalid_program,
                        {fault_at(view, concat("the ", what, " has ", computed, " dimensions, but ",
                                               "the program recorded ", recorded))});
  };
  check(base->strides.size(), "base of the view", from->shape->size());
  Layout layout = layout_of_view(view, output, *base);
  check(layout.strides.size(), "view", to.shape->size());
  return layout;
}

bool is_identity_view(const Node& view, int output) {
  const ViewKind kind = kind_of(*view.schema);
  const Type* from = base_type(view);
  switch (kind) {
    case ViewKind::identity:
    case ViewKind::to:
    case ViewKind::contiguous:
    case ViewKind::sum_to_size:
      return true;
    case ViewKind::conjugate:
    case ViewKind::real:
      return is_real(from);
    case ViewKind::slice: {
      const auto step = int_argument(view, "step");
      const Argument* start = find_argument(view, "start");
      const Argument* end = find_argument(view, "end");
      const bool from_start = start->is_none() || int_argument(view, "start") == 0;
      const bool to_end =
          end->is_none() || int_argument(view, "end") == std::numeric_limits<int64_t>::max();
      const Type& to = view.outputs[0]->type;
      const bool same_shape = from && from->shape && to.shape && *from->shape == *to.shape;
      return step == 1 && from_start && (to_end || same_shape);
    }
    case ViewKind::reshape:
    case ViewKind::copy_reshape:
    case ViewKind::expand: {
      const Type& to = view.outputs[static_cast<size_t>(output)]->type;
      return from && from->shape && to.shape && *from->shape == *to.shape;
    }
    default:
      return false;
  }
}

}  // namespace onnx_native::aten
