#include "capture/recorded_tensor.h"

#include <c10/core/SymBool.h>
#include <c10/core/TensorOptions.h>
#include <c10/core/WrapDimMinimal.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "base/error.h"
#include "capture/memory_layouts.h"
#include "capture/symbolic_size.h"
#include "capture/torch_code.h"

namespace onnx_native::capture {
namespace {

c10::DispatchKeySet keys_of(const at::Tensor& meta, c10::Device device) {
  return c10::DispatchKeySet({c10::computeDispatchKey(meta.scalar_type(), c10::kStrided, device),
                              c10::DispatchKey::TESTING_ONLY_GenericWrapper});
}

Decisions& decisions_of_tensor(const std::shared_ptr<const int>& token) {
  Decisions* decisions = active_decisions();
  if (!decisions || decisions->token() != token) note_use_outside();
  TORCH_CHECK(decisions && decisions->token() == token,
              "a tensor that onnx_native recorded during a capture is used outside of that "
              "capture; it has no elements");
  return *decisions;
}

}  // namespace

bool is_row_major(const at::Tensor& tensor) {
  int64_t expected = 1;
  for (int64_t axis = tensor.dim(); axis-- > 0;) {
    if (tensor.stride(axis) != expected) return false;
    expected *= std::max<int64_t>(tensor.size(axis), 1);
  }
  return true;
}

RecordedTensor::RecordedTensor(int64_t id, at::Tensor meta, Shape shape, c10::Device device,
                               const Decisions& decisions)
    : c10::TensorImpl(keys_of(meta, device), meta.dtype(), device),
      id_(id),
      meta_(std::move(meta)),
      token_(decisions.token()) {
  set_shape(std::move(shape), decisions);
  set_custom_sizes_strides(SizesStridesPolicy::CustomSizes);
  set_storage_access_should_throw();
}

void RecordedTensor::set_shape(Shape shape, const Decisions& decisions) {
  shape_ = std::move(shape);
  is_symbolic_ = std::ranges::any_of(shape_, [](const Dim& size) { return !size.is_constant(); });
  is_guessed_ = decisions.guesses_strides();
  // functorch asks; and contiguous() takes what is not known for not contiguous.
  has_symbolic_sizes_strides_ = is_symbolic_ || is_guessed_;
  sym_sizes_.clear();
  for (const Dim& size : shape_) sym_sizes_.push_back(to_sym_int(size.from_source(id_), decisions));
  sym_strides_.clear();
}

void RecordedTensor::reshape(int64_t id, at::Tensor meta, Shape shape, const Decisions& decisions) {
  id_ = id;
  meta_ = std::move(meta);
  set_shape(std::move(shape), decisions);
}

void RecordedTensor::take_contents(const RecordedTensor& other, const Decisions& decisions) {
  reshape(other.id_, other.meta_, other.shape_, decisions);
  is_copied_ = other.is_copied_ = true;
}

Decisions* RecordedTensor::noting(const void* reader) const {
  Decisions* decisions = active_decisions();
  if (!decisions || decisions->token() != token_) return nullptr;
  if (!is_torch_nn(reader)) return decisions;
  decisions->note_number_read();
  return nullptr;
}

void RecordedTensor::note_numbers(const void* reader, const char* what, const char* instead) const {
  if (Decisions* decisions = noting(reader))
    decisions->note_refusal(concat("code in C++ reads the ", what, " of a tensor with the sizes ",
                                   str(shape_), " as numbers; read ", instead));
}

void RecordedTensor::note_layout_read(const void* reader, const char* what,
                                      const char* instead) const {
  if (!has_layout()) return;
  const MemoryLayout* known = is_symbolic_ ? nullptr : layout();
  const auto is_number = [](const aten::Stride& stride) { return stride && stride->is_constant(); };
  if (known && known->above_one.empty() && is_number(known->layout.offset) &&
      std::ranges::all_of(known->layout.strides, is_number))
    return;
  note_numbers(reader, what, instead);
}

void RecordedTensor::check_strides() const {
  Decisions* decisions = active_decisions();
  if (is_guessed_ && decisions && decisions->token() == token_)
    decisions->note_refusal(
        "the program reads strides, which are not known for some of the operators before");
}

bool RecordedTensor::has_layout() const {
  const Decisions* decisions = active_decisions();
  return is_symbolic_ || is_guessed_ ||
         (decisions && decisions->token() == token_ && decisions->has_symbols());
}

const MemoryLayout* RecordedTensor::layout() const {
  return is_guessed_ ? nullptr : layout_of(*this);
}

at::IntArrayRef RecordedTensor::sizes_custom() const {
  if (is_symbolic_)
    note_numbers(__builtin_return_address(0), "sizes", "sym_sizes() or sym_size(dim)");
  return meta_.sizes();
}

int64_t RecordedTensor::size_custom(int64_t axis) const {
  axis = c10::maybe_wrap_dim(axis, dim_custom(), /*wrap_scalar=*/false);
  const Dim& size = shape_[static_cast<size_t>(axis)];
  Decisions* decisions = size.is_constant() ? nullptr : noting(__builtin_return_address(0));
  if (decisions)
    decisions->note_refusal(concat("code in C++ reads the dynamic size ", size.str(),
                                   " as a number, by x.size(", axis, "); read x.sym_size(", axis,
                                   ")"));
  return meta_.size(axis);
}

at::IntArrayRef RecordedTensor::strides_custom() const {
  check_strides();
  note_layout_read(__builtin_return_address(0), "strides", "sym_strides() or sym_stride(dim)");
  return meta_.strides();
}

int64_t RecordedTensor::numel_custom() const {
  if (is_symbolic_) note_numbers(__builtin_return_address(0), "number of elements", "sym_numel()");
  return meta_.numel();
}

int64_t RecordedTensor::dim_custom() const { return meta_.dim(); }

int64_t RecordedTensor::storage_offset_custom() const {
  if (meta_.storage_offset() == 0) return 0;
  check_strides();
  note_layout_read(__builtin_return_address(0), "storage offset", "sym_storage_offset()");
  return meta_.storage_offset();
}

c10::SymInt RecordedTensor::sym_storage_offset_custom() const {
  if (!has_layout()) return c10::SymInt(meta_.storage_offset());
  Decisions& decisions = decisions_of_tensor(token_);
  const MemoryLayout* known = layout();
  if (!known || !known->layout.offset)
    return unknown_stride("the storage offset of a tensor with dynamic dimensions is not known",
                          decisions);
  return to_sym_int(*known->layout.offset, decisions);
}

c10::SymInt RecordedTensor::sym_numel_custom() const {
  c10::SymInt result = 1;
  for (const c10::SymInt& size : sym_sizes_) result = result * size;
  return result;
}

c10::SymIntArrayRef RecordedTensor::sym_strides_custom() const {
  check_strides();
  if (!has_layout()) return c10::fromIntArrayRefKnownNonNegative(meta_.strides());
  Decisions& decisions = decisions_of_tensor(token_);
  const MemoryLayout* known = layout();
  if (known) decide(known->above_one, decisions);
  sym_strides_.clear();
  for (size_t axis = 0; axis < shape_.size(); ++axis) {
    const aten::Stride stride = known ? known->layout.strides[axis] : std::nullopt;
    sym_strides_.push_back(
        stride ? to_sym_int(*stride, decisions)
               : unknown_stride("the strides of a tensor with dynamic dimensions are not known",
                                decisions));
  }
  return sym_strides_;
}

c10::SymBool RecordedTensor::sym_is_contiguous_custom(at::MemoryFormat format) const {
  if (!has_layout()) return c10::SymBool(meta_.is_contiguous(format));
  Decisions& decisions = decisions_of_tensor(token_);
  return capture::is_contiguous(shape_, layout(), format, decisions);
}

c10::SymBool RecordedTensor::sym_is_non_overlapping_and_dense_custom() const {
  if (!has_layout()) return c10::SymBool(meta_.is_non_overlapping_and_dense());
  Decisions& decisions = decisions_of_tensor(token_);
  return capture::is_dense(shape_, layout(), meta_, decisions);
}

bool RecordedTensor::is_strides_like_custom(at::MemoryFormat format) const {
  return meta_.unsafeGetTensorImpl()->is_strides_like(format);
}

c10::intrusive_ptr<c10::TensorImpl> RecordedTensor::shallow_copy_and_detach(
    const c10::VariableVersion& /*version*/, bool /*allow_change*/) const {
  return copied();
}

c10::intrusive_ptr<c10::TensorImpl> RecordedTensor::shallow_copy_and_detach(
    c10::VariableVersion&& /*version*/, bool /*allow_change*/) const {
  return copied();
}

c10::intrusive_ptr<c10::TensorImpl> RecordedTensor::copied() const {
  auto copy = c10::make_intrusive<RecordedTensor>(id_, meta_, shape_, device(),
                                                  decisions_of_tensor(token_));
  is_copied_ = copy->is_copied_ = true;
  return copy;
}

void RecordedTensor::shallow_copy_from(const c10::intrusive_ptr<c10::TensorImpl>& /*impl*/) {
  decisions_of_tensor(token_).refuse(kOtherContents);
}

RecordedTensor* recorded(const at::Tensor& tensor) {
  return tensor.defined() ? dynamic_cast<RecordedTensor*>(tensor.unsafeGetTensorImpl()) : nullptr;
}

uintptr_t memory_of(const at::Tensor& tensor) {
  const RecordedTensor* known = recorded(tensor);
  return reinterpret_cast<uintptr_t>(known ? storage_of(known->meta()) : nullptr);
}

Shape shape_of(const at::Tensor& tensor) {
  if (const RecordedTensor* known = recorded(tensor)) return known->shape();
  return Shape(tensor.sizes().begin(), tensor.sizes().end());
}

}  // namespace onnx_native::capture
