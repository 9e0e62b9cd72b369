#include "aten/views.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <unordered_map>

namespace onnx_native::aten {
namespace {

// What a view does to its base, as far as its inverse and its strides are concerned.
enum class View {
  none,
  identity,      // shape and elements are the base's
  to,            // identity unless it converts
  contiguous,    // identity unless it copies
  reshape,       // another shape over the same elements in the same order
  copy_reshape,  // the same, or a copy where strides forbid a view
  expand,
  select,
  slice,
  narrow,
  diagonal,
  as_strided,
  transpose,
  permute,
  movedim,
  reverse,         // numpy_T: all dimensions reversed
  last_two,        // t of a matrix, mT
  conjugate_last,  // mH, adjoint: last_two for real tensors
  conjugate,       // conj: identity for real tensors
  real,            // identity for real tensors
  imag,
  unbind,
  split,
  view_as_real,
  view_as_complex,
  other,  // views through which nothing can be written
};

View kind_of(const Schema& schema) {
  static const std::unordered_map<std::string_view, View> kinds{
      {"alias", View::identity},
      {"detach", View::identity},
      {"lift", View::identity},
      {"lift_fresh", View::identity},
      {"positive", View::identity},
      {"resolve_conj", View::identity},
      {"resolve_neg", View::identity},
      {"to", View::to},
      {"type_as", View::to},
      {"contiguous", View::contiguous},
      {"view", View::reshape},
      {"view_as", View::reshape},
      {"_reshape_alias", View::reshape},
      {"squeeze", View::reshape},
      {"unsqueeze", View::reshape},
      {"unflatten", View::reshape},
      {"atleast_1d", View::reshape},
      {"atleast_2d", View::reshape},
      {"atleast_3d", View::reshape},
      {"reshape", View::copy_reshape},
      {"reshape_as", View::copy_reshape},
      {"flatten", View::copy_reshape},
      {"ravel", View::copy_reshape},
      {"expand", View::expand},
      {"expand_as", View::expand},
      {"broadcast_to", View::expand},
      {"select", View::select},
      {"slice", View::slice},
      {"narrow", View::narrow},
      {"diagonal", View::diagonal},
      {"linalg_diagonal", View::diagonal},
      {"as_strided", View::as_strided},
      {"transpose", View::transpose},
      {"swapaxes", View::transpose},
      {"swapdims", View::transpose},
      {"permute", View::permute},
      {"movedim", View::movedim},
      {"moveaxis", View::movedim},
      {"numpy_T", View::reverse},
      {"t", View::last_two},
      {"mT", View::last_two},
      {"mH", View::conjugate_last},
      {"matrix_H", View::conjugate_last},
      {"adjoint", View::conjugate_last},
      {"conj", View::conjugate},
      {"_conj", View::conjugate},
      {"real", View::real},
      {"imag", View::imag},
      {"unbind", View::unbind},
      {"split", View::split},
      {"split_with_sizes", View::split},
      {"chunk", View::split},
      {"tensor_split", View::split},
      {"hsplit", View::split},
      {"vsplit", View::split},
      {"dsplit", View::split},
      {"view_as_real", View::view_as_real},
      {"view_as_complex", View::view_as_complex},
  };
  std::string_view name = schema.name;
  if (!name.starts_with("aten::")) return schema.is_view() ? View::other : View::none;
  name.remove_prefix(6);
  if (const auto at = kinds.find(name); at != kinds.end()) {
    const bool of_dtype = schema.overload == "dtype";  // view.dtype: reads bits anew
    return at->second == View::reshape && of_dtype ? View::other : at->second;
  }
  return schema.is_view() ? View::other : View::none;
}

bool is_dropout(std::string_view name) {
  return name == "aten::dropout" || name == "aten::feature_dropout" ||
         name == "aten::alpha_dropout" || name == "aten::feature_alpha_dropout";
}

// Their schemas do not tell that results may share memory with arguments.
bool shares_silently(std::string_view name) {
  return name == "aten::einsum" || name == "aten::meshgrid" || name == "aten::broadcast_tensors";
}

const Type* base_type(const Node& node) {
  const Value* base = node.arguments.empty() ? nullptr : node.arguments[0].as_value();
  return base && base->type.is_tensor() ? &base->type : nullptr;
}

std::optional<int64_t> rank_of(const Type& type) {
  if (!type.shape) return std::nullopt;
  return static_cast<int64_t>(type.shape->size());
}

const Argument* find(const Node& node, std::string_view name) {
  const int index = node.schema->index(name);
  return index < 0 || static_cast<size_t>(index) >= node.arguments.size() ? nullptr
                                                                          : &node.arguments[index];
}

std::optional<int64_t> int_argument(const Node& node, std::string_view name) {
  const Argument* argument = find(node, name);
  const auto* value = argument ? argument->get<int64_t>() : nullptr;
  return value ? std::optional(*value) : std::nullopt;
}

// A dimension argument, counted from the front; nullopt when the rank is needed and not known.
std::optional<int64_t> dim_argument(const Node& node, std::string_view name) {
  const auto dim = int_argument(node, name);
  if (!dim || *dim >= 0) return dim;
  const Type* type = base_type(node);
  const auto rank = type ? rank_of(*type) : std::nullopt;
  return rank ? std::optional(*dim + *rank) : std::nullopt;
}

std::vector<int64_t> dims_argument(const Node& node, std::string_view name, int64_t rank) {
  std::vector<int64_t> result;
  const Argument* argument = find(node, name);
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

// For views that only reorder dimensions: which of the base's dimensions each of the view's is;
// nullopt where the rank is not known or the arguments do not fit it.
std::optional<std::vector<int64_t>> permutation(const Node& view, View kind) {
  const Type* type = base_type(view);
  const auto rank = type ? rank_of(*type) : std::nullopt;
  if (!rank) return std::nullopt;
  if (*rank == 0) return std::vector<int64_t>();  // which has a dimension 0 and -1 for movedim
  std::vector<int64_t> order(static_cast<size_t>(*rank));
  std::iota(order.begin(), order.end(), 0);
  switch (kind) {
    case View::reverse:
      std::reverse(order.begin(), order.end());
      return order;
    case View::last_two:
    case View::conjugate_last:
      if (*rank >= 2) std::swap(order[order.size() - 1], order[order.size() - 2]);
      return order;
    case View::transpose: {
      const bool named = view.schema->index("dim0") >= 0;
      const auto a = dim_argument(view, named ? "dim0" : "axis0");
      const auto b = dim_argument(view, named ? "dim1" : "axis1");
      if (!a || !b || *a < 0 || *a >= *rank || *b < 0 || *b >= *rank) return std::nullopt;
      std::swap(order[static_cast<size_t>(*a)], order[static_cast<size_t>(*b)]);
      return order;
    }
    case View::permute:
      order = dims_argument(view, "dims", *rank);
      return is_permutation(order, *rank) ? std::optional(std::move(order)) : std::nullopt;
    case View::movedim: {
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

bool has_strides(const Type& type, const std::vector<Dim>& strides,
                 const std::vector<Dim>& expected) {
  for (size_t i = 0; i < strides.size(); ++i) {
    if (!(strides[i] == expected[i]) && !(*type.shape)[i].equals(1)) return false;
  }
  return true;
}

// The strides that let `strides` over `from` be seen as `to` without a copy; nullopt when there are
// none. ATen/TensorUtils.cpp, computeStride. Symbolic sizes that differ in form are taken to
// differ, as torch.export takes them when it captures.
Strides strides_of_reshape(const Shape& from, const std::vector<Dim>& strides, const Shape& to) {
  if (from.empty()) return std::vector<Dim>(to.size(), Dim(1));
  std::vector<Dim> result(to.size());
  auto at = static_cast<int64_t>(to.size()) - 1;
  Dim base = strides.back();
  Dim from_numel = 1;
  Dim to_numel = 1;
  for (size_t d = from.size(); d-- > 0;) {
    from_numel = from_numel * from[d];
    if (d > 0 && (from[d - 1].equals(1) || strides[d - 1] == from_numel * base)) continue;
    while (at >= 0 && (!(to_numel == from_numel) || to[static_cast<size_t>(at)].equals(1))) {
      result[static_cast<size_t>(at)] = to_numel * base;
      to_numel = to_numel * to[static_cast<size_t>(at)];
      --at;
    }
    if (!(to_numel == from_numel)) return std::nullopt;
    if (d > 0) {
      base = strides[d - 1];
      from_numel = to_numel = 1;
    }
  }
  return at == -1 ? Strides(result) : std::nullopt;
}

Sharing sharing_of_to(const Node& node) {
  const Argument* copy = find(node, "copy");
  if (copy && copy->get<bool>() && *copy->get<bool>()) return Sharing::fresh;
  const Argument* format = find(node, "memory_format");
  const auto* format_name = format ? format->get<std::string>() : nullptr;
  const Type* from = base_type(node);
  const Type& to = node.outputs[0]->type;
  if (!from || from->dtype == DType::undefined || to.dtype == DType::undefined) {
    return Sharing::unknown;
  }
  if (from->dtype != to.dtype) return Sharing::fresh;
  return !format_name || *format_name == "preserve_format" ? Sharing::same : Sharing::unknown;
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

// Emits the nodes of one write-back.
class WriteBack {
 public:
  WriteBack(Graph& graph, const Node& view, Value* base, Value* written, std::string_view name)
      : graph_(graph), view_(view), base_(base), written_(written), name_(name) {}

  Value* reshape() {
    if (!base_->type.shape) return emit("aten::reshape_as", {written_, base_});
    const Shape& shape = *base_->type.shape;
    const auto symbolic = std::count_if(shape.begin(), shape.end(),
                                        [](const Dim& size) { return !size.is_constant(); });
    const bool has_zero =
        std::any_of(shape.begin(), shape.end(), [](const Dim& size) { return size.equals(0); });
    Argument::List sizes;
    for (size_t i = 0; i < shape.size(); ++i) {
      const bool inferred = symbolic == 1 && !has_zero && !shape[i].is_constant();
      sizes.push_back(inferred ? Argument(int64_t{-1}) : size_argument(i));
    }
    return emit("aten::reshape", {written_, std::move(sizes)});
  }

  Value* permute(View kind) {
    if (view_.schema->name == "aten::t" || kind == View::transpose) {
      std::vector<Argument> arguments = view_.arguments;
      arguments[0] = written_;
      return emit(view_.op, std::move(arguments));
    }
    const auto order = permutation(view_, kind);
    if (!order) fail_unsupported(view_, "a write through a permutation of unknown rank or order");
    Argument::List inverse(order->size(), Argument(int64_t{0}));
    for (size_t i = 0; i < order->size(); ++i) {
      inverse[static_cast<size_t>((*order)[i])] = static_cast<int64_t>(i);
    }
    return emit("aten::permute", {written_, std::move(inverse)});
  }

  // The scatter operators take what their view takes, with the written value after the base.
  Value* scatter(const char* op, Value* base) {
    std::vector<Argument> arguments = view_.arguments;
    arguments[0] = base;
    arguments.insert(arguments.begin() + 1, written_);
    return emit(op, std::move(arguments));
  }

  Value* unbind(int output, Value* base) {
    return emit("aten::select_scatter",
                {base, written_, *find(view_, "dim"), static_cast<int64_t>(output)});
  }

  Value* narrow(Value* base) {
    const auto start = int_argument(view_, "start");
    const auto length = int_argument(view_, "length");
    if (!start || !length || (*start < 0 && *start + *length >= 0)) {
      fail_unsupported(view_, "a write through narrow with sizes that are not constant");
    }
    return slice_scatter(base, *find(view_, "dim"), *start, *start + *length);
  }

  Value* split(int output, Value* base) {
    const auto dim = split_dim(view_);
    Dim start = 0;
    Dim end = 0;
    for (int i = 0; dim && i <= output; ++i) {
      const Type& piece = view_.outputs[static_cast<size_t>(i)]->type;
      if (!piece.shape) fail_unsupported(view_, "a write through a split of unknown shape");
      start = end;
      end = end + (*piece.shape)[static_cast<size_t>(*dim)];
    }
    if (!dim || !start.is_constant() || !end.is_constant()) {
      fail_unsupported(view_, "a write through a split with sizes that are not constant");
    }
    return slice_scatter(base, *dim, *start.constant(), *end.constant());
  }

  Value* emit(std::string op, std::vector<Argument> arguments) {
    Node* node = graph_.add_node(std::move(op), std::move(arguments), view_.location);
    return graph_.add_output(node, name_, base_->type);
  }

  // The real or the imaginary part of the base.
  Value* part(std::string op, Value* base) {
    Node* node = graph_.add_node(std::move(op), {base}, view_.location);
    return graph_.add_output(node, name_,
                             Type::tensor(real_dtype(base->type.dtype), base->type.shape));
  }

 private:
  Argument size_argument(size_t dim) {
    const Dim& size = (*base_->type.shape)[dim];
    if (const auto constant = size.constant()) return *constant;
    Node* node =
        graph_.add_node("aten::sym_size.int", {base_, static_cast<int64_t>(dim)}, view_.location);
    return graph_.add_output(node, "size", Type::sym_int(size));
  }

  Value* slice_scatter(Value* base, Argument dim, int64_t start, int64_t end) {
    return emit("aten::slice_scatter", {base, written_, std::move(dim), start, end, int64_t{1}});
  }

  Graph& graph_;
  const Node& view_;
  Value* base_;  // any value it had: for its type and sizes
  Value* written_;
  std::string_view name_;
};

}  // namespace

void fail_unsupported(const Node& node, const std::string& reason) {
  std::string message = concat(reason, "\n  ", print(node, true));
  if (const Location* location = node.location) {
    if (!location->source.empty()) message += "\n  at " + location->source;
    if (!location->module_path.empty()) message += "\n  in " + location->module_path;
  }
  fail(ErrorKind::unsupported, message);
}

Strides contiguous_strides(const Type& type) {
  if (!type.shape) return std::nullopt;
  std::vector<Dim> strides(type.shape->size(), Dim(1));
  for (size_t i = strides.size(); i-- > 1;) strides[i - 1] = strides[i] * (*type.shape)[i];
  return strides;
}

bool may_share(const Schema& schema) {
  return is_dropout(schema.name) || shares_silently(schema.name) || kind_of(schema) != View::none;
}

Sharing sharing(const Node& node, const std::function<Strides()>& strides) {
  const std::string& name = node.schema->name;
  if (is_dropout(name)) {
    const auto* train = node.arguments[2].get<bool>();
    const auto* p = node.arguments[1].get<double>();
    return (train && !*train) || (p && *p == 0) ? Sharing::same : Sharing::fresh;
  }
  if (shares_silently(name)) return Sharing::unknown;
  const View kind = kind_of(*node.schema);
  const Type* type = base_type(node);
  switch (kind) {
    case View::none:
      return Sharing::fresh;
    case View::to:
      return sharing_of_to(node);
    case View::contiguous: {
      const Argument* format = find(node, "memory_format");
      if (format && format->get<std::string>() &&
          *format->get<std::string>() != "contiguous_format") {
        return Sharing::unknown;
      }
      const Strides known = strides();
      if (!known || !type || !type->shape) return Sharing::unknown;
      return has_strides(*type, *known, *contiguous_strides(*type)) ? Sharing::same
                                                                    : Sharing::fresh;
    }
    case View::copy_reshape: {
      const Type& to = node.outputs[0]->type;
      if (type && type->shape && to.shape && *type->shape == *to.shape) {
        // flatten of one dimension returns its argument itself.
        const bool flattens = name == "aten::flatten" && !to.shape->empty();
        return flattens ? Sharing::same : Sharing::view;
      }
      const Strides known = strides();
      if (!known || !type || !type->shape || !to.shape) return Sharing::unknown;
      return strides_of_reshape(*type->shape, *known, *to.shape) ? Sharing::view : Sharing::fresh;
    }
    default:
      return Sharing::view;
  }
}

Strides view_strides(const Node& view, int output, const Strides& base) {
  const View kind = kind_of(*view.schema);
  const Type* from = base_type(view);
  const Type& to = view.outputs[static_cast<size_t>(output)]->type;
  if (!base || !from || !from->shape || !to.shape) return std::nullopt;
  switch (kind) {
    case View::identity:
    case View::to:
    case View::contiguous:
    case View::split:
    case View::narrow:
      return base;
    case View::reshape:
    case View::copy_reshape:
      return strides_of_reshape(*from->shape, *base, *to.shape);
    case View::select:
    case View::unbind: {
      const auto dim = dim_argument(view, "dim");
      if (!dim) return std::nullopt;
      std::vector<Dim> strides = *base;
      strides.erase(strides.begin() + *dim);
      return strides;
    }
    case View::slice: {
      const auto dim = dim_argument(view, "dim");
      const auto step = int_argument(view, "step");
      if (!dim || !step) return std::nullopt;
      std::vector<Dim> strides = *base;
      strides[static_cast<size_t>(*dim)] = strides[static_cast<size_t>(*dim)] * Dim(*step);
      return strides;
    }
    default:
      break;
  }
  if (const auto order = permutation(view, kind)) {
    std::vector<Dim> strides;
    for (const int64_t dim : *order) strides.push_back((*base)[static_cast<size_t>(dim)]);
    return strides;
  }
  return std::nullopt;
}

bool is_identity_view(const Node& view, int output) {
  const View kind = kind_of(*view.schema);
  const Type* from = base_type(view);
  switch (kind) {
    case View::identity:
    case View::to:
    case View::contiguous:
      return true;
    case View::conjugate:
    case View::real:
      return from && from->dtype != DType::undefined && !is_complex(from->dtype);
    case View::slice: {
      const auto step = int_argument(view, "step");
      const Argument* start = find(view, "start");
      const Argument* end = find(view, "end");
      const bool from_start = start->is_none() || int_argument(view, "start") == 0;
      const bool to_end =
          end->is_none() || int_argument(view, "end") == std::numeric_limits<int64_t>::max();
      const Type& to = view.outputs[0]->type;
      const bool same_shape = from && from->shape && to.shape && *from->shape == *to.shape;
      return step == 1 && from_start && (to_end || same_shape);
    }
    case View::reshape:
    case View::copy_reshape:
    case View::expand: {
      const Type& to = view.outputs[static_cast<size_t>(output)]->type;
      return from && from->shape && to.shape && *from->shape == *to.shape;
    }
    default:
      return false;
  }
}

Value* write_back(Graph& graph, const Node& view, int output, Value* base, Value* written,
                  std::string_view name, const std::function<Value*()>& current_base) {
  if (is_identity_view(view, output)) return written;
  const View kind = kind_of(*view.schema);
  WriteBack emit(graph, view, base, written, name);
  switch (kind) {
    case View::reshape:
    case View::copy_reshape:
      return emit.reshape();
    case View::transpose:
    case View::permute:
    case View::movedim:
    case View::reverse:
    case View::last_two:
      return emit.permute(kind);
    case View::conjugate_last:
      if (base->type.dtype == DType::undefined) break;
      written = emit.permute(kind);
      return is_complex(base->type.dtype) ? emit.emit("aten::conj_physical", {written}) : written;
    case View::conjugate:
      return emit.emit("aten::conj_physical", {written});
    case View::real:
      if (base->type.dtype == DType::undefined) break;
      return emit.emit("aten::complex", {written, emit.part("aten::imag", current_base())});
    case View::imag:
      return emit.emit("aten::complex", {emit.part("aten::real", current_base()), written});
    case View::select:
      return emit.scatter("aten::select_scatter", current_base());
    case View::slice:
      return emit.scatter("aten::slice_scatter", current_base());
    case View::diagonal:
      return emit.scatter("aten::diagonal_scatter", current_base());
    case View::as_strided:
      return emit.scatter("aten::as_strided_scatter", current_base());
    case View::narrow:
      return emit.narrow(current_base());
    case View::unbind:
      return emit.unbind(output, current_base());
    case View::split:
      return emit.split(output, current_base());
    case View::view_as_real:
      return emit.emit("aten::view_as_complex", {written});
    case View::view_as_complex:
      return emit.emit("aten::view_as_real", {written});
    case View::expand:
      fail_unsupported(view, "a write through an expanded tensor");
    default:
      fail_unsupported(view, "a write through " + view.op);
  }
  fail_unsupported(view, "a write through " + view.op + " of a tensor of unknown dtype");
}

}  // namespace onnx_native::aten
