#include "aten/memory.h"

#include <algorithm>

namespace onnx_native::aten {
namespace {

void mark(const Storage& storage, const Storage& origin, const Node* writer) {
  // The caller of a body knows of a write to an input, and what shares its memory.
  const bool is_unknown = !origin.is_input;
  for (const Storage::Link& link : storage.maybe_shared) {
    Storage& other = *link.other;
    if (&other == &origin || (other.writer && (other.maybe_written || !is_unknown))) continue;
    if (!other.writer) other.cause = link.cause;
    other.writer = writer;
    other.maybe_written = is_unknown;
    mark(other, origin, writer);
  }
}

}  // namespace

Tensor& Memory::tensor_of(Value* value) {
  if (Tensor* tensor = find(value)) return *tensor;
  Tensor& tensor = new_tensor(value, &storages_.emplace_back());
  tensor.scattered = scattered.contains(value);
  return tensor;
}

Tensor* Memory::find(const Value* value) const {
  const auto at = tensors_.find(value);
  return at == tensors_.end() ? nullptr : at->second;
}

Tensor& Memory::new_tensor(Value* value, Storage* storage) {
  Tensor& tensor = all_.emplace_back();
  tensor.storage = storage;
  tensor.current = value;
  tensor.version = storage->version;
  name(tensor, value);
  return tensor;
}

void Memory::name(Tensor& tensor, const Value* value) {
  if (!tensor.names.empty() && scattered.contains(tensor.names.front())) scattered.insert(value);
  tensor.names.push_back(value);
  tensors_[value] = &tensor;
}

View& Memory::add_view(Node& node, Tensor& base) {
  View& view = views_.emplace_back(View{&node, &base, {}, {}});
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    Tensor& tensor = new_tensor(node.outputs[i], base.storage);
    tensor.view = &view;
    tensor.output = static_cast<int>(i);
    view.outputs.push_back(&tensor);
  }
  return view;
}

bool Memory::has_views(const Tensor& base) const {
  return std::ranges::find(views_, &base, &View::base) != views_.end();
}

void Memory::may_be_same(Storage& a, Storage& b, const std::string& cause, bool copy) {
  a.maybe_shared.push_back({&b, cause, copy});
  b.maybe_shared.push_back({&a, cause, copy});
}

void Memory::may_be_one(Value* one, Value* other) {
  may_be_same(*tensor_of(one).storage, *tensor_of(other).storage,
              concat("it is data-dependent whether %", one->name, " is %", other->name));
}

bool Memory::may_be(const Storage& a, const Storage& b) {
  return &a == &b || std::ranges::any_of(a.maybe_shared, [&](const Storage::Link& link) {
    return link.other == &b && !link.is_copy;
  });
}

void Memory::mark_shared(const Storage& written, const Node* writer) {
  mark(written, written, writer);
}

void Memory::may_write(Value* value, const Node* writer) {
  Storage& storage = *tensor_of(value).storage;
  storage.writer = writer;
  storage.cause = "it is data-dependent whether a branch or loop writes to it";
  storage.maybe_written = true;
  mark_shared(storage, writer);
}

}  // namespace onnx_native::aten
