#include "capture/control_flow.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>

namespace onnx_native::capture {
namespace {

using aten::Argument;
using Unrecorded = c10::impl::ExcludeDispatchKeyGuard;

// Returns the values that one of the regions captures, each once.
std::vector<aten::Value*> captured_by(std::initializer_list<const Region*> regions) {
  std::vector<aten::Value*> result;
  std::unordered_set<const aten::Value*> seen;
  for (const Region* region : regions) {
    for (aten::Value* value : region->captured()) {
      if (seen.insert(value).second) result.push_back(value);
    }
  }
  return result;
}

Argument::List list_of(const std::vector<aten::Value*>& values) {
  Argument::List list;
  for (aten::Value* value : values) list.emplace_back(value);
  return list;
}

// Returns true if the tensors have equal strides where they tell something.
bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  for (int64_t axis = 0; axis < a.dim(); ++axis) {
    if (a.size(axis) > 1 && a.stride(axis) != b.stride(axis)) return false;
  }
  return true;
}

bool same_type(const aten::Value& a, const aten::Value& b) {
  return a.type.dtype == b.type.dtype && a.type.shape == b.type.shape;
}

}  // namespace

Argument ControlFlow::condition_argument(const c10::IValue& condition) {
  if (condition.isTensor()) {
    const at::Tensor meta = recording_.meta_of(condition.toTensor());
    if (meta.numel() != 1) refuse("a condition of a branch or loop has several elements");
    return recording_.value_of(condition.toTensor());
  }
  if (!condition.isSymBool()) refuse("a condition of a branch or loop is constant");
  Argument flag = recording_.frame().sizes().number(
      *recording_.number_of(condition.toSymBool().toSymNodeImpl()));
  if (!flag.as_value()) refuse("a condition of a branch or loop is constant");
  return flag;
}

Argument::List ControlFlow::values(const Tensors& tensors) {
  Argument::List list;
  for (const at::Tensor& tensor : tensors) list.emplace_back(recording_.value_of(tensor));
  return list;
}

aten::Node* ControlFlow::add(const char* op, std::vector<Argument> arguments) {
  return recording_.frame().add_node(op, std::move(arguments));
}

at::Tensor ControlFlow::made(aten::Node* node, at::Tensor meta, aten::Type type,
                             c10::Device device) {
  aten::Value* value = recording_.frame().graph().add_output(node, "getitem", std::move(type));
  recording_.types().define(*value);
  recording_.frame().own(meta);
  return recording_.new_tensor(std::move(meta), *value->type.shape, value, device);
}

at::Tensor ControlFlow::result(aten::Node* node, const Region::Result& of) {
  at::Tensor meta = at::empty_strided(of.meta.sizes(), of.meta.strides(), of.meta.options());
  return made(node, std::move(meta), of.value->type, of.device);
}

// Returns what a loop carries out of its last iteration: copies, as what it carries into the first.
at::Tensor ControlFlow::last(aten::Node* node, const at::Tensor& carried,
                             const Region::Result& of) {
  return made(node, at::empty_like(recording_.meta_of(carried)), of.value->type, of.device);
}

// Does the same for a tensor that grew.
at::Tensor ControlFlow::grown(aten::Node* node, const at::Tensor& carried,
                              const Region::Growth& growth, const Dim& steps) {
  aten::Type type = recording_.value_of(carried)->type;
  Dim& size = (*type.shape)[growth.axis];
  size = size + Dim(growth.rows) * steps;
  std::vector<int64_t> sizes = recording_.meta_of(carried).sizes().vec();
  sizes[growth.axis] = *recording_.decisions().stand_in(size);
  return made(node, at::empty(sizes, recording_.meta_of(carried).options()), std::move(type),
              carried.device());
}

at::Tensor ControlFlow::stacked(aten::Node* node, const Region::Result& of, const Dim& length) {
  if (of.is_ragged) refuse("the steps of a loop return tensors of different sizes");
  std::vector<int64_t> sizes = of.meta.sizes().vec();
  sizes.insert(sizes.begin(), *recording_.decisions().example(length));
  Shape shape = *of.value->type.shape;
  shape.insert(shape.begin(), length);
  return made(node, at::empty(sizes, of.meta.options()),
              aten::Type::tensor(of.value->type.dtype, std::move(shape)), of.device);
}

// Returns the pieces that the steps of a loop return. How long they are together depends on data.
at::Tensor ControlFlow::concatenated(aten::Node* node, const Region::Result& of, size_t axis) {
  Decisions& decisions = recording_.decisions();
  Shape shape = *of.value->type.shape;
  std::vector<int64_t> sizes = of.meta.sizes().vec();
  shape[axis] = Dim::fresh(DimRange::size());
  decisions.declare_data(shape[axis].str(), DimRange::size());
  sizes[axis] = *decisions.stand_in(shape[axis]);
  const Dim length = shape[axis];
  at::Tensor result = made(node, at::empty(sizes, of.meta.options()),
                           aten::Type::tensor(of.value->type.dtype, std::move(shape)), of.device);
  recording_.frame().sizes().add_axis(length, node->outputs.back(), axis);
  return result;
}

// Returns the result of one of two branches. A size in which they differ depends on data.
at::Tensor ControlFlow::either(aten::Node* node, const Region::Result& a, const Region::Result& b) {
  if (a.device != b.device)
    refuse(concat("the branches return tensors on the devices ", a.device.str(), " and ",
                  b.device.str()));
  if (same_type(*a.value, *b.value)) {
    if (same_layout(a.meta, b.meta) || b.is_copy) return result(node, a);
    if (a.is_copy) return result(node, b);
    refuse("the branches return tensors of different strides");
  }
  if (a.value->type.dtype != b.value->type.dtype || a.meta.dim() != b.meta.dim())
    refuse("the branches return tensors of different types");
  if (!(a.meta.is_contiguous() || a.is_copy) || !(b.meta.is_contiguous() || b.is_copy))
    refuse("the branches return tensors of different sizes that are not contiguous");
  Decisions& decisions = recording_.decisions();
  Shape shape = *a.value->type.shape;
  std::vector<int64_t> sizes = a.meta.sizes().vec();
  std::vector<size_t> axes;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == (*b.value->type.shape)[axis]) continue;
    axes.push_back(axis);
    shape[axis] = Dim::fresh(DimRange::size());
    decisions.declare_data(shape[axis].str(), DimRange::size());
    sizes[axis] = *decisions.stand_in(shape[axis]);
  }
  at::Tensor made_tensor = made(node, at::empty(sizes, a.meta.options()),
                                aten::Type::tensor(a.value->type.dtype, shape), a.device);
  for (const size_t axis : axes)
    recording_.frame().sizes().add_axis(shape[axis], node->outputs.back(), axis);
  return made_tensor;
}

// Returns the number of slices along the first dimension.
Dim ControlFlow::length(const Tensors& xs) {
  if (xs.empty()) refuse("a loop over no tensors");
  Dim result = recording_.value_of(xs[0])->type.shape->front();
  for (const at::Tensor& x : xs) {
    if (recording_.value_of(x)->type.shape->front() != result)
      refuse("a loop over tensors of different lengths");
  }
  return result;
}

void ControlFlow::check_carried(const Tensors& carried, const Region& body) {
  if (body.results().size() < carried.size()) refuse("a loop returns too few results");
  for (size_t i = 0; i < carried.size(); ++i) {
    const Region::Result& next = body.results()[i];
    aten::Type type = body.input(i).type;
    if (const auto growth = body.growth(i)) {
      Dim& size = (*type.shape)[growth->axis];
      size = size + Dim(growth->rows);
    }
    if (next.value->type.dtype != type.dtype || next.value->type.shape != type.shape)
      refuse("an iteration changes the type of a loop-carried tensor");
    if (carried[i].device() != next.device)
      refuse("an iteration moves a loop-carried tensor to the device " + next.device.str());
  }
}

ControlFlow::Tensors ControlFlow::cond(const c10::IValue& condition, Region& yes, Region& no) {
  const Unrecorded unrecorded(kRecorderKey);
  if (yes.results().size() != no.results().size())
    refuse("the branches return different numbers of tensors");
  const std::vector<aten::Value*> captured = captured_by({&yes, &no});
  Argument flag = condition_argument(condition);
  aten::Node* node = add("higher_order::cond", {std::move(flag), yes.take(captured),
                                                no.take(captured), list_of(captured)});
  Tensors results;
  for (size_t i = 0; i < yes.results().size(); ++i)
    results.push_back(either(node, yes.results()[i], no.results()[i]));
  return results;
}

ControlFlow::Tensors ControlFlow::while_loop(const Tensors& carried, Region& condition,
                                             Region& body) {
  const Unrecorded unrecorded(kRecorderKey);
  if (body.results().size() != carried.size())
    refuse("a loop returns another number of tensors than it carries");
  check_carried(carried, body);
  const std::vector<aten::Value*> captured = captured_by({&condition, &body});
  aten::Node* node = add("higher_order::while_loop", {condition.take(captured), body.take(captured),
                                                      values(carried), list_of(captured)});
  Tensors results;
  for (size_t i = 0; i < carried.size(); ++i)
    results.push_back(last(node, carried[i], body.results()[i]));
  return results;
}

ControlFlow::Tensors ControlFlow::scan(const Tensors& init, const Tensors& xs, Region& body,
                                       const std::vector<std::optional<size_t>>& axes) {
  const Unrecorded unrecorded(kRecorderKey);
  check_carried(init, body);
  const Dim steps = length(xs);
  const std::vector<aten::Value*> captured = captured_by({&body});
  // ONNX's Scan takes neither pieces nor states that grow.
  const bool has_pieces =
      body.grows() || std::ranges::any_of(axes, [](const auto& axis) { return axis.has_value(); });
  std::vector<Argument> arguments{body.take(captured), values(init), values(xs), list_of(captured)};
  if (has_pieces) {
    Argument::List places;
    for (const std::optional<size_t>& axis : axes)
      places.push_back(axis ? Argument(static_cast<int64_t>(*axis)) : Argument());
    arguments.emplace_back(std::move(places));
  }
  aten::Node* node =
      add(has_pieces ? "higher_order::scan_pieces" : "higher_order::scan", std::move(arguments));
  Tensors results;
  for (size_t i = 0; i < body.results().size(); ++i) {
    const Region::Result& of = body.results()[i];
    if (i < init.size()) {
      const std::optional<Region::Growth> growth = body.growth(i);
      results.push_back(growth ? grown(node, init[i], *growth, steps) : last(node, init[i], of));
      continue;
    }
    const auto axis = has_pieces ? axes.at(i - init.size()) : std::nullopt;
    results.push_back(axis ? concatenated(node, of, *axis) : stacked(node, of, steps));
  }
  return results;
}

ControlFlow::Tensors ControlFlow::map(const Tensors& xs, Region& body) {
  const Unrecorded unrecorded(kRecorderKey);
  const Dim steps = length(xs);
  const std::vector<aten::Value*> captured = captured_by({&body});
  aten::Node* node =
      add("higher_order::map_impl", {body.take(captured), values(xs), list_of(captured)});
  Tensors results;
  for (const Region::Result& of : body.results()) results.push_back(stacked(node, of, steps));
  return results;
}

}  // namespace onnx_native::capture
