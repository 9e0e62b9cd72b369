// Quantized tensors and packed weights, as torch.ao.quantization makes them. A quantized tensor is
// represented by the real numbers that it stands for: operators on it are those on real numbers,
// and their results are rounded to the scale and the zero point of the result.
#include "readers/jit/quantized.h"

#include <algorithm>
#include <array>

#include "aten/op_facts.h"
#include "aten/torch_types.h"

namespace onnx_native::readers::jit {
namespace {

using Quantization = Interpreter::Quantization;

// Returns "add" for aten::add.
std::string_view operator_of(const Call& call) {
  return call.name().substr(call.name().find("::") + 2);
}

// Rounds real numbers to those that the integers stand for.
Item rounded_to(const Call& call, const Item& real, const Quantization& to) {
  const auto [low, high] = bounds_of(to.dtype);
  Item result = record(call, "aten::fake_quantize_per_tensor_affine",
                       {real, number(to.scale), number(to.zero_point), number(low), number(high)});
  call.run.set_quantization(result, to);
  return result;
}

// Returns an operand that is rounded right before the call, as runtimes that compute with integers
// expect it. Rounding again changes nothing.
Item real_operand(const Call& call, const Item& item) {
  const Quantization* known = call.run.quantization(item);
  if (!known) return item;
  const aten::Node* producer = item.tensor()->producer;
  const bool by_operator =
      producer && (producer->op == "aten::fake_quantize_per_tensor_affine" ||
                   (producer->op == "aten::quantize_per_tensor" && known->zero_point % 2 == 0));
  return by_operator ? item : rounded_to(call, item, Quantization(*known));
}

// Returns the scale and zero point in the inputs `at` and `at` + 1; nullopt if the model computes
// them.
std::optional<Quantization> constants_at(const Call& call, size_t at, DType dtype) {
  std::optional<double> scale = call.input(at).floating();
  if (const aten::Value* tensor = call.input(at).tensor())
    scale = call.run.recorder().types().element(*tensor);
  Item zero_point = call.input(at + 1);
  if (aten::Value* tensor = zero_point.tensor())
    zero_point = call.run.record_number("aten::item", {tensor});
  if (!scale || !zero_point.integer()) return std::nullopt;
  return Quantization{*scale, *zero_point.integer(), dtype};
}

Quantization quantization_at(const Call& call, size_t at, DType dtype) {
  const std::optional<Quantization> known = constants_at(call, at, dtype);
  if (!known)
    call.run.unsupported("the scale and the zero point of a quantized tensor must be constants");
  return *known;
}

// The dtype of the integers of a result: that of the first quantized operand.
DType result_dtype(const Call& call) {
  const Quantization* known = call.run.quantized_operand(call);
  return known ? known->dtype : DType::u8;
}

Items activated(const Call& call, Item real, const Quantization& to) {
  if (has_relu(call)) real = record(call, "aten::relu", {real});
  return one(rounded_to(call, real, to));
}

std::optional<Items> quantize(const Call& call) {
  if (call.size() != 4 || !call.input(0).tensor()) return std::nullopt;
  const auto dtype = call.input(3).integer();
  if (!dtype) return std::nullopt;
  const auto type = static_cast<c10::ScalarType>(*dtype);
  if (type != c10::kQInt8 && type != c10::kQUInt8)
    call.run.unsupported(concat("cannot export tensors that are quantized to ", c10::toString(type),
                                "; quantize to qint8 or quint8"));
  const auto to = constants_at(call, 1, type == c10::kQInt8 ? DType::i8 : DType::u8);
  if (!to) return std::nullopt;
  Item result =
      call.run.record_one("aten::quantize_per_tensor",
                          {call.run.argument(call.input(0)), to->scale, to->zero_point, to->dtype});
  call.run.set_quantization(result, *to);
  return one(result);
}

std::optional<Items> dequantize(const Call& call) {
  if (!call.run.quantization(call.input(0))) return std::nullopt;
  return one(record(call, "aten::dequantize.self", {call.input(0)}));
}

std::optional<Items> scale(const Call& call) {
  const Quantization* known = call.run.quantization(call.input(0));
  return known ? std::optional(one(number(known->scale))) : std::nullopt;
}

std::optional<Items> zero_point(const Call& call) {
  const Quantization* known = call.run.quantization(call.input(0));
  return known ? std::optional(one(number(known->zero_point))) : std::nullopt;
}

// --- Products.

std::optional<Items> quantized_linear(const Call& call) {
  if (call.size() != 4) return std::nullopt;
  const Parameters parameters =
      unpacked_parameters(call, call.input(1), "quantized::linear_unpack");
  return activated(call,
                   record(call, "aten::linear",
                          {real_operand(call, call.input(0)), parameters.weight, parameters.bias}),
                   quantization_at(call, 2, result_dtype(call)));
}

std::optional<Items> convolution(const Call& call) {
  if (call.size() != 4) return std::nullopt;  // the deprecated overload
  std::string name(operator_of(call));
  if (has_relu(call)) name.resize(name.size() - std::string_view("_relu").size());
  const bool transposed = name.starts_with("conv_transpose");
  const bool has_depth = name.ends_with("3d");
  const std::string of_class =
      concat("quantized::", transposed ? "conv_transpose" : "conv", has_depth ? "3d_" : "2d_");
  const Parameters parameters =
      unpacked_parameters(call, call.input(1), concat("quantized::", name, "_unpack"));
  // The attributes of a 1-D convolution are those of a convolution of height 1.
  const auto attribute = [&](const char* which) -> Item {
    std::vector<int64_t> values = unpack(call, call.input(1), of_class + which).at(0).toIntVector();
    if (name.ends_with("1d")) values.erase(values.begin(), values.end() - 1);
    return call.run.item(c10::IValue(values), "constant");
  };
  const Item groups = Dim(unpack(call, call.input(1), of_class + "groups").at(0).toInt());
  const Item stride = attribute("stride"), padding = attribute("padding"),
             dilation = attribute("dilation");
  Items operands{real_operand(call, call.input(0)), parameters.weight, parameters.bias, stride,
                 padding};
  if (transposed) {
    operands.insert(operands.end(), {attribute("output_padding"), groups, dilation});
  } else {
    operands.insert(operands.end(), {dilation, groups});
  }
  const bool is_overload = transposed && !name.ends_with("1d");
  const Item real = record(call, concat("aten::", name, is_overload ? ".input" : ""), operands);
  return activated(call, real, quantization_at(call, 2, result_dtype(call)));
}

// --- Operators with the scale and the zero point of their results.

Items first(const Items& in) { return {in[0]}; }
Items first_two(const Items& in) { return {in[0], in[1]}; }
Items sum_inputs(const Items& in) { return {in[0], in[1], number(int64_t{1})}; }
Items elu(const Items& in) { return {in[0], in[3], in[4], in[5]}; }
Items softmax(const Items& in) { return {in[0], in[1], Item::none()}; }
Items normalization_inputs(const Items& in) {
  return {in[0], in[1], in[2], in[3], in[4], c10::IValue(false)};
}
Items instance_norm(const Items& in) {
  return {in[0],        in[1],        in[2],
          Item::none(), Item::none(), c10::IValue(true),
          number(0.0),  in[3],        c10::IValue(false)};
}
Items batch_norm(const Items& in) {
  return {in[0],       in[1], in[2],
          in[3],       in[4], c10::IValue(false),
          number(0.0), in[5], c10::IValue(false)};
}

struct Operation {
  std::string_view name;
  const char* key;  // of ATen's operator on real numbers
  Items (*operands)(const Items& inputs);
  size_t scale_at;  // the input that is the scale; the zero point follows
};
constexpr Operation kOperations[] = {
    {"quantized::add", "aten::add.Tensor", sum_inputs, 2},
    {"quantized::add_relu", "aten::add.Tensor", sum_inputs, 2},
    {"quantized::mul", "aten::mul.Tensor", first_two, 2},
    {"quantized::mul_relu", "aten::mul.Tensor", first_two, 2},
    {"quantized::matmul", "aten::matmul", first_two, 2},
    {"quantized::prelu", "aten::prelu", first_two, 2},
    {"quantized::hardswish", "aten::hardswish", first, 1},
    {"quantized::sigmoid", "aten::sigmoid", first, 1},
    {"quantized::leaky_relu", "aten::leaky_relu", first_two, 3},
    {"quantized::elu", "aten::elu", elu, 1},
    {"quantized::softmax", "aten::softmax.int", softmax, 2},
    {"quantized::layer_norm", "aten::layer_norm", normalization_inputs, 5},
    {"quantized::group_norm", "aten::group_norm", normalization_inputs, 5},
    {"quantized::instance_norm", "aten::instance_norm", instance_norm, 4},
    {"quantized::batch_norm", "aten::batch_norm", batch_norm, 6},
    {"quantized::batch_norm_relu", "aten::batch_norm", batch_norm, 6},
    {"quantized::batch_norm1d", "aten::batch_norm", batch_norm, 6},
    {"quantized::batch_norm1d_relu", "aten::batch_norm", batch_norm, 6},
    {"quantized::batch_norm2d", "aten::batch_norm", batch_norm, 6},
    {"quantized::batch_norm2d_relu", "aten::batch_norm", batch_norm, 6},
    {"quantized::batch_norm3d", "aten::batch_norm", batch_norm, 6},
    {"quantized::batch_norm3d_relu", "aten::batch_norm", batch_norm, 6}};

std::optional<Items> operation(const Call& call) {
  const std::string_view name = call.name();
  const Operation& found = *std::ranges::find(kOperations, name, &Operation::name);
  // Other overloads of add and mul take fewer inputs.
  if (!call.run.quantized_operand(call) || call.size() < found.scale_at + 2) return std::nullopt;
  Items inputs;
  for (const Item& input : call.inputs) inputs.push_back(real_operand(call, input));
  return activated(call, record(call, found.key, found.operands(inputs)),
                   quantization_at(call, found.scale_at, result_dtype(call)));
}

std::optional<Items> quantized_concatenate(const Call& call) {
  const Quantization* first = call.run.quantized_operand(call);
  if (!first) return std::nullopt;
  const bool given = !call.input(2).is_none() && !call.input(3).is_none();
  const Quantization to = given ? quantization_at(call, 2, first->dtype) : *first;
  return activated(call, record(call, "aten::cat", {call.input(0), call.input(1)}), to);
}

std::optional<Items> relu6(const Call& call) {
  const Quantization* known = call.run.quantization(call.input(0));
  if (!known || call.input(1).boolean() != false) return std::nullopt;
  return one(rounded_to(call, record(call, "aten::relu6", {call.input(0)}), *known));
}

std::optional<Items> dropout(const Call& call) {
  if (!call.run.quantization(call.input(0)) || call.input(4).boolean() != false)
    return std::nullopt;
  return one(call.input(0));
}

// --- ATen's operators.

// Returns the quantization of functions with results in [0, 1] or [-1, 1], which is fixed.
std::optional<Quantization> fixed(const aten::Schema& schema, DType dtype) {
  const int64_t lowest = bounds_of(dtype)[0];
  if (schema.name == "aten::sigmoid" || schema.name == "aten::hardsigmoid")
    return Quantization{1.0 / 256, lowest, dtype};
  if (schema.name == "aten::tanh") return Quantization{2.0 / 256, lowest + 128, dtype};
  return std::nullopt;
}

}  // namespace

const Quantization* Interpreter::quantization(const Item& item) const {
  const auto at = quantizations_.find(item.tensor());
  return at == quantizations_.end() ? nullptr : &at->second;
}

void Interpreter::set_quantization(const Item& item, Quantization quantization) {
  quantizations_.insert_or_assign(item.tensor(), quantization);
}

const Quantization* Interpreter::quantized_operand(const Call& call) const {
  if (quantizations_.empty()) return nullptr;
  for (const Item& input : call.inputs) {
    if (const Quantization* known = quantization(input)) return known;
    const Container* list = input.container();
    if (!list || list->kind == Container::Kind::object) continue;
    for (const Item& element : list->items())
      if (const Quantization* known = quantization(element)) return known;
  }
  return nullptr;
}

void Interpreter::keep_quantization(const Call& call, const aten::Schema& schema,
                                    const Quantization& of_operand, Items& results) {
  const aten::Quantized of_results = aten::quantized_of(schema);
  const bool moves = of_results == aten::Quantized::kept;
  const std::optional<Quantization> own = fixed(schema, of_operand.dtype);
  if (!moves && !own && of_results == aten::Quantized::unknown)
    unsupported(
        concat("cannot export ", schema.key, " of quantized tensors; dequantize them before it"));
  for (Item& result : results) {
    if (Container* list = result.container()) {
      for (const Item& element : list->items()) set_quantization(element, of_operand);
    } else if (moves) {
      set_quantization(result, of_operand);
    } else {
      result = rounded_to(call, result, own.value_or(of_operand));
    }
  }
}

void add_quantized_handlers(Handlers& handlers) {
  const auto add_all = [&](std::initializer_list<std::string_view> names, Handler handler) {
    for (const std::string_view name : names) handlers[name].push_back(handler);
  };
  add_all({"aten::quantize_per_tensor"}, quantize);
  add_all({"aten::dequantize"}, dequantize);
  add_all({"aten::q_scale"}, scale);
  add_all({"aten::q_zero_point"}, zero_point);
  add_all({"quantized::linear", "quantized::linear_relu"}, quantized_linear);
  add_all(
      {"quantized::conv1d", "quantized::conv1d_relu", "quantized::conv2d", "quantized::conv2d_relu",
       "quantized::conv3d", "quantized::conv3d_relu", "quantized::conv_transpose1d",
       "quantized::conv_transpose2d", "quantized::conv_transpose3d"},
      convolution);
  for (const Operation& each : kOperations) handlers[each.name].push_back(operation);
  add_all({"quantized::cat", "quantized::cat_relu"}, quantized_concatenate);
  add_all({"quantized::relu6"}, relu6);
  add_all({"quantized::dropout"}, dropout);
  add_quantized_dynamic_handlers(handlers);
  add_quantized_embedding_handlers(handlers);
}

}  // namespace onnx_native::readers::jit
