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
#include "capture/symbolic_size.h"
#include "capture/torch_code.h"

namespace onnx_native::capture {
namespace {

c10::DispatchKeySet keys_of(const at::Tensor& meta, c10::Device device) {
  return c10::DispatchKeySet({c10::computeDispatchKey(meta.scalar_type(), c10::kStrided, device),
                              c10::DispatchKey::TESTING_ONLY_GenericWrapper});
}

Decisions& decisions_of(const std::shared_ptr<const int>& token) {
  Decisions* decisions = active_decisions();
  if (!decisions || decisions->token() != token) note_use_outside();
  TORCH_CHECK(decisions && decisions->token() == token,
              "a tensor that onnx_native recorded during a capture is used outside of that "
              "capture; it has no elements");
  return *decisions;
}

// Returns the axes of a tensor with this memory format, the innermost first; none for another rank.
std::vector<size_t> axes_from_innermost(at::MemoryFormat format, size_t rank) {
  if (format == at::MemoryFormat::ChannelsLast && rank == 4) return {1, 3, 2, 0};
  if (format == at::MemoryFormat::ChannelsLast3d && rank == 5) return {1, 4, 3, 2, 0};
  if (format != at::MemoryFormat::Contiguous) return {};
  std::vector<size_t> order(rank);
  std::iota(order.rbegin(), order.rend(), size_t{0});
  return order;
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
  has_symbolic_sizes_strides_ = is_symbolic_;  // functorch asks
  sym_sizes_.clear();
  for (const Dim& size : shape_) sym_sizes_.push_back(to_sym_int(size, decisions));
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
  if (!is_symbolic_) return;
  if (Decisions* decisions = noting(reader))
    decisions->note_refusal(concat("code in C++ reads the ", what, " of a tensor with the sizes ",
                                   str(shape_), " as numbers; read ", instead));
}

void RecordedTensor::check_strides() const {
  Decisions* decisions = active_decisions();
  if (decisions && decisions->token() == token_ && decisions->guesses_strides())
    decisions->note_refusal(
        "the program reads strides, which are not known for some of the operators before");
}

int RecordedTensor::small_sizes() const {
  int count = 0;
  for (size_t axis = 0; axis < shape_.size(); ++axis) {
    if (!shape_[axis].is_constant() && meta_.size(static_cast<int64_t>(axis)) < 2) ++count;
  }
  return count;
}

at::IntArrayRef RecordedTensor::sizes_custom() const {
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
  note_numbers(__builtin_return_address(0), "strides", "sym_strides() or sym_stride(dim)");
  return meta_.strides();
}

int64_t RecordedTensor::numel_custom() const {
  note_numbers(__builtin_return_address(0), "number of elements", "sym_numel()");
  return meta_.numel();
}

int64_t RecordedTensor::dim_custom() const { return meta_.dim(); }

int64_t RecordedTensor::storage_offset_custom() const {
  if (meta_.storage_offset() == 0) return 0;
  check_strides();
  note_numbers(__builtin_return_address(0), "storage offset", "sym_storage_offset()");
  return meta_.storage_offset();
}

c10::SymInt RecordedTensor::sym_storage_offset_custom() const {
  if (is_symbolic_ && meta_.storage_offset() != 0)
    return unknown_stride("the storage offset of a tensor with dynamic dimensions is not known",
                          decisions_of(token_));
  return c10::SymInt(storage_offset_custom());
}

c10::SymInt RecordedTensor::sym_numel_custom() const {
  c10::SymInt result = 1;
  for (const c10::SymInt& size : sym_sizes_) result = result * size;
  return result;
}

void RecordedTensor::compute_strides(Decisions& decisions) const {
  const auto rank = shape_.size();
  const auto unknown = [&](const char* reason) {
    sym_strides_.assign(rank, unknown_stride(reason, decisions));
  };
  std::vector<size_t> order(rank);
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::reverse(order);  // from the innermost axis of a contiguous tensor
  if (!is_row_major(meta_) || small_sizes() > 1) {
    if (small_sizes() > 0) return unknown("the strides of a size of 1 are ambiguous");
    std::ranges::stable_sort(order, {}, [this](size_t axis) {
      const auto at = static_cast<int64_t>(axis);
      return std::pair(meta_.stride(at), meta_.size(at));
    });
  }
  std::vector<c10::SymInt> strides(rank, c10::SymInt(0));
  Dim next = 1;
  for (const size_t axis : order) {
    const int64_t stride = meta_.stride(static_cast<int64_t>(axis));
    if (stride == 0) continue;  // expanded
    if (decisions.example(next) != stride)
      return unknown("the strides of a tensor with dynamic dimensions are not dense");
    strides[axis] = to_sym_int(next, decisions);
    next = next * shape_[axis];
  }
  sym_strides_ = std::move(strides);
}

c10::SymIntArrayRef RecordedTensor::sym_strides_custom() const {
  check_strides();
  if (!is_symbolic_) return c10::fromIntArrayRefKnownNonNegative(meta_.strides());
  if (sym_strides_.empty()) compute_strides(decisions_of(token_));
  return sym_strides_;
}

c10::SymBool RecordedTensor::sym_is_contiguous_custom(at::MemoryFormat format) const {
  const bool contiguous = meta_.is_contiguous(format);
  if (contiguous && is_symbolic_ && small_sizes() > 0 &&
      !(format == at::MemoryFormat::Contiguous && is_row_major(meta_)))
    decisions_of(token_).refuse("a tensor is contiguous only because a dynamic size is 1");
  return c10::SymBool(contiguous);
}

void RecordedTensor::decide_contiguity(at::MemoryFormat format) const {
  check_strides();
  if (!is_symbolic_) return;
  const std::vector<size_t> order = axes_from_innermost(format, shape_.size());
  if (order.size() != shape_.size()) return;  // the format is for tensors of another rank
  const bool by_rows = format == at::MemoryFormat::Contiguous;
  if (!meta_.is_contiguous(format)) {
    note_not_contiguous(order);
  } else if (small_sizes() > (by_rows ? 1 : 0)) {
    decisions_of(token_).refuse("a tensor is contiguous only because a dynamic size is 1");
  } else if (!by_rows) {
    note_contiguous(order);
  }
}

// Returns the product of the sizes of the axes before one of them.
Dim RecordedTensor::stride_in(std::span<const size_t> order, size_t axis) const {
  Dim stride = 1;
  for (const size_t inner : order) {
    if (inner == axis) break;
    stride = stride * shape_[inner];
  }
  return stride;
}

// Where sizes are other than the example's, the strides must still be those of the format.
void RecordedTensor::note_contiguous(std::span<const size_t> order) const {
  Decisions& decisions = decisions_of(token_);
  const c10::SymIntArrayRef strides = sym_strides_custom();
  for (const size_t axis : order) {
    if (shape_[axis].equals(1)) continue;
    const Dim stride = to_dim(strides[axis], decisions);
    const Dim expected = stride_in(order, axis);
    decisions.decide(stride - expected, Relation::equal, stride.str() + " == " + expected.str());
  }
}

// The tensor may be contiguous where a dynamic size is 1: guards say that none is.
void RecordedTensor::note_not_contiguous(std::span<const size_t> order) const {
  Decisions& decisions = decisions_of(token_);
  const c10::SymIntArrayRef strides = sym_strides_custom();
  std::vector<size_t> wrong;  // axes whose stride contradicts contiguity
  for (const size_t axis : order) {
    const auto at = static_cast<int64_t>(axis);
    if (meta_.size(at) != 1 && decisions.example(stride_in(order, axis)) != meta_.stride(at))
      wrong.push_back(axis);
  }
  if (wrong.empty()) return;
  // One axis is enough; one of a static size is best.
  const auto fixed =
      std::ranges::find_if(wrong, [this](size_t axis) { return shape_[axis].is_constant(); });
  const size_t axis = fixed != wrong.end() ? *fixed : wrong.front();
  const Dim& size = shape_[axis];
  const Dim expected = stride_in(order, axis);
  const Dim stride = to_dim(strides[axis], decisions);
  decisions.decide(size - Dim(1), Relation::equal, size.str() + " == 1");
  decisions.decide(stride - expected, Relation::equal, stride.str() + " == " + expected.str());
}

c10::SymBool RecordedTensor::sym_is_non_overlapping_and_dense_custom() const {
  return c10::SymBool(meta_.is_non_overlapping_and_dense());
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
  auto copy =
      c10::make_intrusive<RecordedTensor>(id_, meta_, shape_, device(), decisions_of(token_));
  is_copied_ = copy->is_copied_ = true;
  return copy;
}

void RecordedTensor::shallow_copy_from(const c10::intrusive_ptr<c10::TensorImpl>& /*impl*/) {
  decisions_of(token_).refuse(kOtherContents);
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
