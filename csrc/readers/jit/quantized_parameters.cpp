// Packed weights: unpacked by PyTorch's own operators, and recorded as integers that the model
// dequantizes.
#include <ATen/core/dispatch/Dispatcher.h>

#include <utility>

#include "aten/torch_types.h"
#include "readers/jit/quantized.h"

namespace onnx_native::readers::jit {
namespace {

// Records integers that the model dequantizes. PyTorch defines the operators in Python, so that
// their schemas may be missing.
Item dequantized(const Call& call, const char* key, std::vector<aten::Argument> arguments) {
  aten::Value* integers = arguments.at(0).as_value();
  const auto [low, high] = bounds_of(integers->type.dtype);
  arguments.insert(arguments.end(), {low, high, integers->type.dtype, aten::Argument()});
  const aten::Type type = aten::Type::tensor(DType::f32, integers->type.shape);
  return Item::Tensor{
      call.run.recorder().call(key, std::move(arguments), type, call.run.location())};
}

Item weight_of(const Call& call, const at::Tensor& packed, const std::string& name,
               const std::string& prefix) {
  const auto constant = [&](const at::Tensor& tensor, const std::string& its_name) {
    return parameter(call, tensor, its_name).tensor();
  };
  if (!packed.is_quantized())
    return call.run.record_one("aten::to.dtype", {constant(packed, name), DType::f32});
  if (packed.scalar_type() != c10::kQInt8)
    call.run.unsupported(concat("cannot export weights of ", c10::toString(packed.scalar_type())));
  aten::Value* integers = constant(packed.int_repr(), name);
  if (packed.qscheme() == c10::kPerTensorAffine)
    return dequantized(call, "quantized_decomposed::dequantize_per_tensor",
                       {integers, packed.q_scale(), packed.q_zero_point()});
  if (packed.qscheme() != c10::kPerChannelAffine)
    call.run.unsupported("cannot export weights whose zero points are floats");
  return dequantized(
      call, "quantized_decomposed::dequantize_per_channel",
      {integers, constant(packed.q_per_channel_scales().to(c10::kFloat), prefix + "scales"),
       constant(packed.q_per_channel_zero_points(), prefix + "zero_points"),
       packed.q_per_channel_axis()});
}

}  // namespace

bool has_relu(const Call& call) {
  const std::string_view name = call.name();
  return name.find("_relu") != std::string_view::npos && !name.ends_with("::leaky_relu");
}

Item record(const Call& call, const std::string& key, const Items& operands) {
  std::vector<aten::Argument> arguments;
  for (const Item& operand : operands) arguments.push_back(call.run.argument(operand));
  return call.run.record_one(key, std::move(arguments));
}

std::array<int64_t, 2> bounds_of(DType dtype) {
  return dtype == DType::i8 ? std::array<int64_t, 2>{-128, 127} : std::array<int64_t, 2>{0, 255};
}

c10::IValue packed_object(const Item& item) {
  if (const Container* container = item.container()) return container->object;
  const auto* value = item.get<c10::IValue>();
  require(value, "expected packed weights, got ", describe(item));
  return *value;
}

torch::jit::Stack unpack(const Call& call, const Item& packed, const std::string& name) {
  torch::jit::Stack stack{packed_object(packed)};
  try {
    c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "").callBoxed(&stack);
  } catch (const std::exception& error) {
    call.run.unsupported(concat("cannot unpack the weights of ", call.name(), ": ", error.what()));
  }
  return stack;
}

std::string module_of(const Item& packed) {
  const Container* container = packed.container();
  std::string module = container ? container->path : "";
  // The packed weights of the module `rnn` are `rnn._all_weight_values.0.param`.
  if (const size_t at = module.find("_all_weight_values"); at != std::string::npos)
    return module.substr(0, at);
  // The packed weights of the module `fc` are `fc._packed_params._packed_params`.
  for (const std::string_view last : {"_packed_weight", "_packed_params", "_packed_params"}) {
    if (!module.ends_with(last)) continue;
    module.resize(module.size() - last.size());
    if (module.ends_with(".")) module.pop_back();
  }
  return module.empty() ? module : module + ".";
}

Item parameter(const Call& call, const at::Tensor& tensor, const std::string& name) {
  return call.run.tensor_constant(tensor, name, aten::ConstantKind::parameter);
}

Parameters unpacked_parameters(const Call& call, const Item& packed, const std::string& unpacker) {
  const std::string module = module_of(packed);
  return unpacked_parameters(call, packed, unpacker, {module + "weight", module + "bias", module});
}

Parameters unpacked_parameters(const Call& call, const Item& packed, const std::string& unpacker,
                               const ParameterNames& names) {
  const torch::jit::Stack stack = unpack(call, packed, unpacker);
  Parameters parameters{weight_of(call, stack.at(0).toTensor(), names.weight, names.prefix),
                        Item::none()};
  if (stack.at(1).isTensor()) parameters.bias = parameter(call, stack[1].toTensor(), names.bias);
  return parameters;
}

}  // namespace onnx_native::readers::jit
