#include "capture/meta_results.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <utility>

#include "aten/interrupt.h"
#include "aten/op_facts.h"
#include "aten/torch_types.h"
#include "base/error.h"
#include "capture/call.h"
#include "capture/decisions.h"
#include "capture/meta_kernels.h"

namespace onnx_native::capture {
namespace {

// Writes what the results of a meta kernel depend on.
class Key {
 public:
  // Adds what a kernel may ask besides its arguments.
  void add_context() {
    const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
    const at::Context& context = at::globalContext();
    add(keys.included_.raw_repr());
    add(keys.excluded_.raw_repr());
    add(at::GradMode::is_enabled());
    add(c10::get_default_dtype_as_scalartype());
    add(at::autocast::is_autocast_enabled(c10::kCPU));
    for (const c10::DeviceType type : {c10::kCPU, c10::kCUDA, c10::kPrivateUse1})
      add(at::autocast::get_autocast_dtype(type));
    add(context.userEnabledFlashSDP());
    add(context.userEnabledMemEfficientSDP());
    add(context.userEnabledMathSDP());
    add(context.deterministicAlgorithms());
  }

  // Returns false if a value of this type cannot be a part of a key.
  bool add(const c10::IValue& value) {
    add(static_cast<uint8_t>(value.isTensor() ? 1 : value.isList() ? 2 : 0));
    if (value.isTensor()) return add(value.toTensor());
    if (value.isList()) {
      const c10::ArrayRef<c10::IValue> items = value.toListRef();
      add(items.size());
      return std::ranges::all_of(items, [this](const c10::IValue& item) { return add(item); });
    }
    const std::string type = value.tagKind();
    add(type);
    if (value.isNone()) return true;
    if (value.isInt()) return add(value.toInt());
    if (value.isDouble()) return add(value.toDouble());
    if (value.isBool()) return add(value.toBool());
    if (value.isString()) return add(value.toStringRef());
    if (value.isDevice()) return add(value.toDevice().type());
    return false;
  }

  bool add(const std::string& text) {
    add(text.size());
    text_ += text;
    return true;
  }

  template <class Plain>
  requires std::is_trivially_copyable_v<Plain>
  bool add(const Plain& plain) {
    text_.append(reinterpret_cast<const char*>(&plain), sizeof plain);
    return true;
  }

  std::string take() { return std::move(text_); }
  // Returns the storages of the tensors that were added.
  std::unordered_set<const c10::StorageImpl*> take_storages() { return std::move(storages_); }

 private:
  bool add(const at::Tensor& tensor) {
    add(tensor.defined());
    if (!tensor.defined()) return true;
    const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    add(impl.key_set().raw_repr());
    if (tensor.has_storage()) storages_.insert(tensor.storage().unsafeGetStorageImpl());
    add(tensor.scalar_type());
    add(impl.is_wrapped_number());
    add(tensor.requires_grad());
    add(tensor.storage_offset());
    add(tensor.dim());
    for (const int64_t size : tensor.sizes()) add(size);
    for (const int64_t stride : tensor.strides()) add(stride);
    // Kernels may read a number, which is not on the meta device.
    if (!impl.is_wrapped_number()) return tensor.is_meta();
    text_.append(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
    return true;
  }

  std::string text_;
  std::unordered_set<const c10::StorageImpl*> storages_;
};

// Adds an operator, its context and its arguments. Returns false if the key cannot hold them.
bool add_call(Key& key, const c10::OperatorHandle& op, const torch::jit::Stack& arguments) {
  key.add(op.operator_name().name);
  key.add(op.operator_name().overload_name);
  key.add_context();
  return std::ranges::all_of(arguments, [&](const auto& argument) { return key.add(argument); });
}

// Returns true if a result is not an argument that the call writes to.
bool is_new_result(const c10::Argument& result) {
  return !result.alias_info() || !result.alias_info()->isWrite();
}

// Returns true if the results may share memory with arguments. Some of PyTorch's kernels for meta
// tensors return an argument where those for the CPU return a copy.
bool may_alias(const c10::OperatorHandle& op) {
  const aten::Schema* schema = aten::find_schema(aten::key_of(op.operator_name()));
  return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) ||
         (schema && aten::facts_of(*schema).hidden_alias) ||
         std::ranges::any_of(op.schema().returns(), [](const c10::Argument& result) {
           return result.alias_info() != nullptr;
         });
}

// Returns true if the CPU kernels may order memory in a way of their own, whatever the arguments.
bool orders_anew(const c10::OperatorHandle& op) {
  if (op.operator_name().getNamespace() != "aten") return true;
  const aten::Schema* schema = aten::find_schema(aten::key_of(op.operator_name()));
  return !schema || aten::facts_of(*schema).strides == aten::Strides::scattered;
}

// Replaces meta tensors by zeros.
c10::IValue zeros_in(const c10::IValue& value, c10::Device device) {
  if (value.isTensor() && value.toTensor().defined() && value.toTensor().is_meta())
    return MetaResults::zeros_for(value.toTensor(), device);
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& item : value.toTensorVector())
      list.push_back(zeros_in(c10::IValue(item), device).toTensor());
    return list;
  }
  if (value.isList()) {  // of optional tensors
    c10::impl::GenericList list(value.toList().elementType());
    for (const c10::IValue& item : value.toListRef()) list.push_back(zeros_in(item, device));
    return list;
  }
  return value.isDevice() ? c10::IValue(device) : value;
}

// Restores the state of the CPU's default generator.
class KeptRandomState {
 public:
  KeptRandomState() : generator_(at::detail::getDefaultCPUGenerator()) {
    const std::scoped_lock lock(generator_.mutex());
    state_ = generator_.get_state();
  }
  ~KeptRandomState() {
    const std::scoped_lock lock(generator_.mutex());
    generator_.set_state(state_);
  }
  KeptRandomState(const KeptRandomState&) = delete;
  KeptRandomState& operator=(const KeptRandomState&) = delete;

 private:
  at::Generator generator_;
  at::Tensor state_;
};

bool verifies() {
  static const bool result = [] {
    const char* setting = std::getenv("ONNX_NATIVE_VERIFY");
    return setting && std::string_view(setting) == "1";
  }();
  return result;
}

std::mutex mutex;  // of the contradictions

std::vector<std::string>& contradicted() {
  static auto& found = *new std::vector<std::string>;  // for the process
  return found;
}

// Returns the types of results as text, with the strides of axes that have several elements.
std::string text_of_results(const torch::jit::Stack& results) {
  std::string text;
  const auto add = [&text](const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    text += concat(" ", c10::toString(tensor.scalar_type()), "[");
    for (int64_t axis = 0; axis < tensor.dim(); ++axis) {
      const bool strided = tensor.size(axis) > 1 && tensor.numel() > 0;
      text += concat(" ", tensor.size(axis), ":", strided ? tensor.stride(axis) : 1);
    }
    text += "]";
  };
  for (const c10::IValue& result : results) {
    if (result.isTensor()) {
      add(result.toTensor());
    } else if (result.isTensorList()) {
      for (const at::Tensor& tensor : result.toTensorVector()) add(tensor);
    } else {
      text += concat(" ", result.tagKind());
    }
  }
  return text;
}

}  // namespace

int64_t MetaResults::span_of(at::IntArrayRef sizes, at::IntArrayRef strides) {
  int64_t last = 0;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    if (sizes[axis] == 0) return 0;
    last += (sizes[axis] - 1) * strides[axis];
  }
  return last + 1;
}

at::Tensor MetaResults::zeros_for(const at::Tensor& meta, c10::Device device) {
  at::Tensor zeros = at::zeros({span_of(meta.sizes(), meta.strides())},
                               at::TensorOptions().dtype(meta.scalar_type()).device(device))
                         .as_strided(meta.sizes(), meta.strides());
  if (meta.is_conj()) zeros = zeros.conj();
  return meta.is_neg() ? zeros._neg_view() : zeros;
}

void MetaResults::call_on_zeros(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  const c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecorderKey);
  const KeptRandomState kept;
  op.callBoxed(stack);
}

at::Tensor MetaResults::tensor_of(const Type& type) {
  return at::empty_strided(type.sizes, type.strides,
                           at::TensorOptions().dtype(type.dtype).device(c10::kMeta));
}

// Returns nullopt if a result is more than a new tensor of some type. `taken` has the storages of
// other tensors.
std::optional<std::vector<MetaResults::Type>> MetaResults::types_of(
    const torch::jit::Stack& results, Storages taken) {
  std::vector<Type> types;
  for (const c10::IValue& result : results) {
    if (!result.isTensor() || !result.toTensor().defined()) return std::nullopt;
    const at::Tensor& tensor = result.toTensor();
    if (!tensor.is_meta() || !tensor.has_storage()) return std::nullopt;
    if (!taken.insert(tensor.storage().unsafeGetStorageImpl()).second) return std::nullopt;
    Type type{tensor.sizes().vec(), tensor.strides().vec(), tensor.scalar_type()};
    const at::Tensor same = tensor_of(type);
    if (tensor.key_set() != same.key_set() || tensor.storage_offset() != 0 ||
        tensor.storage().nbytes() != same.storage().nbytes() || tensor.requires_grad() ||
        tensor.unsafeGetTensorImpl()->is_wrapped_number())
      return std::nullopt;
    types.push_back(std::move(type));
  }
  return types;
}

// Calls an operator, and remembers the types of its results.
void MetaResults::run(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  if (op.schema().is_mutable() || has_meta_kernel(op)) {
    op.callBoxed(stack);
    return;
  }
  Key key;
  if (!add_call(key, op, stack)) {
    op.callBoxed(stack);
    return;
  }
  std::string text = key.take();
  if (const auto at = types_.find(text); at != types_.end()) {
    stack.clear();
    for (const Type& type : at->second) stack.emplace_back(tensor_of(type));
    return;
  }
  op.callBoxed(stack);
  if (auto types = types_of(stack, key.take_storages()))
    types_.emplace(std::move(text), std::move(*types));
}

void MetaResults::call(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  if (op.schema().is_mutable() || !verifies()) {
    const MetaKernels kernels;
    return run(op, stack);
  }
  torch::jit::Stack expected = stack;
  {
    const MetaKernels kernels;
    run(op, stack);
  }
  std::string found;
  try {
    op.callBoxed(expected);
    if (text_of_results(expected) != text_of_results(stack))
      found = concat(text_of_results(stack), " instead of ", text_of_results(expected));
  } catch (const std::exception& error) {
    aten::pass_interrupt();
    const std::string why = first_line(error.what());
    found = concat(text_of_results(stack), " instead of ", why);
  }
  if (found.empty()) return;
  const std::scoped_lock lock(mutex);
  contradicted().push_back(
      concat(op.operator_name().name, ".", op.operator_name().overload_name, ": ", found));
}

bool MetaResults::take_eager_strides(const c10::OperatorHandle& op, c10::Device device,
                                     const torch::jit::Stack& arguments,
                                     torch::jit::Stack& results) {
  if (shares_meta_kernel(op) || !std::ranges::any_of(op.schema().returns(), is_new_result))
    return true;
  bool all_packed = true;
  Storages given;
  for (const c10::IValue& argument : arguments)
    for_each_tensor(argument, [&](const at::Tensor& tensor) {
      all_packed = all_packed && (!tensor.is_meta() || is_row_major(tensor));
      given.insert(storage_of(tensor));
    });
  const auto is_new = [](const c10::IValue& result) {
    return result.isTensor() && result.toTensor().defined() && result.toTensor().is_meta();
  };
  if (!std::ranges::all_of(results, is_new)) return true;
  bool aliases = false;
  for (size_t i = 0; i < results.size(); ++i)
    aliases = aliases || (is_new_result(op.schema().returns()[i]) &&
                          given.contains(storage_of(results[i].toTensor())));
  // A view has the strides of its base.
  if (aliases ? may_alias(op) : all_packed && !orders_anew(op)) return true;
  std::vector<Type> types;
  for (const c10::IValue& result : results) {
    const at::Tensor& tensor = result.toTensor();
    types.push_back({tensor.sizes().vec(), tensor.strides().vec(), tensor.scalar_type()});
  }
  Key key;
  key.add(device.type());
  std::optional<Strides> strides;
  if (add_call(key, op, arguments)) {
    std::string text = key.take();
    auto at = strides_.find(text);
    if (at == strides_.end())
      at = strides_.emplace(std::move(text), eager_strides(op, device, arguments, types)).first;
    strides = at->second;
  }
  const auto has_order = [](const Type& type) {
    return std::ranges::count_if(type.sizes, [](int64_t size) { return size != 1; }) > 1;
  };
  if (!strides) return !aliases && std::ranges::none_of(types, has_order);
  for (size_t i = 0; i < results.size(); ++i) {
    if (!is_new_result(op.schema().returns()[i])) continue;
    const at::Tensor& tensor = results[i].toTensor();
    if (types[i].strides == (*strides)[i] && !given.contains(storage_of(tensor))) continue;
    types[i].strides = (*strides)[i];
    at::Tensor made = tensor_of(types[i]);
    if (made.key_set() != tensor.key_set()) return false;
    results[i] = std::move(made);
  }
  return true;
}

// Returns nullopt if the call is too large, or the device's kernel rejects zeros.
std::optional<MetaResults::Strides> MetaResults::eager_strides(const c10::OperatorHandle& op,
                                                               c10::Device device,
                                                               const torch::jit::Stack& arguments,
                                                               const std::vector<Type>& results) {
  int64_t elements = 0;
  for (const Type& type : results) elements += span_of(type.sizes, type.strides);
  for (const c10::IValue& argument : arguments)
    for_each_tensor(argument, [&](const at::Tensor& tensor) {
      elements += span_of(tensor.sizes(), tensor.strides());
    });
  if (elements > kMostElements) return std::nullopt;
  const c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecorderKey);
  torch::jit::Stack stack;
  try {
    for (const c10::IValue& argument : arguments) stack.push_back(zeros_in(argument, device));
    call_on_zeros(op, stack);
  } catch (const std::exception&) {
    aten::pass_interrupt();
    return std::nullopt;
  }
  if (stack.size() != results.size()) return std::nullopt;
  Strides strides;
  for (size_t i = 0; i < stack.size(); ++i) {
    if (!stack[i].isTensor() || !stack[i].toTensor().defined()) return std::nullopt;
    const at::Tensor& made = stack[i].toTensor();
    if (made.layout() != c10::Layout::Strided || made.sizes() != results[i].sizes)
      return std::nullopt;
    strides.push_back(made.strides().vec());
  }
  return strides;
}

std::vector<std::string> MetaResults::contradictions() {
  const std::scoped_lock lock(mutex);
  return contradicted();
}

}  // namespace onnx_native::capture
