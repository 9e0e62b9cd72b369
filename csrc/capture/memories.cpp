#include "capture/memories.h"

#include "capture/module_tensors.h"
#include "capture/recorded_tensor.h"

namespace onnx_native::capture {

void Memories::add(const at::Tensor& meta, Owner owner, const c10::StorageImpl* elements) {
  memories_[storage_of(meta)] = {.owner = owner, .elements = elements};
}

void Memories::add_view(const at::Tensor& tensor) {
  const auto [first, inserted] = first_in_.try_emplace(storage_of(tensor), tensor);
  if (inserted || (same_view(first->second, tensor) &&
                   first->second.storage_offset() == tensor.storage_offset()))
    return;
  shared_.insert(storage_of(tensor));
  if (writes_state_) decisions_.refuse("the program writes to tensors that may share memory");
}

bool Memories::is_kept(const at::Tensor& tensor) const {
  return kept_.contains(storage_of(tensor));
}

bool Memories::is_pinned(const at::Tensor& meta) const {
  return pinned_.contains(storage_of(meta));
}

void Memories::share_with_array(const at::Tensor& tensor) {
  in_arrays_.emplace(storage_of(tensor), tensor);
}

// Refuses a write to elements on which a decision depends: the model has them as an input.
void Memories::check_unread(const c10::StorageImpl* elements) {
  if (read_.contains(elements) && kept_.contains(elements))
    decisions_.refuse("the program decides by the elements of a tensor that is an input");
}

void Memories::note_write(const at::Tensor& meta) {
  const c10::StorageImpl* storage = storage_of(meta);
  written_.insert(storage);
  const auto at = memories_.find(storage);
  if (in_arrays_.contains(storage) ||
      (at != memories_.end() && in_arrays_.contains(at->second.elements)))
    decisions_.refuse("the program writes to a tensor that shares memory with an array");
  if (at == memories_.end()) return;
  writes_state_ = true;
  const c10::StorageImpl* elements = at->second.elements;
  if (elements) written_elements_.insert(elements);
  check_unread(elements);
  if (at->second.owner == Owner::unknown)
    decisions_.refuse("the program writes to a tensor that is neither an input nor a buffer");
  if (shared_.contains(elements))
    decisions_.refuse("the program writes to a tensor that shares memory with another one");
}

void Memories::note_replacement(const at::Tensor& tensor) {
  written_elements_.insert(storage_of(tensor));
}

void Memories::note_assignment(const at::Tensor& buffer) {
  writes_state_ = true;
  check_unread(storage_of(buffer));
}

bool Memories::note_read(const at::Tensor& tensor) {
  return read_.insert(storage_of(tensor)).second;
}

bool Memories::is_written(const at::Tensor& meta) const {
  return written_.contains(storage_of(meta));
}

bool Memories::are_elements_written(const at::Tensor& tensor) const {
  return written_elements_.contains(storage_of(tensor));
}

}  // namespace onnx_native::capture
