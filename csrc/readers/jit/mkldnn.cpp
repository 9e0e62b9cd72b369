// Operators of torch.jit.optimize_for_inference on tensors in oneDNN's layout. Each computes what a
// plain operator does, and the layout has no meaning in ONNX.
#include <torch/csrc/jit/ir/ir.h>

#include "readers/jit/interpreter.h"

namespace onnx_native::readers::jit {
namespace {

using aten::Argument;

std::optional<Items> mkldnn_constant(const Call& call) {
  torch::jit::Stack stack;
  call.node.getOperation()(stack);
  return one(call.run.item(stack.at(0), "constant"));
}

std::optional<Items> all_inputs(const Call& call) { return call.inputs; }

std::optional<Items> to_dtype(const Call& call) {
  if (!call.input(0).tensor() || call.size() < 2) return std::nullopt;
  if (call.input(1).is_none()) return one(call.input(0));
  const aten::SchemaType dtype{.kind = aten::TypeKind::dtype};
  return one(call.run.record_one(
      "aten::to.dtype", {call.input(0).tensor(), call.run.argument(call.input(1), dtype)}));
}

std::optional<Items> mkldnn_convolution(const Call& call) {
  std::vector<Argument> arguments;
  for (const Item& input : call.inputs) arguments.push_back(call.run.argument(input));
  const Argument groups = arguments.at(6);
  const size_t axes = arguments.at(3).get<Argument::List>()->size();
  arguments.resize(6);
  arguments.emplace_back(false);
  arguments.emplace_back(Argument::List(axes, Argument(int64_t{0})));
  arguments.push_back(groups);
  return one(call.run.record_one("aten::convolution", std::move(arguments)));
}

// The operators that are also written in place, because nothing reads their operand later.
std::optional<Items> plain(const Call& call, const char* op) {
  std::vector<Argument> arguments;
  for (const Item& input : call.inputs) arguments.push_back(call.run.argument(input));
  return one(call.run.record_one(op, std::move(arguments)));
}

std::optional<Items> hardswish(const Call& call) { return plain(call, "aten::hardswish"); }
std::optional<Items> hardsigmoid(const Call& call) { return plain(call, "aten::hardsigmoid"); }
std::optional<Items> mkldnn_layer_norm(const Call& call) { return plain(call, "aten::layer_norm"); }
std::optional<Items> scalar_product(const Call& call) { return plain(call, "aten::mul.Scalar"); }

std::optional<Items> clamp(const Call& call) {
  const auto limit = [&](const char* name) {
    return Argument(call.node.f(torch::jit::Symbol::attr(name)));
  };
  return one(call.run.record_one(
      "aten::clamp", {call.run.argument(call.input(0)), limit("min_val"), limit("max_val")}));
}

}  // namespace

void add_mkldnn_handlers(Handlers& handlers) {
  handlers["prim::ConstantMKLDNNTensor"].push_back(mkldnn_constant);
  handlers["aten::to_mkldnn"].push_back(to_dtype);
  handlers["aten::to_dense"].push_back(to_dtype);
  handlers["prim::BroadcastMKLDNNTensors"].push_back(all_inputs);
  handlers["prim::mkldnn_convolution"].push_back(mkldnn_convolution);
  const auto add = [&](std::string_view name, std::string_view in_place, Handler handler) {
    handlers[name].push_back(handler);
    handlers[in_place].push_back(handler);
  };
  add("prim::MKLDNNClamp", "prim::MKLDNNClamp_", clamp);
  add("prim::MKLDNNHardSigmoid", "prim::MKLDNNHardSigmoid_", hardsigmoid);
  add("prim::MKLDNNHardSwish", "prim::MKLDNNHardSwish_", hardswish);
  add("prim::MKLDNNHardTanh", "prim::MKLDNNHardTanh_", clamp);
  add("prim::MKLDNNLayerNorm", "prim::MKLDNNLayerNorm_", mkldnn_layer_norm);
  add("prim::MKLDNNScalarMul", "prim::MKLDNNScalarMul_", scalar_product);
}

}  // namespace onnx_native::readers::jit
