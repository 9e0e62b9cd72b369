#include "capture/replaced_call.h"

#include <ATen/ops/clone.h>
#include <ATen/ops/empty.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <limits>
#include <utility>

#include "base/dim_order.h"
#include "base/error.h"
#include "capture/symbolic_size.h"
#include "capture/transformed_call.h"

namespace onnx_native::capture {

bool record_pinned(const Call& call, torch::jit::Stack& stack) {
  const bool asks = call.key == "aten::is_pinned";
  if (!asks && call.key != "aten::pin_memory" && call.key != "aten::_pin_memory") return false;
  const at::Tensor self = call.arguments[0].toTensor();
  const at::Tensor meta = call.recording.meta_of(self);
  const bool is_pinned =
      self.is_cpu() &&
      (recorded(self) ? call.recording.memories().is_pinned(meta) : self.is_pinned());
  if (!asks && !self.is_cpu())
    call.refuse("the program pins memory of the device " + self.device().str());
  torch::jit::drop(stack, call.arguments.size());
  if (asks) {
    stack.emplace_back(is_pinned);
    return true;
  }
  if (is_pinned) {
    stack.emplace_back(self);
    return true;
  }
  at::empty({1}, at::TensorOptions().pinned_memory(true));  // raises where nothing can be pinned
  const c10::impl::ForceDispatchKeyGuard recording(with_recorder());
  at::Tensor pinned = at::clone(self);
  call.recording.memories().pin(recorded(pinned)->meta());
  stack.emplace_back(std::move(pinned));
  return true;
}

bool record_slice(const Call& call, torch::jit::Stack& stack) {
  if (call.key != "aten::slice.Tensor") return false;
  const Shape shape = shape_of(call.arguments[0].toTensor());
  if (shape.empty() || !call.arguments[4].isInt() || call.arguments[4].toInt() != 1) return false;
  const size_t axis = call.cut_axis(shape.size());
  const Dim& size = shape[axis];
  const auto bound = [&](size_t i, const Dim& missing) {
    return call.arguments[i].isNone() ? missing
                                      : to_dim(call.arguments[i].toSymInt(), call.decisions());
  };
  constexpr int64_t kBeyond = std::numeric_limits<int32_t>::max();  // larger than any size
  Dim start = bound(2, 0);
  Dim end = bound(3, size);
  if (end.constant_or(0) >= kBeyond) end = size;
  const auto has_sign = [](const Dim& at) {
    return known_at_least(at, 0, true) || known_at_least(-1, at, true);
  };
  if ((has_sign(start) && has_sign(end)) || !call.decisions().follows_from_sizes(start) ||
      !call.decisions().follows_from_sizes(end) || !call.decisions().example(start) ||
      !call.decisions().example(end) || !call.decisions().example(size))
    return false;
  const auto is_less = [&call](const Dim& a, const Dim& b) {
    return call.decisions().decide(a - b, Relation::less, concat(a.str(), " < ", b.str()));
  };
  for (Dim* at : {&start, &end}) {
    if (is_less(*at, 0)) *at = is_less(*at + size, 0) ? 0 : *at + size;
    if (is_less(size, *at)) *at = size;
  }
  if (is_less(end, start)) end = start;
  const at::Tensor tensor = call.arguments[0].toTensor();
  torch::jit::drop(stack, call.arguments.size());
  const c10::impl::ForceDispatchKeyGuard recording(with_recorder());
  stack.emplace_back(tensor.narrow_symint(static_cast<int64_t>(axis),
                                          to_sym_int(start, call.decisions()),
                                          to_sym_int(end - start, call.decisions())));
  return true;
}

bool record_rows(const Call& call, torch::jit::Stack& stack) {
  const bool unbinds = call.key == "aten::unbind.int";
  const bool splits = call.key == "aten::split.Tensor" && call.arguments[1].isInt() &&
                      call.arguments[1].toInt() == 1;
  if (!unbinds && !splits) return false;
  const at::Tensor tensor = call.arguments[0].toTensor();
  const Shape shape = shape_of(tensor);
  if (shape.empty()) return false;
  const auto axis = static_cast<int64_t>(call.cut_axis(shape.size()));
  const Dim& size = shape[static_cast<size_t>(axis)];
  const std::optional<int64_t> count = call.decisions().counted(size);
  if (size.is_constant() || !count) return false;
  call.decisions().count(size, *count);
  torch::jit::drop(stack, call.arguments.size());
  const c10::impl::ForceDispatchKeyGuard recording(with_recorder());
  std::vector<at::Tensor> rows;
  for (int64_t i = 0; i < *count; ++i) {
    const at::Tensor row = tensor.select(axis, i);
    rows.push_back(splits ? row.unsqueeze(axis) : row);
  }
  stack.emplace_back(std::move(rows));
  return true;
}

namespace {

// Records each piece as a slice, so that the steps of a loop over pieces look alike.
bool record_slices(const Call& call, size_t axis, const Dim& piece, int64_t count,
                   torch::jit::Stack& stack) {
  const at::Tensor tensor = call.arguments[0].toTensor();
  Decisions& decisions = call.decisions();
  torch::jit::drop(stack, call.arguments.size());
  const c10::impl::ForceDispatchKeyGuard recording(with_recorder());
  std::vector<at::Tensor> slices;
  for (int64_t i = 0; i < count; ++i)
    slices.push_back(tensor.slice_symint(static_cast<int64_t>(axis),
                                         to_sym_int(piece * Dim(i), decisions),
                                         to_sym_int(piece * Dim(i + 1), decisions)));
  stack.emplace_back(std::move(slices));
  return true;
}

}  // namespace

bool record_pieces(const Call& call, torch::jit::Stack& stack) {
  const bool chunks = call.key == "aten::chunk" || call.key == "aten::unsafe_chunk";
  if (!chunks && call.key != "aten::split.Tensor" && call.key != "aten::unsafe_split.Tensor")
    return false;
  const RecordedTensor* self = recorded(call.arguments[0].toTensor());
  if (!self || self->shape().empty()) return false;
  const size_t axis = call.cut_axis(self->shape().size());
  const Dim size = self->shape()[axis];
  const Dim number = chunks ? Dim(call.arguments[1].toInt())
                            : to_dim(call.arguments[1].toSymInt(), call.decisions());
  const Dim piece = chunks ? Dim::ceil_div(size, number) : number;
  const std::optional<int64_t> example = call.decisions().example(piece);
  if (size.is_constant() || !call.decisions().example(size) || !example || *example <= 0)
    return false;
  const Dim pieces = Dim::ceil_div(size, piece);
  const int64_t count = *call.decisions().example(pieces);
  const Dim difference = pieces - Dim(count);
  if (count == 0 || !(difference.is_constant() || call.decisions().is_flexible(difference)))
    return false;
  call.decisions().note_loop_steps(pieces);
  call.decisions().decide(difference, Relation::equal, concat(pieces.str(), " == ", count));
  if (call.decisions().counts()) return record_slices(call, axis, piece, count, stack);
  std::vector<c10::SymInt> sizes(static_cast<size_t>(count), to_sym_int(piece, call.decisions()));
  sizes.back() = to_sym_int(size - piece * Dim(count - 1), call.decisions());
  const at::Tensor tensor = call.arguments[0].toTensor();
  torch::jit::drop(stack, call.arguments.size());
  const c10::impl::ForceDispatchKeyGuard recording(with_recorder());
  stack.emplace_back(tensor.split_with_sizes_symint(sizes, static_cast<int64_t>(axis)));
  return true;
}

}  // namespace onnx_native::capture
