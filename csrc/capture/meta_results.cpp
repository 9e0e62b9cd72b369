#include "capture/meta_results.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/error.h"
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
    add(at::autocast::get_autocast_dtype(c10::kCPU));
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
std::string text_of(const torch::jit::Stack& results) {
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
  key.add(op.operator_name().name);
  key.add(op.operator_name().overload_name);
  key.add_context();
  for (const c10::IValue& argument : stack) {
    if (key.add(argument)) continue;
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
    if (text_of(expected) != text_of(stack))
      found = concat(text_of(stack), " instead of ", text_of(expected));
  } catch (const std::exception& error) {
    found = concat(text_of(stack), " instead of ", first_line(error.what()));
  }
  if (found.empty()) return;
  const std::scoped_lock lock(mutex);
  contradicted().push_back(
      concat(op.operator_name().name, ".", op.operator_name().overload_name, ": ", found));
}

std::vector<std::string> MetaResults::contradictions() {
  const std::scoped_lock lock(mutex);
  return contradicted();
}

}  // namespace onnx_native::capture
