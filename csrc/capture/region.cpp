#include "capture/region.h"

#include <ATen/autocast_mode.h>
#include <ATen/functorch/DynamicLayer.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "capture/call.h"
#include "capture/control_flow.h"

namespace onnx_native::capture {

Region::Region(Recording& recording)
    : recording_(recording),
      frame_(recording.decisions(), recording.types(), recording.layouts(), &recording.frame()),
      symbols_before_(recording.decisions().symbol_count()) {
  if (at::functorch::maybeCurrentDynamicLayer())
    recording.decisions().refuse("control flow in a function that torch.vmap maps");
  recording_.enter(frame_);
  frame_.set_location(recording_.host().location());
}

Region::~Region() {
  if (!is_open_) return;
  recording_.leave(frame_);
  recording_.keep(frame_.take_graph());
}

at::Tensor Region::add_input(const at::Tensor& like, bool is_slice) {
  const c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecorderKey);
  const aten::Type type = recording_.value_in(*frame_.outer(), like)->type;
  at::Tensor meta = recording_.meta_of(like);
  Shape shape = *type.shape;
  if (is_slice) {
    shape.erase(shape.begin());
    meta = meta.select(0, 0);
  }
  meta = at::empty_like(meta);
  aten::Value* value = frame_.add_input("x", aten::Type::tensor(type.dtype, shape));
  added_.push_back(value);
  return recording_.new_tensor(std::move(meta), std::move(shape), value, like.device());
}

void Region::end(const std::vector<c10::IValue>& results) {
  std::unordered_set<const c10::StorageImpl*> seen;
  for (const c10::IValue& result : results) {
    if (!result.isTensor() || !result.toTensor().defined())
      recording_.decisions().refuse("a branch or loop returns a value that is not a tensor");
    at::Tensor tensor = result.toTensor();
    const bool is_copy = !is_own(tensor, seen);
    if (is_copy) tensor = at::clone(tensor);
    const c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecorderKey);
    aten::Value* value = recording_.value_of(tensor);
    frame_.graph().outputs.emplace_back(value);
    results_.push_back({.value = value,
                        .meta = recording_.meta_of(tensor),
                        .device = tensor.device(),
                        .is_copy = is_copy,
                        .is_ragged = !ragged_axes(tensor).empty()});
  }
  close();
}

at::Tensor Region::add_growing_input(const at::Tensor& like, Growth growth,
                                     const std::optional<Dim>& size) {
  const c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecorderKey);
  const aten::Type type = recording_.value_in(*frame_.outer(), like)->type;
  Decisions& decisions = recording_.decisions();
  Shape shape = *type.shape;
  const size_t axis = growth.axis;
  DimRange range = DimRange::size();  // at least what it begins with
  range.low = std::max<int64_t>(shape[axis].range().low.value_or(0), 0);
  if (decisions.proven(Dim(1) - shape[axis], Relation::less_equal).value_or(false))
    range.low = std::max<int64_t>(*range.low, 1);
  shape[axis] = size ? *size : Dim::fresh(range);
  if (!size) decisions.declare_data(shape[axis].str(), range);
  std::vector<int64_t> sizes = recording_.meta_of(like).sizes().vec();
  sizes[axis] = *decisions.stand_in(shape[axis]);
  at::Tensor meta = at::empty(sizes, recording_.meta_of(like).options());
  growing_.emplace(added_.size(), growth);
  aten::Value* value = frame_.add_input("x", aten::Type::tensor(type.dtype, shape));
  added_.push_back(value);
  if (!size) frame_.sizes().add_axis(shape[axis], value, axis);
  return recording_.new_tensor(std::move(meta), std::move(shape), value, like.device());
}

std::vector<size_t> Region::ragged_axes(const at::Tensor& tensor) const {
  const Shape shape = shape_of(tensor);
  std::vector<size_t> axes;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (recording_.decisions().depends_on_data_since(symbols_before_, shape[axis]))
      axes.push_back(axis);
  }
  return axes;
}

// Returns true if the region made the memory of a tensor, and adds it to the memory in `seen`.
bool Region::is_own(const at::Tensor& tensor, std::unordered_set<const c10::StorageImpl*>& seen) {
  const c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecorderKey);
  const at::Tensor meta = recording_.meta_of(tensor);
  return frame_.owns(meta) && seen.insert(meta.storage().unsafeGetStorageImpl()).second;
}

void Region::end_with_condition(const c10::IValue& condition) {
  const c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecorderKey);
  frame_.graph().outputs.push_back(ControlFlow(recording_).condition_argument(condition));
  close();
}

void Region::close() {
  recording_.leave(frame_);
  is_open_ = false;
  at::autocast::clear_cache();  // casts that the region computed
}

std::shared_ptr<aten::Graph> Region::take(const std::vector<aten::Value*>& captured) {
  std::vector<aten::Value*> inputs = added_;
  for (aten::Value* outer : captured) inputs.push_back(frame_.input_of(outer));
  std::unique_ptr<aten::Graph> graph = frame_.take_graph();
  graph->inputs = std::move(inputs);
  name_nodes(*graph);
  return graph;
}

}  // namespace onnx_native::capture
