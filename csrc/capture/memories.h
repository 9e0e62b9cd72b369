// The memory of a recorded program's tensors, and the reads and writes of it.
#pragma once

#include <ATen/core/Tensor.h>

#include <unordered_map>
#include <unordered_set>

#include "capture/decisions.h"

namespace onnx_native::capture {

// Refuses writes that the model cannot have: to memory that other tensors or arrays see, and to
// elements on which the recording depends. A recorded tensor has the memory of its meta tensor. For
// a tensor that the program did not compute, add() also says where its elements are.
class Memories {
 public:
  enum class Owner { input, module, literal, unknown };

  explicit Memories(Decisions& decisions) : decisions_(decisions) {}

  // Adds the memory of a tensor that the program did not compute. An input has no `elements`.
  void add(const at::Tensor& meta, Owner owner, const c10::StorageImpl* elements = nullptr);
  // Notes that the program uses a tensor with elements. Several different views of its memory may
  // be in use; then the program must not write to it.
  void add_view(const at::Tensor& tensor);
  // Notes that the model keeps the elements as an input.
  void keep(const at::Tensor& tensor) { kept_.insert(tensor.storage().unsafeGetStorageImpl()); }
  bool is_kept(const at::Tensor& tensor) const;
  // Notes that the memory stands for pinned memory.
  void pin(const at::Tensor& meta) { pinned_.insert(meta.storage().unsafeGetStorageImpl()); }
  bool is_pinned(const at::Tensor& meta) const;
  // Notes that the memory of a meta tensor or of a tensor with elements is also an array's.
  void share_with_array(const at::Tensor& tensor);

  // Notes that the program writes to a recorded tensor.
  void note_write(const at::Tensor& meta);
  // Notes that a tensor of the module takes the contents of another tensor.
  void note_replacement(const at::Tensor& tensor);
  // Notes that the program assigns another tensor to a buffer.
  void note_assignment(const at::Tensor& buffer);
  // Notes that the recording depends on the elements of a tensor of the module. Returns false if
  // that is known.
  bool note_read(const at::Tensor& tensor);

  bool is_written(const at::Tensor& meta) const;
  // Does the same for a tensor with elements.
  bool are_elements_written(const at::Tensor& tensor) const;
  // Returns true if the program wrote to an input, to the module or to a literal.
  bool writes_state() const { return writes_state_; }

 private:
  using Storages = std::unordered_set<const c10::StorageImpl*>;
  struct Memory {
    Owner owner = Owner::unknown;
    const c10::StorageImpl* elements = nullptr;
  };

  void check_unread(const c10::StorageImpl* elements);

  Decisions& decisions_;
  std::unordered_map<const c10::StorageImpl*, Memory> memories_;      // by that of the meta tensor
  std::unordered_map<const c10::StorageImpl*, at::Tensor> first_in_;  // the first tensor of each
  Storages shared_;  // that several different views share
  Storages kept_;
  Storages pinned_;   // of meta tensors
  Storages written_;  // of meta tensors
  Storages written_elements_;
  Storages read_;
  // Each with a tensor that keeps it alive.
  std::unordered_map<const c10::StorageImpl*, at::Tensor> in_arrays_;
  bool writes_state_ = false;
};

}  // namespace onnx_native::capture
