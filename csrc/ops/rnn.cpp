#include <string>

#include "onnx/builder.h"
#include "ops/families.h"

namespace onnx_native::ops {
namespace {

// One kind of recurrence: ONNX's operator and where each of its gates is among ATen's.
struct Recurrence {
  const char* op_type;
  Ints gates;
  std::string activation;  // of a plain RNN
};

const Recurrence kLstm{"LSTM", {0, 3, 1, 2}, ""};  // ATen i f g o, ONNX i o f c
const Recurrence kGru{"GRU", {1, 0, 2}, ""};       // ATen r z n, ONNX z r h
const Recurrence kRnnTanh{"RNN", {0}, "Tanh"};
const Recurrence kRnnRelu{"RNN", {0}, "Relu"};

struct Layers {
  bool has_biases;
  int64_t num_layers;
  double dropout;
  bool train, bidirectional, batch_first;
};

Value in_onnx_order(Builder& b, Value weight, const Ints& gates, const Dim& hidden) {
  if (gates.size() == 1) return weight;
  const Values parts = b.split(weight, 0, std::vector<Dim>(gates.size(), hidden));
  Values ordered;
  for (int64_t gate : gates) ordered.push_back(parts[gate]);
  return b.concat(ordered, 0);
}

// Runs all layers; `states` are the initial ones (LSTM: hidden and cell), each
// (layers * directions, batch, hidden). Returns the output and the last states.
Values recurrent(Builder& b, Value input, const Values& states, const Values& params,
                 const Recurrence& kind, const Layers& layers) {
  b.check(!layers.train || layers.dropout == 0, "dropout between layers in training mode");
  const int64_t directions = layers.bidirectional ? 2 : 1;
  const size_t stride = layers.has_biases ? 4 : 2;
  b.check(params.size() == stride * layers.num_layers * directions,
          "projections (proj_size) of an LSTM");
  Value x = layers.batch_first ? b.swap_axes(input, 0, 1) : input;
  const auto hidden = params[1]->dim(1).constant();
  b.check(hidden.has_value(), "a hidden size that changes");
  std::vector<Values> last(states.size());
  for (int64_t layer = 0; layer < layers.num_layers; ++layer) {
    const auto joined = [&](const auto& of_direction) {
      Values parts;
      for (int64_t d = 0; d < directions; ++d)
        parts.push_back(b.unsqueeze(of_direction(&params[stride * (layer * directions + d)]), {0}));
      return b.concat(parts, 0);
    };
    const auto ordered = [&](Value v) { return in_onnx_order(b, v, kind.gates, *hidden); };
    Values inputs{x, joined([&](const Value* p) { return ordered(p[0]); }),
                  joined([&](const Value* p) { return ordered(p[1]); }), nullptr, nullptr};
    if (layers.has_biases)
      inputs[3] = joined([&](const Value* p) {
        return b.concat({ordered(p[2]), ordered(p[3])}, 0);
      });
    for (Value state : states)
      inputs.push_back(b.slice(state, 0, layer * directions, (layer + 1) * directions));
    std::vector<onnx::Attribute> attributes{
        {"hidden_size", *hidden}, {"direction", directions == 2 ? "bidirectional" : "forward"}};
    if (std::string_view(kind.op_type) == "GRU") attributes.push_back({"linear_before_reset", 1});
    if (!kind.activation.empty())
      attributes.push_back({"activations", std::vector<std::string>(directions, kind.activation)});
    const Values results = b.ops(kind.op_type, 1 + states.size(), inputs, std::move(attributes));
    // (sequence, directions, batch, hidden)
    const Value y = results[0];
    x = directions == 1
            ? b.squeeze(y, {1})
            : b.reshape(b.transpose(y, {0, 2, 1, 3}), {y->dim(0), y->dim(2), *hidden * directions});
    for (size_t i = 0; i < states.size(); ++i) last[i].push_back(results[1 + i]);
  }
  Values all{layers.batch_first ? b.swap_axes(x, 0, 1) : x};
  for (const Values& parts : last) all.push_back(b.concat(parts, 0));
  return all;
}

void define(OpTable& ops, std::string_view name, const Recurrence& kind) {
  ops.def(name, [kind](Builder& b, Value input, Value hx, Values params, bool has_biases,
                       int64_t num_layers, double dropout, bool train, bool bidirectional,
                       bool batch_first) {
    return recurrent(b, input, {hx}, params, kind,
                     {has_biases, num_layers, dropout, train, bidirectional, batch_first});
  });
}

// x @ w.T + bias: all gates of a cell at once.
Value gates(Builder& b, Value x, Value weight, std::optional<Value> bias) {
  const Value y = b.matmul(x, b.transpose(weight, {1, 0}));
  return bias ? b.Add(y, *bias) : y;
}

Values chunks(Builder& b, Value gates, const Dim& hidden, size_t count) {
  return b.split(gates, -1, std::vector<Dim>(count, hidden));
}

std::array<Value, 2> lstm_cell(Builder& b, Value input, Values hx, Value w_ih, Value w_hh,
                               std::optional<Value> b_ih, std::optional<Value> b_hh) {
  const Value sum = b.Add(gates(b, input, w_ih, b_ih), gates(b, hx.at(0), w_hh, b_hh));
  const Values g = chunks(b, sum, w_hh->dim(1), 4);
  const Value cell = b.Add(b.Mul(b.Sigmoid(g[1]), hx.at(1)), b.Mul(b.Sigmoid(g[0]), b.Tanh(g[2])));
  return {b.Mul(b.Sigmoid(g[3]), b.Tanh(cell)), cell};
}

Value gru_cell(Builder& b, Value input, Value hx, Value w_ih, Value w_hh, std::optional<Value> b_ih,
               std::optional<Value> b_hh) {
  const Values x = chunks(b, gates(b, input, w_ih, b_ih), w_hh->dim(1), 3);
  const Values h = chunks(b, gates(b, hx, w_hh, b_hh), w_hh->dim(1), 3);
  const Value reset = b.Sigmoid(b.Add(x[0], h[0])), update = b.Sigmoid(b.Add(x[1], h[1]));
  const Value next = b.Tanh(b.Add(x[2], b.Mul(reset, h[2])));
  return b.Add(next, b.Mul(update, b.Sub(hx, next)));
}

template <class Activation>
auto rnn_cell(Activation activation) {
  return [activation](Builder& b, Value input, Value hx, Value w_ih, Value w_hh,
                      std::optional<Value> b_ih, std::optional<Value> b_hh) {
    return activation(b, b.Add(gates(b, input, w_ih, b_ih), gates(b, hx, w_hh, b_hh)));
  };
}

}  // namespace

void register_rnn(OpTable& ops) {
  ops.def("aten::lstm.input",
          [](Builder& b, Value input, Values hx, Values params, bool has_biases, int64_t num_layers,
             double dropout, bool train, bool bidirectional, bool batch_first) {
            return recurrent(b, input, hx, params, kLstm,
                             {has_biases, num_layers, dropout, train, bidirectional, batch_first});
          });
  define(ops, "aten::gru.input", kGru);
  define(ops, "aten::rnn_tanh.input", kRnnTanh);
  define(ops, "aten::rnn_relu.input", kRnnRelu);
  ops.def("aten::lstm_cell", lstm_cell);
  ops.def("aten::gru_cell", gru_cell);
  ops.def("aten::rnn_tanh_cell", rnn_cell([](Builder& b, Value x) { return b.Tanh(x); }));
  ops.def("aten::rnn_relu_cell", rnn_cell([](Builder& b, Value x) { return b.op("Relu", {x}); }));
}

}  // namespace onnx_native::ops
