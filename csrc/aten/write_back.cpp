#include <algorithm>

#include "aten/fault.h"
#include "aten/strides.h"
#include "aten/view_kinds.h"
#include "aten/views.h"

namespace onnx_native::aten {
namespace {

// Emits the nodes of one write-back.
class WriteBack {
 public:
  WriteBack(Graph& graph, const Node& view, Value* base, Value* written, std::string_view name)
      : graph_(graph), view_(view), base_(base), written_(written), name_(name) {}

  Value* reshape() {
    if (!base_->type.shape) return emit("aten::reshape_as", {written_, base_});
    return emit("aten::reshape", {written_, sizes()});
  }

  Value* permute(ViewKind kind) {
    if (view_.schema->name == "aten::t" || kind == ViewKind::transpose) {
      std::vector<Argument> arguments = view_.arguments;
      arguments[0] = written_;
      return emit(view_.op, std::move(arguments));
    }
    const auto order = permutation(view_, kind);
    if (!order)
      fail_unsupported(view_,
                       "cannot write through a permutation of unknown rank or order; write to a "
                       "clone() instead");
    Argument::List inverse(order->size(), Argument(int64_t{0}));
    for (size_t i = 0; i < order->size(); ++i) {
      inverse[static_cast<size_t>((*order)[i])] = static_cast<int64_t>(i);
    }
    return emit("aten::permute", {written_, std::move(inverse)});
  }

  // A scatter operator takes the arguments of its view, with the written value after the base.
  Value* scatter(const char* op, Value* base) {
    std::vector<Argument> arguments = view_.arguments;
    arguments[0] = base;
    arguments.insert(arguments.begin() + 1, written_);
    return emit(op, std::move(arguments));
  }

  Value* unbind(int output, Value* base) {
    return emit("aten::select_scatter",
                {base, written_, *find_argument(view_, "dim"), static_cast<int64_t>(output)});
  }

  Value* narrow(int output, Value* base) {
    const auto start = int_argument(view_, "start");
    const auto length = int_argument(view_, "length");
    const bool constant = start && length && (*start >= 0 || *start + *length < 0);
    if (!constant) return by_positions(output, base);
    return slice_scatter(base, *find_argument(view_, "dim"), *start, *start + *length);
  }

  Value* split(int output, Value* base) {
    const auto dim = split_dim(view_);
    Dim start = 0;
    Dim end = 0;
    for (int i = 0; dim && i <= output; ++i) {
      const Type& piece = view_.outputs[static_cast<size_t>(i)]->type;
      if (!piece.shape)
        fail_unsupported(
            view_, "cannot write through a split of unknown shape; write to a clone() instead");
      start = end;
      end = end + (*piece.shape)[static_cast<size_t>(*dim)];
    }
    if (!dim || !start.is_constant() || !end.is_constant()) return by_positions(output, base);
    return slice_scatter(base, *dim, *start.constant(), *end.constant());
  }

  // Handles any view that selects elements of its base: the same view of the element positions
  // tells where the written elements go. If the view shows an element more than once, the copies
  // that changed win.
  Value* by_positions(int output, Value* base, bool may_overlap = false) {
    const Type& type = base_->type;
    const Type& to = view_.outputs[static_cast<size_t>(output)]->type;
    if (!type.shape || !to.shape || type.dtype == DType::undefined)
      fail_unsupported(view_, concat("cannot write through ", view_.op,
                                     " of a tensor of unknown type; write to a clone() instead"));
    if (may_overlap && is_complex(type.dtype)) return both_parts_by_positions(output, base);
    const Dim count = numel(*type.shape);
    const Argument end = make_size(graph_, count, view_.location);
    Value* all = call("aten::arange", {end, DType::i64}, DType::i64, Shape{count});
    const bool by_memory = kind_of(*view_.schema) == ViewKind::as_strided;
    if (!by_memory) all = call("aten::reshape", {all, sizes()}, DType::i64, *type.shape);
    Value* places = look(all, output);
    if (!may_overlap) return emit("aten::put", {base, places, written_});
    // Unchanged elements are written to an extra slot in front of the first element.
    Value* old = call("aten::take", {base, places}, type.dtype, *to.shape);
    Value* next = call("aten::add.Scalar", {places, int64_t{1}}, DType::i64, *to.shape);
    const Argument::List flat{end};
    Value* elements = call("aten::reshape", {base, flat}, type.dtype, Shape{count});
    const Argument::List one{int64_t{1}};
    Value* before = call("aten::new_zeros", {base, one}, type.dtype, Shape{1});
    const Argument::List joined{before, elements};
    elements = call("aten::cat", {joined}, type.dtype, Shape{count + 1});
    const auto put = [&](Value* changed) {
      Value* moved = call("aten::mul.Tensor", {next, changed}, DType::i64, *to.shape);
      elements = call("aten::put", {elements, moved, written_}, type.dtype, Shape{count + 1});
    };
    // ONNX Runtime's Where makes 0 of -0, so a new sign alone is weaker than a new number.
    if (is_floating(type.dtype)) put(differs_in_sign(old));
    put(differs(old));
    elements =
        call("aten::slice.Tensor", {elements, int64_t{0}, int64_t{1}}, type.dtype, Shape{count});
    return emit("aten::reshape", {elements, sizes()});
  }

  Value* emit(std::string op, std::vector<Argument> arguments) {
    Node* node = graph_.add_node(std::move(op), std::move(arguments), view_.location);
    return graph_.add_output(node, name_, base_->type);
  }

  // Returns the real or the imaginary part of the base.
  Value* part(std::string op, Value* base) {
    Node* node = graph_.add_node(std::move(op), {base}, view_.location);
    return graph_.add_output(node, name_,
                             Type::tensor(real_dtype(base->type.dtype), base->type.shape));
  }

 private:
  // Handles complex tensors whose view shows elements more than once, one part at a time.
  Value* both_parts_by_positions(int output, Value* base) {
    const DType dtype = real_dtype(base_->type.dtype);
    const Shape& shape = *view_.outputs[static_cast<size_t>(output)]->type.shape;
    const auto one = [&](const char* op) {
      Value* old = part(op, base);
      Value* written = call(op, {written_}, dtype, shape);
      return WriteBack(graph_, view_, old, written, name_).by_positions(output, old, true);
    };
    Value* real = one("aten::real");
    return emit("aten::complex", {real, one("aten::imag")});
  }

  // Returns the sizes of the base, with -1 for a single symbolic size.
  Argument::List sizes() {
    const Shape& shape = *base_->type.shape;
    const auto symbolic = std::count_if(shape.begin(), shape.end(),
                                        [](const Dim& size) { return !size.is_constant(); });
    const bool has_zero = is_empty(shape);
    Argument::List sizes;
    for (size_t i = 0; i < shape.size(); ++i) {
      const bool inferred = symbolic == 1 && !has_zero && !shape[i].is_constant();
      sizes.push_back(inferred ? Argument(int64_t{-1}) : size_argument(i));
    }
    return sizes;
  }

  Argument size_argument(size_t dim) {
    const Dim& size = (*base_->type.shape)[dim];
    if (const auto constant = size.constant()) return *constant;
    Node* node =
        graph_.add_node("aten::sym_size.int", {base_, static_cast<int64_t>(dim)}, view_.location);
    return graph_.add_output(node, "size", Type::sym_int(size));
  }

  Value* call(std::string op, std::vector<Argument> arguments, DType dtype, const Shape& shape) {
    Node* node = graph_.add_node(std::move(op), std::move(arguments), view_.location);
    return graph_.add_output(node, name_, Type::tensor(dtype, shape));
  }

  // Applies the view to another base.
  Value* look(Value* base, int output) {
    std::vector<Argument> arguments = view_.arguments;
    arguments[0] = base;
    Node* node = graph_.add_node(view_.op, std::move(arguments), view_.location);
    for (const Value* shown : view_.outputs)
      graph_.add_output(node, name_, Type::tensor(base->type.dtype, shown->type.shape));
    return node->outputs[static_cast<size_t>(output)];
  }

  // Returns a mask of the elements whose sign the write changed.
  Value* differs_in_sign(Value* old) {
    const auto sign = [&](Value* value) {
      return call("aten::signbit", {value}, DType::boolean, *old->type.shape);
    };
    return call("aten::ne.Tensor", {sign(written_), sign(old)}, DType::boolean, *old->type.shape);
  }

  // Returns a mask of the elements that the write changed: NaN equals NaN, and 0 equals -0.
  Value* differs(Value* old) {
    const Shape& shape = *old->type.shape;
    const auto truth = [&](const char* op, std::vector<Argument> arguments) {
      return call(op, std::move(arguments), DType::boolean, shape);
    };
    Value* differ = truth("aten::ne.Tensor", {written_, old});
    if (!is_floating(old->type.dtype)) return differ;
    Value* number = truth("aten::logical_not", {truth("aten::isnan", {old})});
    Value* now = truth("aten::logical_not", {truth("aten::isnan", {written_})});
    return truth("aten::logical_and", {differ, truth("aten::logical_or", {number, now})});
  }

  Value* slice_scatter(Value* base, Argument dim, int64_t start, int64_t end) {
    return emit("aten::slice_scatter", {base, written_, std::move(dim), start, end, int64_t{1}});
  }

  Graph& graph_;
  const Node& view_;
  Value* base_;  // any former value; used for its type and sizes only
  Value* written_;
  std::string_view name_;
};

}  // namespace

Value* own_memory(Graph& graph, Value* value, const Location* location) {
  const Node* producer = value->producer;
  if (!producer || !producer->schema || !producer->schema->is_view()) return value;
  Node* clone = graph.add_node("aten::clone", {value}, location);
  return graph.add_output(clone, value->name, value->type);
}

bool may_overlap(const Node& view, int output) {
  const ViewKind kind = kind_of(*view.schema);
  if (kind == ViewKind::expand) return !is_identity_view(view, output);
  if (kind == ViewKind::unfold) {
    const auto size = int_argument(view, "size");
    const auto step = int_argument(view, "step");
    return !size || !step || *step < *size;
  }
  if (kind != ViewKind::as_strided) return false;
  const Type* base = base_type(view);
  const Type& to = view.outputs[static_cast<size_t>(output)]->type;
  const std::optional<Layout> layout =
      base ? view_layout(view, output, unknown_layout(*base)) : std::nullopt;
  return !to.shape || !layout || !is_known_to_not_overlap(*to.shape, *layout);
}

Value* write_back(Graph& graph, const Node& view, int output, Value* base, Value* written,
                  std::string_view name, const std::function<Value*()>& current_base) {
  if (is_identity_view(view, output)) return written;
  const ViewKind kind = kind_of(*view.schema);
  WriteBack emit(graph, view, base, written, name);
  switch (kind) {
    case ViewKind::reshape:
    case ViewKind::copy_reshape:
      return emit.reshape();
    case ViewKind::transpose:
    case ViewKind::permute:
    case ViewKind::movedim:
    case ViewKind::reverse:
    case ViewKind::last_two:
      return emit.permute(kind);
    case ViewKind::conjugate_last:
      if (base->type.dtype == DType::undefined) break;
      written = emit.permute(kind);
      return is_complex(base->type.dtype) ? emit.emit("aten::conj_physical", {written}) : written;
    case ViewKind::conjugate:
      return emit.emit("aten::conj_physical", {written});
    case ViewKind::real:
      if (base->type.dtype == DType::undefined) break;
      return emit.emit("aten::complex", {written, emit.part("aten::imag", current_base())});
    case ViewKind::imag:
      return emit.emit("aten::complex", {emit.part("aten::real", current_base()), written});
    case ViewKind::select:
      return emit.scatter("aten::select_scatter", current_base());
    case ViewKind::slice:
      return emit.scatter("aten::slice_scatter", current_base());
    case ViewKind::diagonal:
      return emit.scatter("aten::diagonal_scatter", current_base());
    case ViewKind::as_strided:
      if (!may_overlap(view, output))
        return emit.scatter("aten::as_strided_scatter",
                            own_memory(graph, current_base(), view.location));
      return emit.by_positions(output, current_base(), true);
    case ViewKind::unfold:
    case ViewKind::expand:
      return emit.by_positions(output, current_base(), may_overlap(view, output));
    case ViewKind::narrow:
      return emit.narrow(output, current_base());
    case ViewKind::unbind:
      return emit.unbind(output, current_base());
    case ViewKind::split:
      return emit.split(output, current_base());
    case ViewKind::view_as_real:
      return emit.emit("aten::view_as_complex", {written});
    case ViewKind::view_as_complex:
      return emit.emit("aten::view_as_real", {written});
    default:
      fail_unsupported(view, "cannot write through " + view.op + "; write to a clone() instead");
  }
  fail_unsupported(view, "cannot write through " + view.op +
                             " of a tensor of unknown dtype; write to a clone() instead");
}

}  // namespace onnx_native::aten
