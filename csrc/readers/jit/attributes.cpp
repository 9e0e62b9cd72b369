// Tensor attributes that are the same for all tensors of a model, or that follow from the type.
#include "aten/torch_types.h"
#include "readers/jit/interpreter.h"

namespace onnx_native::readers::jit {
namespace {

const aten::Type& queried_type(const Call& call, const aten::Value& value) {
  if (!value.type.is_tensor() || value.type.dtype == DType::undefined)
    call.run.unsupported(concat("cannot query %", value.name, ": its dtype is unknown"));
  return value.type;
}

std::optional<Items> no(const Call& call) {
  if (!call.input(0).tensor()) return std::nullopt;
  return one(c10::IValue(false));
}

// Without gradients every tensor is a leaf.
std::optional<Items> yes(const Call& call) {
  if (!call.input(0).tensor()) return std::nullopt;
  return one(c10::IValue(true));
}

std::optional<Items> none(const Call& call) {
  if (!call.input(0).tensor()) return std::nullopt;
  return one(Item::none());
}

// Returns another tensor that shares the memory.
std::optional<Items> data(const Call& call) {
  aten::Value* self = call.input(0).tensor();
  if (!self) return std::nullopt;
  return one(call.run.record_one("aten::detach", {self}));
}

std::optional<Items> bytes(const Call& call) {
  aten::Value* self = call.input(0).tensor();
  if (!self) return std::nullopt;
  const aten::Type& type = queried_type(call, *self);
  if (!type.shape) call.run.unsupported("cannot count the bytes of a tensor of unknown rank");
  return one(onnx_native::numel(*type.shape) * Dim(item_size(type.dtype)));
}

std::optional<Items> is_signed(const Call& call) {
  aten::Value* self = call.input(0).tensor();
  if (!self) return std::nullopt;
  return one(c10::IValue(c10::isSignedType(aten::to_scalar_type(queried_type(call, *self).dtype))));
}

std::optional<Items> is_same_size(const Call& call) {
  const aten::Value* self = call.input(0).tensor();
  const aten::Value* other = call.input(1).tensor();
  if (!self || !other || !self->type.shape || !other->type.shape) return std::nullopt;
  const Shape& a = *self->type.shape;
  const Shape& b = *other->type.shape;
  bool same = a.size() == b.size();
  for (size_t i = 0; same && i < a.size(); ++i) {
    const std::optional<int64_t> difference = (a[i] - b[i]).constant();
    if (!difference)
      call.run.unsupported("cannot decide is_same_size: the sizes may or may not be equal");
    same = *difference == 0;
  }
  return one(c10::IValue(same));
}

// A CPU tensor has the device index -1.
std::optional<Items> device_index(const Call& call) {
  if (!call.input(0).tensor()) return std::nullopt;
  return one(Dim(-1));
}

std::optional<Items> is_quantized(const Call& call) {
  if (!call.input(0).tensor()) return std::nullopt;
  return one(c10::IValue(call.run.quantization(call.input(0)) != nullptr));
}

}  // namespace

void add_attribute_handlers(Handlers& handlers) {
  for (const std::string_view name :
       {"prim::is_cuda",   "prim::is_mkldnn",     "prim::is_sparse",     "prim::is_meta",
        "prim::is_nested", "prim::is_vulkan",     "prim::is_xpu",        "prim::is_mps",
        "prim::is_ort",    "prim::is_ipu",        "prim::is_maia",       "prim::is_mtia",
        "prim::is_hpu",    "prim::is_sparse_csr", "prim::requires_grad", "aten::requires_grad",
        "aten::is_conj",   "aten::is_neg",        "aten::is_inference",  "aten::is_cuda",
        "aten::is_pinned", "aten::retains_grad",  "prim::retains_grad"}) {
    handlers[name].push_back(no);
  }
  handlers["prim::is_leaf"].push_back(yes);
  handlers["aten::is_leaf"].push_back(yes);
  handlers["prim::grad"].push_back(none);
  handlers["prim::name"].push_back(none);
  handlers["prim::data"].push_back(data);
  handlers["aten::data"].push_back(data);
  handlers["prim::nbytes"].push_back(bytes);
  handlers["prim::is_quantized"].push_back(is_quantized);
  handlers["aten::is_signed"].push_back(is_signed);
  handlers["aten::is_same_size"].push_back(is_same_size);
  handlers["aten::get_device"].push_back(device_index);
}

}  // namespace onnx_native::readers::jit
