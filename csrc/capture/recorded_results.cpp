// Results of a recorded call: their types and tensors.
#include <ATen/ops/empty.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "aten/interrupt.h"
#include "aten/torch_types.h"
#include "aten/visit.h"
#include "base/error.h"
#include "capture/broadcast.h"
#include "capture/call_layouts.h"
#include "capture/meta_arguments.h"
#include "capture/recorded_call.h"
#include "capture/symbolic_size.h"

namespace onnx_native::capture {
namespace {

bool mentions_broadcast(const Dim& dim) {
  return std::ranges::any_of(dim.terms(), [](const Dim::Term& term) {
    return std::ranges::any_of(term.factors, [](const Dim::Factor& factor) {
      return factor.kind == Dim::Atom::broadcast ||
             std::ranges::any_of(factor.operands, mentions_broadcast);
    });
  });
}

// Returns true if the layout of a result depends on dynamic sizes in another way than by which ones
// are 1: roll() makes another kind of copy where no element moves.
bool lays_out_by_sizes(const std::string& op, const std::vector<c10::IValue>& arguments) {
  if (op != "aten::roll") return false;
  bool found = false;
  for (const c10::IValue& argument : arguments)
    for_each_tensor(argument, [&](const at::Tensor& tensor) {
      const RecordedTensor* known = recorded(tensor);
      found = found || (known && known->is_symbolic() && !is_row_major(known->meta()));
    });
  return found;
}

// Gives saved statistics the dtype that they have on the CPU: PyTorch's kernels in Python give them
// float32 on other devices, such as meta tensors'.
void correct_statistics(const aten::Schema& schema, const torch::jit::Stack& arguments,
                        torch::jit::Stack& results) {
  const c10::ScalarType dtype = arguments[0].toTensor().scalar_type();
  const auto weight = static_cast<size_t>(schema.index("weight"));
  const bool has_weight = arguments[weight].isTensor() && arguments[weight].toTensor().defined();
  if (has_weight && arguments[weight].toTensor().scalar_type() != dtype) return;
  for (size_t i = 1; i < std::min<size_t>(results.size(), 3); ++i) {
    const at::Tensor& saved = results[i].toTensor();
    if (saved.scalar_type() != dtype)
      results[i] = at::empty(saved.sizes(), saved.options().dtype(dtype));
  }
}

}  // namespace

// Returns the pieces of split_with_sizes(), or the one of narrow(), if a size depends on data: the
// numbers that stand for such sizes need not add up, as the meta kernel demands. Returns nullopt
// for other calls.
std::optional<std::vector<c10::IValue>> RecordedCall::metas_of_pieces() {
  const bool narrows = call_.key == "aten::narrow";
  if (!narrows && call_.key != "aten::split_with_sizes" &&
      call_.key != "aten::unsafe_split_with_sizes")
    return std::nullopt;
  std::vector<Dim> lengths;
  if (narrows) {
    lengths.push_back(to_dim(call_.arguments[3].toSymInt(), decisions_));
  } else {
    for (const c10::IValue& length : call_.arguments[1].toListRef())
      lengths.push_back(to_dim(length.toSymInt(), decisions_));
  }
  const at::Tensor self = recording_.meta_of(call_.arguments[0].toTensor());
  const auto is_known = [this](const Dim& length) {
    return decisions_.example(length).has_value();
  };
  if (self.dim() == 0 || std::ranges::all_of(lengths, is_known)) return std::nullopt;
  std::vector<int64_t> sizes = self.sizes().vec();
  int64_t& size = sizes[call_.cut_axis(sizes.size())];
  std::vector<at::Tensor> pieces;
  const bool is_whole = !narrows && lengths.size() == 1;
  for (const Dim& length : lengths) {
    const std::optional<int64_t> stand_in = is_whole ? size : decisions_.stand_in(length);
    if (!stand_in || *stand_in < 0) return std::nullopt;
    size = *stand_in;
    pieces.push_back(self.new_empty_strided(sizes, self.strides()));
  }
  return std::vector<c10::IValue>{narrows ? c10::IValue(pieces[0]) : c10::IValue(pieces)};
}

// Returns the results of the meta kernel; nullopt if PyTorch has none for meta tensors.
std::optional<std::vector<c10::IValue>> RecordedCall::run_meta() {
  if (auto pieces = metas_of_pieces()) return pieces;
  const auto run = [this](bool small) {
    torch::jit::Stack stack = meta_arguments(call_, small);
    if (call_.key.starts_with("aten::")) {
      const torch::jit::Stack arguments = stack;
      recording_.meta_results().call(call_.op, stack);
      if (devices_.first.is_cpu() && call_.facts.saved == aten::Saved::statistics)
        correct_statistics(*call_.schema, arguments, stack);
      if (!recording_.meta_results().take_eager_strides(call_.op, devices_.first, arguments,
                                                        stack) ||
          lays_out_by_sizes(call_.key, call_.arguments))
        decisions_.guess_strides();
    } else {
      call_.op.callBoxed(stack);
    }
    return stack;
  };
  // The kernels of networks over packed sequences read the sizes of the steps. A result on the CPU
  // is there for meta tensors too.
  if (aten::is_over_packed_sequence(*call_.schema) || call_.facts.cpu_results != 0)
    return std::nullopt;
  std::string reason;
  for (const bool small : {false, true}) {
    if (small && !data_) break;  // an index that depends on data may have to be small
    try {
      return run(small);
    } catch (const c10::NotImplementedError& error) {
      missing_ = first_line(error.what_without_backtrace());
      if (!call_.key.starts_with("aten::")) call_.refuse(missing_);
      return std::nullopt;
    } catch (const c10::Error& error) {
      if (!small) reason = first_line(error.what_without_backtrace());
    } catch (const std::exception& error) {
      aten::pass_interrupt();
      if (!small) reason = first_line(error.what());
    }
    if (!decisions_.reason().empty()) break;
  }
  if (data_) note_identities(call_);
  if (data_ && !decisions_.equation() && decisions_.reason().empty()) {
    if (auto view = viewed_by_data(call_)) return std::vector<c10::IValue>{std::move(*view)};
    try {
      if (std::optional<Joined> joined = run_joined(call_)) {
        joined_ = std::move(joined->shape);
        return std::move(joined->metas);
      }
    } catch (const std::exception& error) {
      aten::pass_interrupt();
      reason = first_line(error.what());
    }
  }
  call_.refuse(reason, RefusalKind::failure);
}

// Returns the types of the results of a recurrent network over a packed sequence: the output is as
// long as the input, and the states are as large as those before it.
std::vector<aten::Type> RecordedCall::types_of_packed() {
  const auto typed = [&](const at::Tensor& tensor) {
    const at::Tensor meta = recording_.meta_of(tensor);
    return aten::Type::tensor(*aten::to_dtype(meta.scalar_type()), shape_of(tensor));
  };
  std::vector<aten::Type> types{typed(call_.arguments[0].toTensor())};
  for_each_tensor(call_.arguments[2],
                  [&](const at::Tensor& state) { types.push_back(typed(state)); });
  const bool bidirectional = call_.arguments.back().toBool();
  types[0].shape->back() = types[1].shape->back() * Dim(bidirectional ? 2 : 1);
  return types;
}

// Returns meta tensors of the types that the inference knows. Their strides are a guess.
std::vector<c10::IValue> RecordedCall::inferred_metas() {
  try {
    inferred_ = aten::is_over_packed_sequence(*call_.schema) ? types_of_packed()
                                                             : recording_.types().infer(*node_);
  } catch (const ExportError& error) {
    call_.refuse(error.cause());
  }
  std::vector<c10::IValue> metas;
  for (size_t i = 0; i < call_.schema->returns.size(); ++i) {
    const auto written = std::ranges::find_if(call_.schema->arguments, [&](const auto& argument) {
      return argument.writes && argument.alias_sets == call_.schema->returns[i].alias_sets;
    });
    if (written != call_.schema->arguments.end()) {
      const auto at = static_cast<size_t>(written - call_.schema->arguments.begin());
      metas.emplace_back(meta_argument(call_, call_.arguments[at], written->type));
      continue;
    }
    const aten::Type type = i < inferred_->size() ? (*inferred_)[i] : aten::Type();
    const bool known = type.is_tensor() && type.shape && type.dtype != DType::undefined &&
                       !call_.schema->returns[i].type.list;
    std::vector<int64_t> sizes;
    for (const Dim& size : known ? *type.shape : Shape()) {
      if (const auto number = decisions_.stand_in(size)) sizes.push_back(*number);
    }
    if (sizes.size() > 1) decisions_.guess_strides();
    if (!known || sizes.size() != type.shape->size())
      call_.refuse(recording_.host().has_meta_kernels()
                       ? missing_
                       : "PyTorch computes the sizes of the results only in Python");
    metas.emplace_back(
        at::empty(sizes, at::TensorOptions(aten::to_scalar_type(type.dtype)).device(c10::kMeta)));
  }
  return metas;
}

// Returns the types of the results: dtypes of the meta kernel, symbolic sizes of the inference,
// which must agree with the meta kernel's sizes for the example.
std::vector<aten::Type> RecordedCall::result_types(const std::vector<at::Tensor>& metas) {
  std::vector<aten::Type> types;
  for (const at::Tensor& meta : metas) {
    const auto dtype = aten::to_dtype(meta.scalar_type());
    if (!dtype || c10::isQIntType(meta.scalar_type()) || !meta.is_meta())
      call_.refuse("a result that is not a plain tensor");
    types.push_back(aten::Type::tensor(*dtype, Shape(meta.sizes().begin(), meta.sizes().end())));
  }
  if (!recording_.types().started() && !symbolic_) return types;
  std::vector<aten::Type> inferred;
  try {
    inferred = inferred_ ? *inferred_ : recording_.types().infer(*node_);
  } catch (const ExportError& error) {
    if (symbolic_) call_.refuse(error.cause());
    forget_written();
  }
  if (!symbolic_) return types;
  // ONNX has only the first result.
  if (call_.facts.saved == aten::Saved::by_kernel) add_unknown_results(inferred, metas);
  if (inferred.size() < metas.size()) call_.refuse("the sizes of the results are not known");
  for (size_t i = 0; i < metas.size(); ++i) {
    std::optional<Shape>& shape = inferred[i].shape;
    if (!inferred[i].is_tensor() || !shape || shape->size() != types[i].shape->size())
      call_.refuse("the sizes of the results are not known");
    for (size_t axis = 0; axis < shape->size(); ++axis) {
      Dim& size = (*shape)[axis];
      const Dim known = size;
      // While a length is counted, the slice of a step has one row: x[:, t : t + 1].
      const bool is_row = decisions_.counts() && metas[i].size(static_cast<int64_t>(axis)) == 1;
      if (is_row || mentions_broadcast(size)) size = decisions_.resolved(size);
      if (joined_) size = (*joined_)[axis];
      is_of_other_size_ = is_of_other_size_ || size != known;
      if (data_) declare_size(size, metas[i].size(static_cast<int64_t>(axis)));
      if (decisions_.stand_in(size) != metas[i].size(static_cast<int64_t>(axis)))
        call_.refuse("the size " + size.str() + " of a result is not eager's");
    }
    types[i].shape = shape;
  }
  return types;
}

// Gives unknown sizes to all results except the first.
void RecordedCall::add_unknown_results(std::vector<aten::Type>& types,
                                       const std::vector<at::Tensor>& metas) {
  types.resize(1);
  for (size_t i = 1; i < metas.size(); ++i) {
    Shape sizes;
    for (const int64_t size : metas[i].sizes()) {
      sizes.push_back(Dim::fresh(DimRange::size()));
      declare_size(sizes.back(), size);
    }
    types.push_back(aten::Type::tensor(*aten::to_dtype(metas[i].scalar_type()), std::move(sizes)));
  }
}

// Makes the inference forget the contents of the written tensors.
void RecordedCall::forget_written() {
  for (size_t i = 0; i < call_.schema->arguments.size(); ++i) {
    if (!call_.schema->arguments[i].writes) continue;
    aten::for_each_value(node_->arguments[i], [this](const aten::Value* value) {
      recording_.types().started()->forget(*value);
    });
  }
}

// Returns the argument if the call returns the argument itself: a tensor that it writes to, or
// that contiguous() does not have to copy. The argument then has the elements of the node's result.
std::optional<at::Tensor> RecordedCall::same_tensor(const aten::SchemaArgument& value,
                                                    const at::Tensor& meta,
                                                    const aten::Type& type) const {
  std::optional<at::Tensor> same;
  if (!is_always_same(call_)) return same;
  for (size_t i = 0; i < call_.arguments.size(); ++i) {
    const aten::SchemaArgument& argument = call_.schema->arguments[i];
    const bool written = argument.writes && argument.alias_sets == value.alias_sets;
    for_each_tensor(call_.arguments[i], [&](const at::Tensor& tensor) {
      if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) return;
      if (!written && !recording_.meta_of(tensor).is_same(meta)) return;
      const RecordedTensor* known = recorded(tensor);
      const bool fits = !known || known->shape() == *type.shape;
      const bool may_resize = written && argument.is_out;
      if (written && !fits && !may_resize)
        decisions_.refuse("the call changes the shape of its argument");
      if ((fits || may_resize) && !same) same = tensor;
    });
  }
  return same;
}

namespace {

// Names a call with several results when it is recorded, so that later calls get the next names.
void name_call(aten::Graph& graph, aten::Node& node, const std::string& op) {
  if (!node.location) return;
  Location location = *node.location;
  location.node = graph.add_value(op, {})->name;
  node.location = graph.add_location(std::move(location));
}

}  // namespace

bool RecordedCall::is_view_of_argument(const at::Tensor& meta) const {
  bool is_view = false;
  for (const c10::IValue& argument : call_.arguments)
    for_each_tensor(argument, [&](const at::Tensor& tensor) {
      is_view = is_view || (!tensor.unsafeGetTensorImpl()->is_wrapped_number() &&
                            recording_.meta_of(tensor).is_alias_of(meta));
    });
  return is_view;
}

at::Tensor RecordedCall::result(const at::Tensor& meta, const aten::Type& type, size_t index) {
  const bool several = call_.schema->returns.size() > 1 || call_.schema->returns[0].type.list;
  const std::string call = plain_name(call_.key);
  recording_.avoid_name(call);
  if (several && node_->outputs.empty()) name_call(recording_.frame().graph(), *node_, call);
  const std::string name = several ? "getitem" : call;
  aten::Value* value = recording_.frame().graph().add_output(node_, name, type);
  for (size_t axis = 0; axis < type.shape->size(); ++axis) {
    const Dim& size = (*type.shape)[axis];
    const bool depends_on_data = data_ && size.is_symbol() && !decisions_.example(size);
    if (depends_on_data || size.is_broadcast())
      recording_.frame().sizes().add_axis(size, value, axis);
  }
  if (recording_.frame().outer() && !is_view_of_argument(meta)) recording_.frame().own(meta);
  return recording_.new_tensor(meta, *type.shape, value, devices_.of(index));
}

// Adds the results to the node and puts them on the stack.
void RecordedCall::record(const std::vector<c10::IValue>& metas) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& value : metas) {
    if (!value.isTensor() && !value.isTensorList()) call_.refuse("a result that is not a tensor");
    if (value.isTensor() && !value.toTensor().defined()) call_.refuse("an undefined result");
    for_each_tensor(value, [&](const at::Tensor& tensor) { tensors.push_back(tensor); });
  }
  record(metas, result_types(tensors));
}

void RecordedCall::record(const std::vector<c10::IValue>& metas,
                          const std::vector<aten::Type>& types) {
  if (follows_from_constants()) note_recipes(metas);
  settle_operands(call_, *node_);
  std::vector<at::Tensor> tensors;
  size_t next = 0;
  for (size_t i = 0; i < metas.size(); ++i) {
    if (metas[i].isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& meta : metas[i].toTensorVector()) {
        tensors.push_back(meta);
        list.push_back(result(meta, types[next], next));
        ++next;
      }
      stack_.emplace_back(std::move(list));
      continue;
    }
    const at::Tensor& meta = metas[i].toTensor();
    tensors.push_back(meta);
    at::Tensor made = result(meta, types[next], next);
    if (std::optional<at::Tensor> same = same_tensor(call_.schema->returns[i], meta, types[next])) {
      if (recorded(*same)) update(*same, made, types[next]);
      made = std::move(*same);
    }
    ++next;
    stack_.emplace_back(std::move(made));
  }
  record_layouts(call_, *node_, tensors);
  if (symbolic_) check_view(call_, *node_);
  if (!is_of_other_size_) return;
  for (const aten::Value* made : node_->outputs) recording_.types().get().define(*made);
}

// Gives a tensor that the call wrote to the new value. An out= argument of another shape is
// resized.
void RecordedCall::update(const at::Tensor& tensor, const at::Tensor& made,
                          const aten::Type& type) {
  RecordedTensor& known = *recorded(tensor);
  const int64_t id = recorded(made)->id();
  if (known.shape() == *type.shape) {
    recording_.frame().set_value(known.id(), recording_.frame().value(id));
    return;
  }
  check_reshape(tensor);
  known.reshape(id, recorded(made)->meta(), *type.shape, decisions_);
}

// Adds the result of an operator that reshapes its argument in place.
void RecordedCall::record_reshape(const at::Tensor& meta) {
  const aten::Type type = result_types({meta})[0];
  const at::Tensor& self = call_.arguments[0].toTensor();
  settle_operands(call_, *node_);
  const at::Tensor made = result(meta, type);
  record_layouts(call_, *node_, {meta});
  recorded(self)->reshape(recorded(made)->id(), meta, *type.shape, decisions_);
  stack_.emplace_back(self);
}

// Refuses operators that return as many tensors as a dynamic size says.
void RecordedCall::check_number_of_results() {
  if (!symbolic_ || call_.schema->returns.empty() || !call_.schema->returns[0].type.list ||
      call_.arguments[0].isTensorList() || aten::has_fixed_pieces(*call_.schema))
    return;
  const RecordedTensor* self =
      call_.arguments[0].isTensor() ? recorded(call_.arguments[0].toTensor()) : nullptr;
  if (!self || self->shape().empty()) call_.refuse("the number of results depends on sizes");
  const Dim& size = self->shape()[call_.cut_axis(self->shape().size())];
  if (!size.is_constant())
    decisions_.refuse_loop(
        size, concat(call_.key, ": the number of results depends on the size ", size.str()));
}

}  // namespace onnx_native::capture
