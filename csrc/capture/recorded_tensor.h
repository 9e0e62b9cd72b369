// The tensors on which a recorded program runs.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/dim.h"
#include "capture/decisions.h"

namespace onnx_native::capture {

struct MemoryLayout;

// A tensor without memory, on the device that it has in eager. A meta tensor holds its dtype, its
// sizes in the example and its strides; `shape` holds the symbolic sizes. If PyTorch copies the
// TensorImpl, the copy has the same id. An operator that runs on the tensor outside of its
// recording raises an exception.
class RecordedTensor final : public c10::TensorImpl {
 public:
  RecordedTensor(int64_t id, at::Tensor meta, Shape shape, c10::Device device,
                 const Decisions& decisions);

  int64_t id() const { return id_; }
  const at::Tensor& meta() const { return meta_; }
  const Shape& shape() const { return shape_; }
  bool is_symbolic() const { return is_symbolic_; }
  const std::shared_ptr<const int>& token() const { return token_; }
  // Returns how the tensor lies in memory at all sizes; nullptr if it is not known.
  const MemoryLayout* layout() const;
  // Returns true if PyTorch copied the TensorImpl. Another tensor then has the same id.
  bool is_copied() const { return is_copied_; }
  // Changes the shape of the tensor in place. `id` identifies its new value.
  void reshape(int64_t id, at::Tensor meta, Shape shape, const Decisions& decisions);
  // Makes the tensor an alias of another recorded tensor.
  void take_contents(const RecordedTensor& other, const Decisions& decisions);

  at::IntArrayRef sizes_custom() const override;
  int64_t size_custom(int64_t axis) const override;
  at::IntArrayRef strides_custom() const override;
  int64_t numel_custom() const override;
  int64_t dim_custom() const override;
  int64_t storage_offset_custom() const override;
  c10::SymIntArrayRef sym_sizes_custom() const override { return sym_sizes_; }
  c10::SymIntArrayRef sym_strides_custom() const override;
  c10::SymInt sym_numel_custom() const override;
  c10::SymInt sym_storage_offset_custom() const override;
  c10::SymBool sym_is_contiguous_custom(at::MemoryFormat format) const override;
  c10::SymBool sym_is_non_overlapping_and_dense_custom() const override;
  bool is_strides_like_custom(at::MemoryFormat format) const override;

  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& version,
                                                              bool allow_change) const override;
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version,
                                                              bool allow_change) const override;
  void shallow_copy_from(const c10::intrusive_ptr<c10::TensorImpl>& impl) override;

 private:
  // Notes that C++ code outside the recorder, at the address `reader`, reads numbers where sizes
  // are symbolic.
  void note_numbers(const void* reader, const char* what, const char* instead) const;
  // Does the same for numbers that follow from the layout.
  void note_layout_read(const void* reader, const char* what, const char* instead) const;
  // Returns the decisions that must refuse such a read; nullptr if there are none.
  Decisions* noting(const void* reader) const;
  void check_strides() const;
  void set_shape(Shape shape, const Decisions& decisions);
  c10::intrusive_ptr<c10::TensorImpl> copied() const;
  // Returns true if the meta tensor does not tell how the tensor lies in memory at all sizes.
  bool has_layout() const;

  int64_t id_;
  at::Tensor meta_;
  Shape shape_;
  bool is_symbolic_ = false;
  bool is_guessed_ = false;  // the strides of the meta tensor may not be eager's
  mutable bool is_copied_ = false;
  std::shared_ptr<const int> token_;
  std::vector<c10::SymInt> sym_sizes_;
  mutable std::vector<c10::SymInt> sym_strides_;  // the last answer
};

// Why a recording refuses `tensor.data = ...`.
inline constexpr const char* kOtherContents =
    "the program gives a tensor other contents (tensor.data = ...)";

// Returns the memory of a tensor; nullptr if it has none.
inline const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

// Identifies the memory of a recorded tensor, which its views share; 0 for any other tensor.
uintptr_t memory_of(const at::Tensor& tensor);

// Returns the recorded tensor behind a tensor; nullptr for any other tensor.
RecordedTensor* recorded(const at::Tensor& tensor);

// Returns the symbolic sizes of a recorded tensor, or the sizes of a constant.
Shape shape_of(const at::Tensor& tensor);
// Returns true if the strides are exactly those of a contiguous tensor, sizes of 1 included.
bool is_row_major(const at::Tensor& tensor);

}  // namespace onnx_native::capture
