// Calls of operators that are not PyTorch's own: only their fake kernel knows the sizes of results.
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <utility>

#include "aten/interrupt.h"
#include "aten/torch_types.h"
#include "base/error.h"
#include "capture/meta_arguments.h"
#include "capture/recorded_call.h"
#include "capture/region.h"
#include "capture/symbolic_size.h"
#include "capture/transformed_call.h"

namespace onnx_native::capture {
namespace {

// Returns the kernel that computes types: the fake kernel, or the operator itself if it consists of
// other operators.
std::optional<c10::DispatchKey> fake_kernel_of(const c10::OperatorHandle& op) {
  using c10::DispatchKey;
  for (const DispatchKey key : {DispatchKey::Meta, DispatchKey::CompositeExplicitAutograd,
                                DispatchKey::CompositeImplicitAutograd}) {
    if (op.hasKernelForDispatchKey(key)) return key;
  }
  return std::nullopt;
}

// Returns true if all tensors of a call are contiguous.
bool are_row_major(const std::vector<c10::IValue>& arguments) {
  bool all = true;
  for (const c10::IValue& argument : arguments)
    for_each_tensor(argument, [&](const at::Tensor& tensor) {
      const RecordedTensor* known = recorded(tensor);
      const at::Tensor& meta = known ? known->meta() : tensor;
      all = all && meta.layout() == c10::kStrided && is_row_major(meta);
    });
  return all;
}

// Returns true if a tensor has several axes, which may be in any order in memory.
bool has_axes(const c10::IValue& value) {
  bool found = false;
  for_each_tensor(value, [&](const at::Tensor& tensor) { found = found || tensor.dim() > 1; });
  return found;
}

}  // namespace

// Records the call with the types that the fake kernel computes. Returns false if there is none.
bool RecordedCall::record_by_fake_kernel(std::vector<aten::Argument>& arguments) {
  const std::optional<c10::DispatchKey> kernel = fake_kernel_of(call_.op);
  if (!kernel) return false;
  node_ = add_node(std::move(arguments));
  if (call_.key.starts_with("onnx_native::") && record_by_lowering()) return true;
  std::vector<aten::Type> types;
  const std::vector<c10::IValue> metas = run_fake_kernel(*kernel, types);
  // Kernels for the CPU may choose other strides, mostly where an argument is not contiguous.
  if (!are_row_major(call_.arguments) && std::ranges::any_of(metas, has_axes))
    decisions_.guess_strides();
  for (const aten::Type& type : types) {
    for (const Dim& size : *type.shape) note_size(size);
  }
  if (call_.schema->is_mutable() && recording_.types().started()) forget_written();
  record(metas, types);
  // The lowering may have left results without types.
  for (const aten::Value* result : node_->outputs) {
    if (recording_.types().started()) recording_.types().started()->forget(*result);
  }
  return true;
}

// Records a call of an operator of this package. Only its lowering tells the types of its results
// for sure. Returns false if ONNX does not know these types.
bool RecordedCall::record_by_lowering() {
  std::vector<aten::Type> types;
  try {
    types = recording_.types().infer(*node_);
  } catch (const ExportError&) {  // the model may have another opset
    return false;
  }
  const bool known = std::ranges::all_of(types, [](const aten::Type& type) {
    return type.is_tensor() && type.shape && type.dtype != DType::undefined;
  });
  if (!known || types.size() != call_.schema->returns.size()) return false;
  std::vector<c10::IValue> metas;
  for (const aten::Type& type : types) {
    for (const Dim& size : *type.shape) {
      declare_size(size, std::nullopt);
      note_size(size);
    }
    metas.emplace_back(selected(type));
  }
  if (!recording_.meta_results().take_eager_strides(call_.op, devices_.first,
                                                    meta_arguments(call_, false), metas))
    decisions_.guess_strides();
  record(metas, types);
  return true;
}

// Runs the kernel on the recorded tensors themselves, which know their symbolic sizes. What it
// calls is recorded apart and dropped.
std::vector<c10::IValue> RecordedCall::run_fake_kernel(c10::DispatchKey kernel,
                                                       std::vector<aten::Type>& types) {
  torch::jit::Stack stack = call_.arguments;
  std::vector<c10::IValue> metas;
  const Recording::FakeKernel running(recording_);
  try {
    const Region dropped(recording_);
    run_kernel(call_.op, kernel, stack);
    for (const c10::IValue& result : stack) {
      if (result.isTensor()) {
        metas.emplace_back(fake_result(result.toTensor(), types.emplace_back()));
        continue;
      }
      if (!result.isTensorList()) call_.refuse("a result that is not a tensor");
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : result.toTensorVector())
        list.push_back(fake_result(tensor, types.emplace_back()));
      metas.emplace_back(std::move(list));
    }
  } catch (const c10::Error& error) {
    call_.refuse(first_line(error.what_without_backtrace()));
  } catch (const std::exception& error) {
    aten::pass_interrupt();
    call_.refuse(first_line(error.what()));
  }
  return metas;
}

// Returns the meta tensor and the type of a result of the fake kernel.
at::Tensor RecordedCall::fake_result(const at::Tensor& tensor, aten::Type& type) {
  const RecordedTensor* made = recorded(tensor);
  const auto dtype = made ? aten::to_dtype(tensor.scalar_type()) : std::nullopt;
  if (!dtype) call_.refuse("its fake kernel returns a tensor that it did not compute");
  type = aten::Type::tensor(*dtype, made->shape());
  const at::Tensor& meta = made->meta();
  bool is_alias = false;
  for (const c10::IValue& argument : call_.arguments)
    for_each_tensor(argument, [&](const at::Tensor& given) {
      is_alias = is_alias || (!given.unsafeGetTensorImpl()->is_wrapped_number() &&
                              recording_.meta_of(given).is_alias_of(meta));
    });
  const bool may_alias = std::ranges::any_of(
      call_.schema->returns, [](const aten::SchemaArgument& r) { return !r.alias_sets.empty(); });
  if (is_alias != may_alias)
    call_.refuse(is_alias
                     ? "its fake kernel returns an argument or a view of one, unlike its schema"
                     : "its fake kernel returns no view of an argument, unlike its schema");
  return is_alias ? meta : at::empty_strided(meta.sizes(), meta.strides(), meta.options());
}

c10::SymInt Recording::new_size(int64_t low, std::optional<int64_t> high) {
  if (fake_kernels_ == 0) decisions_.refuse("a size is made outside of a fake kernel");
  types_.get();  // sizes are symbolic from here on
  const Dim size = Dim::fresh(DimRange{.low = low, .high = high});
  decisions_.declare_data(size.str(), size.range());
  return add_integer(size.str(), size);  // an input of the region that is dropped
}

}  // namespace onnx_native::capture
