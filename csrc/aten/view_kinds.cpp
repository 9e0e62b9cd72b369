#include "aten/view_kinds.h"

#include <algorithm>
#include <numeric>

namespace onnx_native::aten {
namespace {

std::optional<int64_t> rank_of(const Type& type) {
  if (!type.shape) return std::nullopt;
  return static_cast<int64_t>(type.shape->size());
}

std::vector<int64_t> dims_argument(const Node& node, std::string_view name, int64_t rank) {
  std::vector<int64_t> result;
  const Argument* argument = find_argument(node, name);
  const auto add = [&](const Argument& item) {
    if (const auto* dim = item.get<int64_t>()) result.push_back(*dim < 0 ? *dim + rank : *dim);
  };
  if (!argument) return result;
  if (const auto* list = argument->get<Argument::List>()) {
    std::for_each(list->begin(), list->end(), add);
  } else {
    add(*argument);
  }
  return result;
}

bool is_permutation(const std::vector<int64_t>& order, int64_t rank) {
  std::vector<bool> seen(static_cast<size_t>(rank));
  for (const int64_t dim : order) {
    if (dim < 0 || dim >= rank || seen[static_cast<size_t>(dim)]) return false;
    seen[static_cast<size_t>(dim)] = true;
  }
  return std::ssize(order) == rank;
}

}  // namespace

const Type* base_type(const Node& node) {
  const Value* base = node.arguments.empty() ? nullptr : node.arguments[0].as_value();
  return base && base->type.is_tensor() ? &base->type : nullptr;
}

const Argument* find_argument(const Node& node, std::string_view name) {
  const int index = node.schema->index(name);
  return index < 0 || static_cast<size_t>(index) >= node.arguments.size() ? nullptr
                                                                          : &node.arguments[index];
}

std::optional<int64_t> int_argument(const Node& node, std::string_view name) {
  const Argument* argument = find_argument(node, name);
  const auto* value = argument ? argument->get<int64_t>() : nullptr;
  return value ? std::optional(*value) : std::nullopt;
}

std::optional<int64_t> dim_argument(const Node& node, std::string_view name) {
  const auto dim = int_argument(node, name);
  if (!dim || *dim >= 0) return dim;
  const Type* type = base_type(node);
  const auto rank = type ? rank_of(*type) : std::nullopt;
  return rank ? std::optional(*dim + *rank) : std::nullopt;
}

std::optional<Dim> size_of(const Argument& argument) {
  if (const auto* number = argument.get<int64_t>()) return *number;
  const Value* value = argument.as_value();
  return value ? value->type.dim : std::nullopt;
}

std::optional<Dim> size_argument(const Node& node, std::string_view name) {
  const Argument* argument = find_argument(node, name);
  return argument ? size_of(*argument) : std::nullopt;
}

std::optional<std::vector<int64_t>> permutation(const Node& view, ViewKind kind) {
  const Type* type = base_type(view);
  const auto rank = type ? rank_of(*type) : std::nullopt;
  if (!rank) return std::nullopt;
  std::vector<int64_t> order(static_cast<size_t>(*rank));
  std::iota(order.begin(), order.end(), 0);
  switch (kind) {
    case ViewKind::reverse:
      std::reverse(order.begin(), order.end());
      return order;
    case ViewKind::last_two:
    case ViewKind::conjugate_last:
      if (*rank >= 2) std::swap(order[order.size() - 1], order[order.size() - 2]);
      return order;
    case ViewKind::transpose: {
      if (*rank == 0) return order;  // of dimensions 0 and -1
      const bool named = view.schema->index("dim0") >= 0;
      const auto a = dim_argument(view, named ? "dim0" : "axis0");
      const auto b = dim_argument(view, named ? "dim1" : "axis1");
      if (!a || !b || *a < 0 || *a >= *rank || *b < 0 || *b >= *rank) return std::nullopt;
      std::swap(order[static_cast<size_t>(*a)], order[static_cast<size_t>(*b)]);
      return order;
    }
    case ViewKind::permute:
      order = dims_argument(view, "dims", *rank);
      return is_permutation(order, *rank) ? std::optional(std::move(order)) : std::nullopt;
    case ViewKind::movedim: {
      if (*rank == 0) return order;
      const auto source = dims_argument(view, "source", *rank);
      const auto destination = dims_argument(view, "destination", *rank);
      if (source.size() != destination.size()) return std::nullopt;
      std::fill(order.begin(), order.end(), -1);
      for (size_t i = 0; i < source.size(); ++i) {
        if (destination[i] < 0 || destination[i] >= *rank) return std::nullopt;
        order[static_cast<size_t>(destination[i])] = source[i];
      }
      int64_t next = 0;
      for (int64_t& dim : order) {
        if (dim >= 0) continue;
        while (std::find(source.begin(), source.end(), next) != source.end()) ++next;
        dim = next++;
      }
      return is_permutation(order, *rank) ? std::optional(std::move(order)) : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

std::optional<int64_t> split_dim(const Node& view) {
  const std::string& name = view.schema->name;
  if (name == "aten::vsplit") return 0;
  if (name == "aten::dsplit") return 2;
  if (name != "aten::hsplit") return dim_argument(view, "dim");
  const Type* type = base_type(view);
  if (!type || !type->shape) return std::nullopt;
  return type->shape->size() == 1 ? 0 : 1;
}

}  // namespace onnx_native::aten
