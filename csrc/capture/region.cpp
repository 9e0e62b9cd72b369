#include "capture/region.h"

#include <ATen/autocast_mode.h>
#include <ATen/functorch/DynamicLayer.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "capture/control_flow.h"
#include "capture/recorded_call.h"

namespace onnx_native::capture {

Region::Region(Recording& recording) : recording_(recording), enclosing_(recording.region_) {
  if (at::functorch::maybeCurrentDynamicLayer())
    recording.decisions_.refuse("control flow in a function that torch.vmap maps");
  swap();
  recording_.location_ = recording_.graph_->add_location(recording_.host_.location());
}

Region::~Region() {
  if (!is_open_) return;
  swap();
  // The type inference has seen the graph's values.
  recording_.dropped_.push_back(std::move(graph_));
}

// Exchanges the state of the region and of the enclosing one.
void Region::swap() {
  std::swap(recording_.graph_, graph_);
  std::swap(recording_.values_, values_);
  std::swap(recording_.input_axes_, input_axes_);
  std::swap(recording_.multiples_, multiples_);
  std::swap(recording_.sizes_, sizes_);
  std::swap(recording_.numbers_, numbers_);
  std::swap(recording_.location_, location_);
  recording_.region_ = recording_.region_ == this ? enclosing_ : this;
}

aten::Value* Region::add_graph_input(const std::string& name, aten::Type type) {
  aten::Value* value = recording_.graph_->add_input(name, std::move(type));
  if (recording_.types_) recording_.types_->define(*value);
  return value;
}

at::Tensor Region::add_input(const at::Tensor& like, bool is_slice) {
  const c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecorderKey);
  const aten::Type type = in_enclosing([&] { return recording_.value_of(like)->type; });
  at::Tensor meta = recording_.meta_of(like);
  Shape shape = *type.shape;
  if (is_slice) {
    shape.erase(shape.begin());
    meta = meta.select(0, 0);
  }
  meta = at::empty_like(meta);
  aten::Value* value = add_graph_input("x", aten::Type::tensor(type.dtype, shape));
  added_.push_back(value);
  return recording_.new_tensor(std::move(meta), std::move(shape), value, like.device());
}

aten::Value* Region::capture(aten::Value* outer) {
  const auto [at, inserted] = inputs_of_.try_emplace(outer, nullptr);
  if (!inserted) return at->second;
  captured_.push_back(outer);
  at->second = add_graph_input(outer->name, outer->type);
  recording_.layouts_.copy(outer, at->second);
  return at->second;
}

void Region::own_result(const at::Tensor& meta, const std::vector<c10::IValue>& arguments) {
  bool is_view = false;
  for (const c10::IValue& argument : arguments)
    for_each_tensor(argument, [&](const at::Tensor& tensor) {
      is_view = is_view || (!tensor.unsafeGetTensorImpl()->is_wrapped_number() &&
                            recording_.meta_of(tensor).is_alias_of(meta));
    });
  if (!is_view) own(meta);
}

void Region::end(const std::vector<c10::IValue>& results) {
  std::unordered_set<const c10::StorageImpl*> seen;
  for (const c10::IValue& result : results) {
    if (!result.isTensor() || !result.toTensor().defined())
      recording_.decisions_.refuse("a branch or loop returns a value that is not a tensor");
    at::Tensor tensor = result.toTensor();
    const bool is_copy = !is_own(tensor, seen);
    if (is_copy) tensor = at::clone(tensor);
    const c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecorderKey);
    aten::Value* value = recording_.value_of(tensor);
    recording_.graph_->outputs.emplace_back(value);
    results_.push_back({.value = value,
                        .meta = recording_.meta_of(tensor),
                        .device = tensor.device(),
                        .is_copy = is_copy});
  }
  close();
}

// Returns true if the region made the memory of a tensor, and adds it to the memory in `seen`.
bool Region::is_own(const at::Tensor& tensor, std::unordered_set<const c10::StorageImpl*>& seen) {
  const c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecorderKey);
  const at::Tensor meta = recording_.meta_of(tensor);
  return owns(meta) && seen.insert(meta.storage().unsafeGetStorageImpl()).second;
}

void Region::end_with_condition(const c10::IValue& condition) {
  const c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecorderKey);
  recording_.graph_->outputs.push_back(ControlFlow(recording_).condition_argument(condition));
  close();
}

void Region::close() {
  swap();
  is_open_ = false;
  at::autocast::clear_cache();  // casts that the region computed
}

std::shared_ptr<aten::Graph> Region::take(const std::vector<aten::Value*>& captured) {
  std::vector<aten::Value*> inputs = added_;
  for (aten::Value* outer : captured) {
    const auto at = inputs_of_.find(outer);
    inputs.push_back(at == inputs_of_.end() ? graph_->add_input(outer->name, outer->type)
                                            : at->second);
  }
  graph_->inputs = std::move(inputs);
  name_nodes(*graph_);
  return std::move(graph_);
}

}  // namespace onnx_native::capture
