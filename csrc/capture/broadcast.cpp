#include "capture/broadcast.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "capture/meta_arguments.h"
#include "capture/symbolic_size.h"

namespace onnx_native::capture {
namespace {

bool is_in_place(const aten::Schema& schema) {
  return !schema.arguments.empty() && schema.arguments[0].writes && !schema.arguments[0].is_out;
}

// Returns the size that a result has along an axis, which is counted from the back: that of the
// target, one that does not depend on data, or the broadcast of all. Notes what must be equal for
// that. Returns nullopt if eager may fail, or if any of several sizes of inputs may be 1.
std::optional<Dim> joined_size(const Call& call, const std::vector<Shape>& shapes, size_t back,
                               const Shape* target) {
  std::vector<Dim> sizes;
  for (const Shape& shape : shapes) {
    if (shape.size() < back) continue;
    const Dim& size = shape[shape.size() - back];
    if (size != Dim(1) && std::ranges::find(sizes, size) == sizes.end()) sizes.push_back(size);
  }
  const auto is_known = [&](const Dim& size) { return call.decisions().example(size).has_value(); };
  if (target) {  // note_broadcast() notes the equations
    const Dim& joined = (*target)[target->size() - back];
    const bool fits = std::ranges::none_of(sizes, [&](const Dim& size) {
      return size != joined && is_known(size) &&
             call.decisions().stand_in(size) != call.decisions().stand_in(joined);
    });
    return fits ? std::optional(joined) : std::nullopt;
  }
  if (sizes.empty()) return Dim(1);
  if (sizes.size() == 1) return sizes[0];
  const auto joined = std::ranges::find_if(sizes, is_known);
  if (std::ranges::count_if(sizes, is_known) > 1) return std::nullopt;
  if (joined == sizes.end()) {  // they are equal, or 1
    Dim size = sizes[0];
    for (size_t i = 1; i < sizes.size(); ++i) size = Dim::broadcast(size, sizes[i]);
    return size;
  }
  for (const Dim& size : sizes)
    if (size != *joined) call.decisions().note_equal(size, *joined);
  return *joined;
}

}  // namespace

void note_broadcast(const Call& call) {
  if (!is_in_place(*call.schema) || !aten::is_pointwise(*call.schema)) return;
  const RecordedTensor* target =
      call.arguments[0].isTensor() ? recorded(call.arguments[0].toTensor()) : nullptr;
  if (!target) return;
  for (size_t i = 1; i < call.arguments.size(); ++i)
    for_each_tensor(call.arguments[i], [&](const at::Tensor& tensor) {
      const RecordedTensor* other = recorded(tensor);
      const c10::IntArrayRef numbers = other ? c10::IntArrayRef() : tensor.sizes();
      const Shape sizes = other ? other->shape() : Shape(numbers.begin(), numbers.end());
      const size_t rank = target->shape().size();
      for (size_t axis = rank - std::min(rank, sizes.size()); axis < rank; ++axis)
        call.decisions().note_broadcast(sizes[axis + sizes.size() - rank], target->shape()[axis]);
    });
}

void note_identities(const Call& call) {
  const bool joins = call.key == "aten::cat";
  const aten::ViewKind kind = aten::kind_by_shape(*call.schema);
  const bool views = kind == aten::ViewKind::reshape;
  std::vector<Shape> shapes;
  for (const c10::IValue& argument : call.arguments) {
    for_each_tensor(argument,
                    [&](const at::Tensor& tensor) { shapes.push_back(shape_of(tensor)); });
    if (!argument.isList() || kind == aten::ViewKind::none) continue;
    Shape sizes;
    for (const c10::IValue& item : argument.toListRef()) {
      if (item.isInt() || item.isSymInt())
        sizes.push_back(to_dim(item.toSymInt(), call.decisions()));
    }
    if (!sizes.empty()) shapes.push_back(std::move(sizes));
  }
  for (size_t i = 1; i < shapes.size(); ++i) {
    const Shape &a = shapes[0], &b = shapes[i];
    for (size_t back = 1; !views && back <= std::min(a.size(), b.size()); ++back) {
      if (joins && a.size() - back == call.cut_axis(a.size())) continue;
      const Dim &left = a[a.size() - back], &right = b[b.size() - back];
      for (const Dim& size : {left, right}) call.decisions().note_identity(left - right, size);
    }
    if (!views) continue;
    const Dim missing = numel(a) - numel(b);  // as many elements in a view
    for (const Shape* sizes : {&a, &b})
      for (const Dim& size : *sizes) call.decisions().note_identity(missing, size);
  }
}

std::optional<Joined> run_joined(const Call& call) {
  if (!aten::is_pointwise(*call.schema)) return std::nullopt;
  const bool in_place = is_in_place(*call.schema);
  torch::jit::Stack stack = meta_arguments(call);
  std::vector<Shape> shapes;
  size_t rank = 0;
  for (const c10::IValue& argument : call.arguments) {
    if (argument.isTensorList()) return std::nullopt;
    if (!argument.isTensor() || !argument.toTensor().defined()) continue;
    shapes.push_back(shape_of(argument.toTensor()));
    rank = std::max(rank, shapes.back().size());
  }
  if (shapes.size() < 2 || (in_place && shapes[0].size() < rank)) return std::nullopt;
  Shape joined(rank, Dim(1));
  for (size_t back = 1; back <= rank; ++back) {
    const auto size = joined_size(call, shapes, back, in_place ? &shapes[0] : nullptr);
    if (!size) return std::nullopt;
    joined[rank - back] = *size;
  }
  for (size_t i = in_place ? 1 : 0; i < stack.size(); ++i) {
    if (!stack[i].isTensor() || !stack[i].toTensor().defined() ||
        is_wrapped_number(call.arguments[i]))
      continue;
    const at::Tensor& given = stack[i].toTensor();
    std::vector<int64_t> sizes = given.sizes().vec();
    for (size_t back = 1; back <= sizes.size(); ++back) {
      int64_t& size = sizes[sizes.size() - back];
      if (size != 1) size = call.decisions().stand_in(joined[rank - back]).value_or(size);
    }
    if (sizes == given.sizes()) continue;
    if (!given.is_contiguous()) call.decisions().guess_strides();
    stack[i] = at::empty(sizes, given.options());
  }
  call.recording.meta_results().call(call.op, stack);
  return Joined{std::move(stack), std::move(joined)};
}

std::optional<at::Tensor> viewed_by_data(const Call& call) {
  if (aten::kind_by_shape(*call.schema) != aten::ViewKind::reshape) return std::nullopt;
  const at::Tensor self = call.recording.meta_of(call.arguments[0].toTensor());
  const Shape shape = shape_of(call.arguments[0].toTensor());
  if (!self.is_contiguous()) return std::nullopt;
  std::vector<int64_t> sizes;
  Dim elements = 1;
  for (const c10::IValue& item : call.arguments[1].toListRef()) {
    const Dim size = to_dim(item.toSymInt(), call.decisions());
    const std::optional<int64_t> number = call.decisions().stand_in(size);
    if (!number || *number < 0) return std::nullopt;
    sizes.push_back(*number);
    elements = elements * size;
  }
  if (call.decisions().example(elements - numel(shape))) return std::nullopt;
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t axis = sizes.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= std::max<int64_t>(sizes[axis], 1);
  }
  // A meta tensor has no memory, so that its storage may say that it is larger.
  at::Tensor view = self.alias();
  c10::StorageImpl& storage = *view.storage().unsafeGetStorageImpl();
  const size_t bytes = static_cast<size_t>(stride + self.storage_offset()) * self.itemsize();
  if (storage.nbytes() < bytes) storage.set_nbytes(bytes);
  view.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return view;
}

}  // namespace onnx_native::capture
