// Linear layers and recurrent networks with packed weights that round their inputs and states while
// they run (torch.ao.nn.quantized.dynamic).
#include <ATen/Context.h>
#include <ATen/core/function.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/frontend/resolver.h>

#include "readers/jit/quantized.h"

namespace onnx_native::readers::jit {
namespace {

// The modules as ATen computes them, on real numbers. A linear layer rounds its input to `steps` +
// 1 numbers, as ATen's ChooseQuantizationParams chooses them, or not at all if `steps` is 0.
constexpr const char* kSource = R"(
def rounded(x: Tensor, steps: int) -> Tensor:
    if steps == 0:
        return x
    low = torch.clamp_max(torch.amin(x), 0.0)
    high = torch.clamp_min(torch.amax(x), 0.0)
    scale = torch.clamp_min((high - low) / steps, 6.1e-5)
    zero_point = torch.to(torch.round(torch.neg(low / scale)), 3)
    return torch.fake_quantize_per_tensor_affine(x, scale, zero_point, 0, steps)

def linear(x: Tensor, weight: Tensor, bias: Optional[Tensor], steps: int) -> Tensor:
    return torch.linear(rounded(x, steps), weight, bias)

def lstm_step(gates: Tensor, h: Tensor, c: Tensor, weight: Tensor, bias: Optional[Tensor],
              steps: int) -> Tuple[Tensor, Tensor]:
    i, f, g, o = torch.chunk(linear(h, weight, bias, steps) + gates, 4, 1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c

def gru_step(gates: Tensor, h: Tensor, weight: Tensor, bias: Optional[Tensor],
             steps: int) -> Tensor:
    r, z, n = torch.chunk(gates, 3, 1)
    r_h, z_h, n_h = torch.chunk(linear(h, weight, bias, steps), 3, 1)
    n = torch.tanh(n + n_h * torch.sigmoid(r_h + r))
    return (h - n) * torch.sigmoid(z_h + z) + n

def lstm_layer(x: Tensor, h: Tensor, c: Tensor, w_x: Tensor, b_x: Optional[Tensor], w_h: Tensor,
               b_h: Optional[Tensor], steps: int, backwards: bool
               ) -> Tuple[Tensor, Tensor, Tensor]:
    gates = linear(torch.flip(x, [0]) if backwards else x, w_x, b_x, steps)
    results: List[Tensor] = []
    for t in range(gates.size(0)):
        h, c = lstm_step(gates[t], h, c, w_h, b_h, steps)
        results.append(h)
    y = torch.stack(results)
    return torch.flip(y, [0]) if backwards else y, h, c

def gru_layer(x: Tensor, h: Tensor, w_x: Tensor, b_x: Optional[Tensor], w_h: Tensor,
              b_h: Optional[Tensor], steps: int, backwards: bool) -> Tuple[Tensor, Tensor]:
    gates = linear(torch.flip(x, [0]) if backwards else x, w_x, b_x, steps)
    results: List[Tensor] = []
    for t in range(gates.size(0)):
        h = gru_step(gates[t], h, w_h, b_h, steps)
        results.append(h)
    y = torch.stack(results)
    return torch.flip(y, [0]) if backwards else y, h

def lstm_cell(x: Tensor, h: Tensor, c: Tensor, w_x: Tensor, b_x: Optional[Tensor], w_h: Tensor,
              b_h: Optional[Tensor], steps: int) -> Tuple[Tensor, Tensor]:
    return lstm_step(linear(x, w_x, b_x, steps), h, c, w_h, b_h, steps)

def gru_cell(x: Tensor, h: Tensor, w_x: Tensor, b_x: Optional[Tensor], w_h: Tensor,
             b_h: Optional[Tensor], steps: int) -> Tensor:
    return gru_step(linear(x, w_x, b_x, steps), h, w_h, b_h, steps)

def rnn_cell(x: Tensor, h: Tensor, w_x: Tensor, b_x: Optional[Tensor], w_h: Tensor,
             b_h: Optional[Tensor], steps: int, is_relu: bool) -> Tensor:
    y = linear(h, w_h, b_h, steps) + linear(x, w_x, b_x, steps)
    return torch.relu(y) if is_relu else torch.tanh(y)
)";

// Runs a function of the source; returns its results.
Items apply(const Call& call, const char* function, Items arguments) {
  static const auto unit = [] {
    auto made = std::make_shared<torch::jit::CompilationUnit>();
    made->define(std::nullopt, kSource, torch::jit::nativeResolver(), nullptr);
    return made;
  }();
  Items results =
      call.run.run(unit->get_function(function), std::move(arguments), nullptr, &call.node);
  const Container* tuple = results.at(0).container();
  return tuple ? tuple->items() : results;
}

// Returns the steps to which a linear layer rounds its input. The engine qnnpack ignores
// `reduce_range`.
int64_t steps_of(bool reduce_range) {
  const bool is_reduced = reduce_range && at::globalContext().qEngine() != at::QEngine::QNNPACK;
  return is_reduced ? 127 : 255;
}

constexpr const char* kUnpacker = "quantized::linear_unpack";

std::optional<Items> linear(const Call& call) {
  const std::optional<bool> is_reduced = call.size() == 3 ? call.input(2).boolean() : false;
  if (!call.input(0).tensor() || !is_reduced) return std::nullopt;
  const Parameters parameters = unpacked_parameters(call, call.input(1), kUnpacker);
  const int64_t steps = call.name().ends_with("fp16") ? 0 : steps_of(*is_reduced);
  Item result =
      apply(call, "linear", {call.input(0), parameters.weight, parameters.bias, number(steps)})[0];
  return one(has_relu(call) ? record(call, "aten::relu", {result}) : result);
}

// The weights of one layer in one direction, and how it rounds.
struct Layer {
  Parameters of_input, of_state;
  int64_t steps = 0;

  void add_to(Items& arguments) const {
    arguments.insert(arguments.end(), {of_input.weight, of_input.bias, of_state.weight,
                                       of_state.bias, number(steps)});
  }
};

// `suffix` is that of the parameters' names: "_l0_reverse".
Layer layer_of(const Call& call, const Item& parameters, const std::string& suffix) {
  const c10::IValue object = packed_object(parameters);
  torch::jit::Stack stack{object};
  object.toObjectRef().type()->getMethod("__getstate__").run(stack);
  const auto state = stack.at(0).toTuple();
  const std::string& kind = state->elements().at(0).toStringRef();
  const bool is_dynamic = kind == "quantized_dynamic";
  if (!is_dynamic && kind != "quantized_fp16")
    call.run.unsupported("cannot export recurrent networks whose weights are " + kind);
  const std::string module = module_of(parameters);
  const auto unpacked = [&](size_t i, const char* which) {
    const std::string weight = concat(module, "weight_", which, suffix);
    return unpacked_parameters(call, state->elements().at(4).toListRef().at(i), kUnpacker,
                               {weight, concat(module, "bias_", which, suffix), weight + "."});
  };
  Layer layer{unpacked(0, "ih"), unpacked(1, "hh")};
  if (is_dynamic) layer.steps = steps_of(state->elements().at(3).toIntVector().at(0) != 0);
  return layer;
}

Item first_axes_swapped(const Call& call, const Item& tensor) {
  return record(call, "aten::transpose.int", {tensor, number(int64_t{0}), number(int64_t{1})});
}

Item join_tensors(const Call& call, const char* key, Items tensors, int64_t axis) {
  return record(call, key,
                {make_container(Container::Kind::list, std::move(tensors)), number(axis)});
}

// The arguments of aten::quantized_lstm and quantized_gru after the states.
struct Network {
  const Container* layers;
  int64_t count;
  bool is_bidirectional, batch_first;
};

// Throws for a packed sequence, whose overload has the batch sizes as a further input.
void check_sequence(const Call& call, const Item& list) {
  if (list.tensor())
    call.run.unsupported(
        "cannot export quantized recurrent networks of packed sequences; pad them");
}

// Returns nullopt if an argument is not constant.
std::optional<Network> network_of(const Call& call) {
  constexpr size_t kParameters = 2, kCount = 4, kDropout = 5, kTrain = 6;
  if (call.size() < 9 || !call.input(kParameters).container()) return std::nullopt;
  const auto count = call.input(kCount).integer();
  const auto train = call.input(kTrain).boolean(), bidirectional = call.input(7).boolean(),
             batch_first = call.input(8).boolean();
  if (!count || !train || !bidirectional || !batch_first) return std::nullopt;
  if (*train && call.input(kDropout).floating() != 0.0)
    call.run.unsupported("a quantized recurrent network drops elements; call eval() before");
  return Network{call.input(kParameters).container(), *count, *bidirectional, *batch_first};
}

// Returns the results, then the last states: `initial` has one tensor per kind of state.
std::optional<Items> network(const Call& call, const char* function, const Items& initial) {
  const std::optional<Network> known = network_of(call);
  if (!known) return std::nullopt;
  Item x = call.input(0);
  if (known->batch_first) x = first_axes_swapped(call, x);
  const int64_t directions = known->is_bidirectional ? 2 : 1;
  std::vector<Items> last(initial.size());
  for (int64_t layer = 0; layer < known->count; ++layer) {
    Items results;
    for (int64_t direction = 0; direction < directions; ++direction) {
      const int64_t index = layer * directions + direction;
      const std::string suffix = concat("_l", layer, direction == 1 ? "_reverse" : "");
      Items arguments{x};
      for (const Item& states : initial) {
        arguments.push_back(
            record(call, "aten::select.int", {states, number(int64_t{0}), number(index)}));
      }
      layer_of(call, known->layers->items().at(static_cast<size_t>(index)), suffix)
          .add_to(arguments);
      arguments.emplace_back(c10::IValue(direction == 1));
      const Items made = apply(call, function, std::move(arguments));
      results.push_back(made.at(0));
      for (size_t i = 0; i < last.size(); ++i) last[i].push_back(made.at(i + 1));
    }
    x = directions == 1 ? results[0] : join_tensors(call, "aten::cat", std::move(results), 2);
  }
  Items all{known->batch_first ? first_axes_swapped(call, x) : x};
  for (Items& states : last) all.push_back(join_tensors(call, "aten::stack", std::move(states), 0));
  return all;
}

std::optional<Items> lstm(const Call& call) {
  check_sequence(call, call.input(1));
  const Container* states = call.input(1).container();
  if (!states || states->items().size() != 2) return std::nullopt;
  return network(call, "lstm_layer", states->items());
}

std::optional<Items> gru(const Call& call) {
  check_sequence(call, call.input(2));
  return network(call, "gru_layer", {call.input(1)});
}

std::optional<Items> cell(const Call& call) {
  if (call.size() != 6) return std::nullopt;
  Items arguments{call.input(0)};
  const Container* states = call.input(1).container();
  const Items all = states ? states->items() : Items{call.input(1)};
  arguments.insert(arguments.end(), all.begin(), all.end());
  const auto unpacked = [&](size_t i) {
    return unpacked_parameters(call, call.input(i), kUnpacker);
  };
  Layer{unpacked(2), unpacked(3), steps_of(true)}.add_to(arguments);
  const std::string_view name = call.name();
  if (name == "quantized::quantized_lstm_cell_dynamic")
    return apply(call, "lstm_cell", std::move(arguments));
  if (name == "quantized::quantized_gru_cell_dynamic")
    return apply(call, "gru_cell", std::move(arguments));
  arguments.emplace_back(c10::IValue(name == "quantized::quantized_rnn_relu_cell_dynamic"));
  return apply(call, "rnn_cell", std::move(arguments));
}

}  // namespace

void add_quantized_dynamic_handlers(Handlers& handlers) {
  for (const char* name : {"quantized::linear_dynamic", "quantized::linear_relu_dynamic",
                           "quantized::linear_dynamic_fp16", "quantized::linear_relu_dynamic_fp16"})
    handlers[name].push_back(linear);
  handlers["aten::quantized_lstm"].push_back(lstm);
  handlers["aten::quantized_gru"].push_back(gru);
  for (const char* name :
       {"quantized::quantized_lstm_cell_dynamic", "quantized::quantized_gru_cell_dynamic",
        "quantized::quantized_rnn_relu_cell_dynamic", "quantized::quantized_rnn_tanh_cell_dynamic"})
    handlers[name].push_back(cell);
}

}  // namespace onnx_native::readers::jit
