#include "capture/recorded_call.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include "aten/hidden_writes.h"
#include "aten/op_facts.h"
#include "aten/torch_literal.h"
#include "aten/torch_types.h"
#include "aten/visit.h"
#include "capture/region.h"
#include "capture/symbolic_size.h"
#include "capture/torch_code.h"
#include "capture/transformed_call.h"

namespace onnx_native::capture {
namespace {

using aten::Argument;
using aten::TypeKind;

std::string key_of(const c10::OperatorHandle& op) {
  const c10::OperatorName& name = op.operator_name();
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

bool is_wrapped_number(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() && !recorded(value.toTensor()) &&
         value.toTensor().unsafeGetTensorImpl()->is_wrapped_number();
}

// Returns the number that PyTorch wrapped in a tensor.
Argument number_in(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case c10::kBool:
      return *tensor.const_data_ptr<bool>();
    case c10::kLong:
      return *tensor.const_data_ptr<int64_t>();
    case c10::kDouble:
      return *tensor.const_data_ptr<double>();
    case c10::kComplexDouble: {
      const auto number = *tensor.const_data_ptr<c10::complex<double>>();
      return std::complex<double>(number.real(), number.imag());
    }
    default:
      return {};
  }
}

bool mentions_broadcast(const Dim& dim) {
  return std::ranges::any_of(dim.terms(), [](const Dim::Term& term) {
    return std::ranges::any_of(term.factors, [](const Dim::Factor& factor) {
      return factor.kind == Dim::Atom::broadcast ||
             std::ranges::any_of(factor.operands, mentions_broadcast);
    });
  });
}

// Operators that answer questions about dtypes.
constexpr std::array<std::string_view, 6> kAboutDtypes{
    "aten::is_floating_point", "aten::is_complex", "aten::is_signed",
    "aten::result_type",       "aten::can_cast",   "aten::promote_types"};

// Operators that give a tensor another shape in place, with the same elements in another order of
// its dimensions, or with more or fewer dimensions of size 1.
constexpr std::array<std::string_view, 6> kReshapes{"aten::t_",         "aten::transpose_",
                                                    "aten::swapaxes_",  "aten::swapdims_",
                                                    "aten::unsqueeze_", "aten::squeeze_"};

// Operators that return as many tensors as they get, or as a list argument says.
constexpr std::array<std::string_view, 3> kFixedLists{"aten::split_with_sizes", "aten::meshgrid",
                                                      "aten::broadcast_tensors"};

// Returns the dimension that an operator cuts into pieces, whose number follows from its size.
int64_t cut_axis(const aten::Schema& schema, const std::vector<c10::IValue>& arguments) {
  const int index = schema.index("dim");
  return index >= 0 && arguments[static_cast<size_t>(index)].isInt()
             ? arguments[static_cast<size_t>(index)].toInt()
             : 0;
}

}  // namespace

RecordedCall::RecordedCall(Recording& recording, const c10::OperatorHandle& op,
                           c10::DispatchKeySet keys, torch::jit::Stack& stack)
    : recording_(recording),
      decisions_(recording.decisions_),
      op_(op),
      keys_(keys),
      stack_(stack),
      key_(key_of(op)),
      schema_(aten::find_schema(key_)) {
  const size_t count = op.schema().arguments().size();
  arguments_.assign(stack.end() - static_cast<int64_t>(count), stack.end());
  recognize_sizes();
  for (c10::IValue& argument : arguments_) {
    for_each_tensor(argument, [this](const at::Tensor&) { has_tensors_ = true; });
    if (!is_wrapped_number(argument)) continue;
    c10::IValue symbol = recording_.host_.symbol_behind(argument.toTensor());
    if (!symbol.isNone()) argument = std::move(symbol);
  }
}

// Replaces numbers that stand for dynamic sizes.
void RecordedCall::recognize_sizes() {
  if (!schema_ || !decisions_.recognizes_numbers()) return;
  const auto size_of = [this](int64_t number) {
    const std::optional<Dim> size = decisions_.recognized(number);
    return size ? to_sym_int(*size, decisions_) : c10::SymInt(number);
  };
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (schema_->arguments[i].type.kind != TypeKind::sym_int) continue;
    if (arguments_[i].isInt()) {
      arguments_[i] = size_of(arguments_[i].toInt());
    } else if (arguments_[i].isIntList()) {
      std::vector<c10::SymInt> sizes;
      for (const int64_t number : arguments_[i].toIntVector()) sizes.push_back(size_of(number));
      arguments_[i] = c10::IValue(c10::SymIntArrayRef(sizes));
    }
  }
}

void RecordedCall::refuse(const std::string& reason) { decisions_.refuse(key_ + ": " + reason); }

bool RecordedCall::has_recorded() const {
  bool found = false;
  for (const c10::IValue& argument : arguments_)
    for_each_tensor(argument, [&](const at::Tensor& tensor) { found = found || recorded(tensor); });
  return found;
}

// Returns true for calls that only touch constants of the program and run as they are.
bool RecordedCall::passes_through() const {
  if (key_.starts_with("profiler::")) return true;
  if (has_recorded()) return false;
  if (key_ == "aten::lift_fresh" || has_numbers_only(op_, arguments_)) return true;
  if (key_ == "aten::detach_") return !recording_.find_state(arguments_[0].toTensor());
  // torch.tensor() builds its result with dispatch to Python switched off.
  if (c10::impl::tls_local_dispatch_key_set().excluded_.has(c10::DispatchKey::Python)) return true;
  if (!reads_elements()) return false;
  bool literal = true;
  for (const c10::IValue& argument : arguments_)
    for_each_tensor(argument, [&](const at::Tensor& tensor) {
      literal = literal && !recording_.find_state(tensor) && recording_.known(tensor);
    });
  return literal;
}

void RecordedCall::refuse_unknown() {
  if (c10::impl::dispatch_mode_enabled()) refuse("the program uses a TorchDispatchMode");
  if (!schema_) refuse("the operator has no schema");
  if (decisions_.guesses_strides() && op_.operator_name().name == "aten::as_strided")
    refuse("the program depends on strides");
  if (op_.hasTag(at::Tag::inplace_view) && !reshapes())
    refuse("the call changes the shape of its argument");
}

bool RecordedCall::reshapes() const { return contains(kReshapes, op_.operator_name().name); }

void RecordedCall::check_reshape() {
  const RecordedTensor* self = recorded(arguments_[0].toTensor());
  if (!self || self->id() <= recording_.last_input_)
    refuse("the call changes the shape of a tensor that the program did not compute");
  if (recording_.region_ && !recording_.region_->owns(self->meta()))
    refuse("a branch or loop changes the shape of a tensor from outside");
  if (self->is_copied()) refuse("the call changes the shape of a tensor that has a copy");
  recording_.compute_sizes();  // before the axes move
}

void RecordedCall::check_writes() {
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (!schema_->arguments[i].writes) continue;
    for_each_tensor(arguments_[i], [&](const at::Tensor& target) {
      recording_.note_write(target);
      written_sizes_.push_back(recording_.meta_of(target).sizes().vec());
    });
  }
}

void RecordedCall::check_written_sizes() {
  size_t next = 0;
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (!schema_->arguments[i].writes) continue;
    for_each_tensor(arguments_[i], [&](const at::Tensor& target) {
      if (recording_.meta_of(target).sizes() != written_sizes_[next++])
        refuse("the call changes the shape of its argument");
    });
  }
}

// A squeeze keeps a dynamic dimension only if its size is not 1.
void RecordedCall::note_squeezed() {
  if (!key_.starts_with("aten::squeeze")) return;
  const RecordedTensor* self = recorded(arguments_[0].toTensor());
  if (!self) return;
  std::vector<int64_t> axes;
  if (arguments_.size() > 1 && arguments_[1].isInt()) axes = {arguments_[1].toInt()};
  if (arguments_.size() > 1 && arguments_[1].isIntList()) axes = arguments_[1].toIntVector();
  const auto rank = static_cast<int64_t>(self->shape().size());
  for (int64_t axis = 0; axis < rank; ++axis) {
    const bool named =
        std::ranges::any_of(axes, [&](int64_t a) { return (a + rank) % rank == axis; });
    if (arguments_.size() > 1 && !named) continue;
    const Dim& size = self->shape()[static_cast<size_t>(axis)];
    decisions_.decide(size - Dim(1), Relation::equal, size.str() + " == 1");
  }
}

void RecordedCall::note_size(const Dim& dim) {
  symbolic_ = symbolic_ || !dim.is_constant();
  data_ = data_ || !decisions_.follows_from_sizes(dim);
}

// Returns the number for the meta kernels.
double RecordedCall::number_in_example(const c10::SymNode& node) {
  return decisions_.example(*recording_.number_of(node)).value_or(1);
}

Argument RecordedCall::number_argument(const c10::SymNode& node) {
  symbolic_ = data_ = true;
  return recording_.number_argument(*recording_.number_of(node));
}

Argument RecordedCall::tensor_argument(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  if (const RecordedTensor* known = recorded(tensor)) {
    for (const Dim& size : known->shape()) note_size(size);
  } else if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    Argument number = number_in(tensor);
    if (number.is_none()) refuse("a number of an unknown type");
    return number;
  }
  return recording_.value_of(tensor);
}

Argument RecordedCall::argument(const c10::IValue& value, const aten::SchemaType& type) {
  if (value.isTensor()) return tensor_argument(value.toTensor());
  if (value.isSymInt()) {
    const Dim dim = to_dim(value.toSymInt(), decisions_);
    note_size(dim);
    return recording_.size_argument(dim);
  }
  if (value.isSymFloat()) return number_argument(value.toSymFloat().toSymNodeImpl());
  if (value.isSymBool()) return number_argument(value.toSymBool().toSymNodeImpl());
  if (value.isList()) {
    Argument::List list;
    aten::SchemaType element = type;
    element.list = false;
    for (const c10::IValue& item : value.toListRef()) list.push_back(argument(item, element));
    return list;
  }
  if (value.isDevice() && !value.toDevice().is_cpu())
    refuse("the program uses the device " + value.toDevice().str());
  Argument result = aten::literal_argument(value, type);
  if (result.is_none() && !value.isNone()) refuse("an argument of an unknown type");
  return result;
}

// Returns the argument that the meta kernel gets.
c10::IValue RecordedCall::meta(const c10::IValue& value, const aten::SchemaType& type) {
  if (type.kind == TypeKind::device && !type.list && (!has_tensors_ || !value.isNone()))
    return c10::Device(c10::kMeta);
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined() || is_wrapped_number(value)) return value;
    return recording_.meta_of(tensor);
  }
  if (value.isSymInt()) {
    const Dim dim = to_dim(value.toSymInt(), decisions_);
    const auto size = small_data_ && !decisions_.example(dim) ? 0 : decisions_.stand_in(dim);
    if (!size) refuse("a size is not known");
    if (type.kind == TypeKind::tensor) return at::native::wrapped_scalar_tensor(*size);
    return *size;
  }
  if (value.isSymFloat() || value.isSymBool()) {
    const bool is_float = value.isSymFloat();
    const c10::SymNode node =
        is_float ? value.toSymFloat().toSymNodeImpl() : value.toSymBool().toSymNodeImpl();
    const double number = number_in_example(node);
    const c10::Scalar scalar = is_float ? c10::Scalar(number) : c10::Scalar(number != 0);
    if (type.kind == TypeKind::tensor) return at::native::wrapped_scalar_tensor(scalar);
    return scalar;
  }
  if (!value.isList()) return value;
  aten::SchemaType element = type;
  element.list = false;
  if (type.kind == TypeKind::sym_int) {
    c10::List<int64_t> list;
    for (const c10::IValue& item : value.toListRef()) list.push_back(meta(item, element).toInt());
    return list;
  }
  if (type.kind != TypeKind::tensor) return value;
  c10::impl::GenericList list(value.toList().elementType());
  for (const c10::IValue& item : value.toListRef()) list.push_back(meta(item, element));
  return list;
}

torch::jit::Stack RecordedCall::meta_arguments() {
  torch::jit::Stack stack;
  for (size_t i = 0; i < arguments_.size(); ++i)
    stack.push_back(meta(arguments_[i], schema_->arguments[i].type));
  if (reshapes()) stack[0] = stack[0].toTensor().alias();
  return stack;
}

// Returns the results of the meta kernel; nullopt if PyTorch has none outside of Python.
std::optional<std::vector<c10::IValue>> RecordedCall::run_meta() {
  const auto run = [this] {
    torch::jit::Stack stack = meta_arguments();
    op_.callBoxed(stack);
    return stack;
  };
  std::string reason;
  for (const bool small : {false, true}) {
    if (small && !data_) break;
    small_data_ = small;  // an index that depends on data may have to be small
    try {
      return run();
    } catch (const c10::NotImplementedError& error) {
      if (recording_.host_.has_meta_kernels() || !key_.starts_with("aten::"))
        refuse(first_line(error.what_without_backtrace()));
      return std::nullopt;
    } catch (const c10::Error& error) {
      if (!small) reason = first_line(error.what_without_backtrace());
    } catch (const std::exception& error) {
      if (!small) reason = first_line(error.what());
    }
    if (!decisions_.reason().empty()) break;
  }
  refuse(reason);
}

// Returns meta tensors of the types that the inference knows. Their strides are a guess.
std::vector<c10::IValue> RecordedCall::inferred_metas() {
  decisions_.guess_strides();
  try {
    inferred_ = recording_.types().infer(*node_);
  } catch (const ExportError& error) {
    refuse(error.cause());
  }
  std::vector<c10::IValue> metas;
  for (size_t i = 0; i < schema_->returns.size(); ++i) {
    const auto written = std::ranges::find_if(schema_->arguments, [&](const auto& argument) {
      return argument.writes && argument.alias_sets == schema_->returns[i].alias_sets;
    });
    if (written != schema_->arguments.end()) {
      const auto at = static_cast<size_t>(written - schema_->arguments.begin());
      metas.emplace_back(meta(arguments_[at], written->type));
      continue;
    }
    const aten::Type type = i < inferred_->size() ? (*inferred_)[i] : aten::Type();
    const bool known = type.is_tensor() && type.shape && type.dtype != DType::undefined &&
                       !schema_->returns[i].type.list;
    std::vector<int64_t> sizes;
    for (const Dim& size : known ? *type.shape : Shape()) {
      if (const auto example = decisions_.example(size)) sizes.push_back(*example);
    }
    if (!known || sizes.size() != type.shape->size())
      refuse("PyTorch computes the sizes of the results only in Python");
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
      refuse("a result that is not a plain tensor");
    types.push_back(aten::Type::tensor(*dtype, Shape(meta.sizes().begin(), meta.sizes().end())));
  }
  if (!recording_.types_ && !symbolic_) return types;
  std::vector<aten::Type> inferred;
  try {
    inferred = inferred_ ? *inferred_ : recording_.types().infer(*node_);
  } catch (const ExportError& error) {
    if (symbolic_) refuse(error.cause());
    forget_written();
  }
  if (!symbolic_) return types;
  if (inferred.size() < metas.size()) refuse("the sizes of the results are not known");
  for (size_t i = 0; i < metas.size(); ++i) {
    std::optional<Shape>& shape = inferred[i].shape;
    if (!inferred[i].is_tensor() || !shape || shape->size() != types[i].shape->size())
      refuse("the sizes of the results are not known");
    for (size_t axis = 0; axis < shape->size(); ++axis) {
      Dim& size = (*shape)[axis];
      if (mentions_broadcast(size)) size = decisions_.resolved(size);
      if (data_) declare_size(size, metas[i].size(static_cast<int64_t>(axis)));
      if (decisions_.stand_in(size) != metas[i].size(static_cast<int64_t>(axis)))
        refuse("the size " + size.str() + " of a result is not eager's");
    }
    types[i].shape = shape;
  }
  return types;
}

// Makes the inference forget the contents of the written tensors.
void RecordedCall::forget_written() {
  for (size_t i = 0; i < schema_->arguments.size(); ++i) {
    if (!schema_->arguments[i].writes) continue;
    aten::for_each_value(node_->arguments[i],
                         [this](const aten::Value* value) { recording_.types_->forget(*value); });
  }
}

// Returns the argument if the call returns the argument itself: a tensor that it writes to, or
// that contiguous() does not have to copy. The argument then has the elements of the node's result.
std::optional<at::Tensor> RecordedCall::same_tensor(const aten::SchemaArgument& value,
                                                    const at::Tensor& meta,
                                                    const aten::Type& type) const {
  std::optional<at::Tensor> same;
  for (size_t i = 0; i < arguments_.size(); ++i) {
    const aten::SchemaArgument& argument = schema_->arguments[i];
    const bool written = argument.writes && argument.alias_sets == value.alias_sets;
    for_each_tensor(arguments_[i], [&](const at::Tensor& tensor) {
      if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) return;
      if (!written && !recording_.meta_of(tensor).is_same(meta)) return;
      const RecordedTensor* known = recorded(tensor);
      const bool fits = !known || known->shape() == *type.shape;
      if (written && !fits) decisions_.refuse("the call changes the shape of its argument");
      if (fits && !same) same = tensor;
    });
  }
  return same;
}

at::Tensor RecordedCall::result(const at::Tensor& meta, const aten::Type& type) {
  const size_t dot = key_.find('.');
  const size_t start = key_.rfind(':', dot) + 1;
  const std::string name = schema_->returns.size() > 1 || schema_->returns[0].type.list
                               ? "getitem"
                               : key_.substr(start, dot == std::string::npos ? dot : dot - start);
  recording_.avoid_name(name);
  aten::Value* value = recording_.graph_->add_output(node_, name, type);
  for (size_t axis = 0; data_ && axis < type.shape->size(); ++axis) {
    const Dim& size = (*type.shape)[axis];
    if (size.is_symbol() && !decisions_.example(size))
      recording_.input_axes_.try_emplace(size.str(), value, static_cast<int64_t>(axis));
  }
  if (recording_.region_) recording_.region_->own_result(meta, arguments_);
  return recording_.new_tensor(meta, *type.shape, value);
}

// Adds the results to the node and puts them on the stack.
void RecordedCall::record(std::vector<c10::IValue> metas) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& value : metas) {
    if (!value.isTensor() && !value.isTensorList()) refuse("a result that is not a tensor");
    if (value.isTensor() && !value.toTensor().defined()) refuse("an undefined result");
    for_each_tensor(value, [&](const at::Tensor& tensor) { tensors.push_back(tensor); });
  }
  const std::vector<aten::Type> types = result_types(tensors);
  if (follows_from_constants()) note_recipes(tensors);
  size_t next = 0;
  for (size_t i = 0; i < metas.size(); ++i) {
    if (metas[i].isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& meta : metas[i].toTensorVector())
        list.push_back(result(meta, types[next++]));
      stack_.emplace_back(std::move(list));
      continue;
    }
    const at::Tensor& meta = metas[i].toTensor();
    at::Tensor made = result(meta, types[next]);
    if (std::optional<at::Tensor> same = same_tensor(schema_->returns[i], meta, types[next])) {
      if (const RecordedTensor* known = recorded(*same))
        recording_.values_[known->id()] = recording_.values_[recorded(made)->id()];
      made = std::move(*same);
    }
    ++next;
    stack_.emplace_back(std::move(made));
  }
}

// Adds the result of an operator that reshapes its argument in place.
void RecordedCall::record_reshape(const at::Tensor& meta) {
  const aten::Type type = result_types({meta})[0];
  const at::Tensor& self = arguments_[0].toTensor();
  const at::Tensor made = result(meta, type);
  recorded(self)->reshape(recorded(made)->id(), meta, *type.shape, decisions_);
  stack_.emplace_back(self);
}

// Refuses operators that cut a dynamic size into as many tensors as the size says.
void RecordedCall::check_number_of_results() {
  if (!symbolic_ || schema_->returns.empty() || !schema_->returns[0].type.list ||
      contains(kFixedLists, op_.operator_name().name))
    return;
  const RecordedTensor* self =
      arguments_[0].isTensor() ? recorded(arguments_[0].toTensor()) : nullptr;
  if (!self || self->shape().empty()) refuse("the number of results depends on sizes");
  const auto rank = static_cast<int64_t>(self->shape().size());
  const int64_t axis = (cut_axis(*schema_, arguments_) + rank) % rank;
  const Dim& size = self->shape()[static_cast<size_t>(axis)];
  if (!size.is_constant()) refuse("the number of results depends on the size " + size.str());
}

// Records the calls of which PyTorch composes the operator.
void RecordedCall::decompose() {
  constexpr auto kComposed = c10::DispatchKey::CompositeExplicitAutograd;
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  const c10::impl::ForceDispatchKeyGuard recording(
      keys.included_, keys.excluded_ - c10::DispatchKeySet(kRecorderKey));
  op_.callBoxedForDispatchKey(kComposed, stack_);
}

std::vector<Argument> RecordedCall::read_arguments() {
  recording_.location_ = recording_.graph_->add_location(recording_.host_.location());
  std::vector<Argument> arguments;
  for (size_t i = 0; i < arguments_.size(); ++i)
    arguments.push_back(argument(arguments_[i], schema_->arguments[i].type));
  return arguments;
}

void RecordedCall::run() {
  if (passes_through()) {
    op_.callBoxed(stack_);
    if (key_ == "aten::lift_fresh" || reads_elements()) {
      for (const c10::IValue& result : stack_)
        for_each_tensor(result, [this](const at::Tensor& made) { recording_.add_literal(made); });
    }
    return;
  }
  if (at::GradMode::is_enabled()) decisions_.note_gradients();
  if (key_ == "aten::detach_" && has_recorded()) return;  // nothing to do without autograd
  if (key_ == "aten::equal" && is_torch_nn()) {
    // Attention asks which of its arguments are the same, to compute their projections together.
    const bool same = arguments_[0].toTensor().is_same(arguments_[1].toTensor());
    torch::jit::drop(stack_, arguments_.size());
    stack_.emplace_back(same);
    return;
  }
  refuse_unknown();
  if (key_.starts_with("aten::_foreach_")) return decompose();
  if (may_cast_inside(op_) && casts_inside(op_, meta_arguments())) {
    run_below(op_, keys_, stack_);
    return;
  }
  torch::jit::drop(stack_, arguments_.size());
  if (reads_elements()) return read_elements();
  if (schema_->returns.empty() && !schema_->is_mutable()) {
    if (!aten::is_check(*schema_)) refuse("the call has no results");
    return;
  }
  if (reshapes()) {
    check_reshape();
  } else {
    check_writes();
  }
  std::vector<Argument> arguments = read_arguments();
  note_squeezed();
  std::optional<std::vector<c10::IValue>> metas = run_meta();
  if (!reshapes()) check_written_sizes();
  if (metas && contains(kAboutDtypes, op_.operator_name().name)) {
    stack_.insert(stack_.end(), metas->begin(), metas->end());
    return;
  }
  check_number_of_results();
  node_ = recording_.graph_->add_node(key_, std::move(arguments), recording_.location_);
  if (!metas) metas = inferred_metas();
  if (reshapes()) return record_reshape(metas->front().toTensor());
  if (aten::updates_statistics(*node_)) {
    for (const size_t i : aten::kStatistics) recording_.note_write(arguments_[i].toTensor());
  }
  record(std::move(*metas));
}

void Recording::call(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                     torch::jit::Stack& stack) {
  try {
    RecordedCall(*this, op, keys, stack).run();
  } catch (const ExportError& error) {
    decisions_.refuse(error.cause());
  }
}

}  // namespace onnx_native::capture
