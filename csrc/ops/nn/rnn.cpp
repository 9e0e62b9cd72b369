// Recurrent networks and their cells.
#include <algorithm>
#include <array>
#include <string>

#include "onnx/builder.h"
#include "ops/families.h"
#include "ops/formulas/loop.h"
#include "ops/formulas/numeric.h"
#include "ops/formulas/random.h"
#include "ops/nn/packed_sequence.h"

namespace onnx_native::ops {
namespace {

// x @ w.T + bias: the preactivations of all gates of a cell.
Value gates(Builder& b, Value x, Value weight, std::optional<Value> bias) {
  const Value y = b.matmul(x, b.transpose(weight, {1, 0}));
  return bias ? b.Add(y, *bias) : y;
}

Values chunks(Builder& b, Value gates, int64_t count) {
  return b.split(gates, -1, std::vector<Dim>(count, Dim::floor_div(gates->dim(-1), count)));
}

std::array<Value, 2> lstm_cell(Builder& b, Value input, const Values& hx, Value w_ih, Value w_hh,
                               std::optional<Value> b_ih, std::optional<Value> b_hh) {
  const Value sum = b.Add(gates(b, input, w_ih, b_ih), gates(b, hx.at(0), w_hh, b_hh));
  const Values g = chunks(b, sum, 4);
  const Value cell = b.Add(b.Mul(b.Sigmoid(g[1]), hx.at(1)), b.Mul(b.Sigmoid(g[0]), b.Tanh(g[2])));
  return {b.Mul(b.Sigmoid(g[3]), b.Tanh(cell)), cell};
}

Value gru_cell(Builder& b, Value input, Value hx, Value w_ih, Value w_hh, std::optional<Value> b_ih,
               std::optional<Value> b_hh) {
  const Values x = chunks(b, gates(b, input, w_ih, b_ih), 3);
  const Values h = chunks(b, gates(b, hx, w_hh, b_hh), 3);
  const Value reset = b.Sigmoid(b.Add(x[0], h[0])), update = b.Sigmoid(b.Add(x[1], h[1]));
  const Value next = b.Tanh(b.Add(x[2], b.Mul(reset, h[2])));
  return b.Add(next, b.Mul(update, b.Sub(hx, next)));
}

template <Value (*activation)(Builder&, Value)>
Value rnn_cell(Builder& b, Value input, Value hx, Value w_ih, Value w_hh, std::optional<Value> b_ih,
               std::optional<Value> b_hh) {
  return activation(b, b.Add(gates(b, input, w_ih, b_ih), gates(b, hx, w_hh, b_hh)));
}

Value tanh(Builder& b, Value x) { return b.Tanh(x); }
Value float_relu(Builder& b, Value x) { return b.op("Relu", {x}); }

// The parameters of one layer in one direction.
struct Params {
  Value w_ih, w_hh;
  std::optional<Value> b_ih, b_hh;
  Value projection = nullptr;  // projects an LSTM's hidden state
};

// One step of a cell; returns the next states.
using Cell = Values (*)(Builder& b, Value input, const Values& states, const Params& params);

Values next_lstm(Builder& b, Value input, const Values& states, const Params& p) {
  auto [hidden, cell] = lstm_cell(b, input, states, p.w_ih, p.w_hh, p.b_ih, p.b_hh);
  if (p.projection) hidden = b.matmul(hidden, b.transpose(p.projection, {1, 0}));
  return {hidden, cell};
}

template <auto cell>
Values next(Builder& b, Value input, const Values& states, const Params& p) {
  return {cell(b, input, states[0], p.w_ih, p.w_hh, p.b_ih, p.b_hh)};
}

// A kind of recurrence: the ONNX operator, the ATen index of each ONNX gate, and the step function.
struct Recurrence {
  const char* op_type;
  Ints gates;
  std::string activation;  // plain RNN only
  Cell cell;
};

const Recurrence kLstm{"LSTM", {0, 3, 1, 2}, "", next_lstm};  // ATen i f g o, ONNX i o f c
const Recurrence kGru{"GRU", {1, 0, 2}, "", next<gru_cell>};  // ATen r z n, ONNX z r h
const Recurrence kRnnTanh{"RNN", {0}, "Tanh", next<rnn_cell<tanh>>};
const Recurrence kRnnRelu{"RNN", {0}, "Relu", next<rnn_cell<float_relu>>};

struct Layers {
  bool has_biases;
  int64_t num_layers;
  Number dropout;  // used only in training
  bool train, bidirectional, batch_first;
};

// Runs one layer. Returns its output (sequence, batch, directions * hidden), then the last states.
// With a packing, sequences have different lengths.
using Layer = Values (*)(Builder& b, Value x, const Values& states,
                         const std::vector<Params>& directions, const Recurrence& kind,
                         const Packing* packing);

Value in_onnx_order(Builder& b, Value weight, const Ints& gates, const Dim& hidden) {
  if (gates.size() == 1) return weight;
  const Values parts = b.split(weight, 0, std::vector<Dim>(gates.size(), hidden));
  Values ordered;
  for (int64_t gate : gates) ordered.push_back(parts[gate]);
  return b.concat(ordered, 0);
}

Values layer_of_batch(Builder& b, Value x, const Values& states,
                      const std::vector<Params>& directions, const Recurrence& kind,
                      const Packing* packing) {
  const int64_t count = static_cast<int64_t>(directions.size());
  const auto hidden = directions[0].w_hh->dim(1).constant();
  b.check(hidden.has_value(), "the hidden size must be constant");
  const auto joined = [&](const auto& of_direction) {
    Values parts;
    for (const Params& p : directions) parts.push_back(b.unsqueeze(of_direction(p), {0}));
    return b.concat(parts, 0);
  };
  const auto ordered = [&](Value v) { return in_onnx_order(b, v, kind.gates, *hidden); };
  Values inputs{x, joined([&](const Params& p) { return ordered(p.w_ih); }),
                joined([&](const Params& p) { return ordered(p.w_hh); }), nullptr, nullptr};
  if (directions[0].b_ih)
    inputs[3] = joined([&](const Params& p) {
      return b.concat({ordered(*p.b_ih), ordered(*p.b_hh)}, 0);
    });
  if (packing) inputs[4] = b.cast(packing->lengths, DType::i32);
  inputs.insert(inputs.end(), states.begin(), states.end());
  std::vector<onnx::Attribute> attributes{{"hidden_size", *hidden},
                                          {"direction", count == 2 ? "bidirectional" : "forward"}};
  if (std::string_view(kind.op_type) == "GRU") attributes.push_back({"linear_before_reset", 1});
  if (!kind.activation.empty())
    attributes.push_back({"activations", std::vector<std::string>(count, kind.activation)});
  Values results = b.ops(kind.op_type, 1 + states.size(), inputs, std::move(attributes));
  // y is (sequence, directions, batch, hidden).
  const Value y = results[0];
  results[0] =
      count == 1 ? b.squeeze(y, {1})
                 : b.reshape(b.transpose(y, {0, 2, 1, 3}), {y->dim(0), y->dim(2), *hidden * count});
  return results;
}

// ONNX Runtime's operators end the process on an empty batch, so it gets a sequence of zeros.
Values layer_by_operator(Builder& b, Value x, const Values& states,
                         const std::vector<Params>& directions, const Recurrence& kind,
                         const Packing* packing) {
  const Dim& batch = x->dim(1);
  if (batch.known_positive() || packing)
    return layer_of_batch(b, x, states, directions, kind, packing);
  const Dim added = 1 - Dim::min(batch, 1);
  const auto padded = [&](Value v) {
    return b.concat({v, b.full(v->dtype, 0.0, {v->dim(0), added, v->dim(2)})}, 1);
  };
  Values of_padded;
  for (const Value state : states) of_padded.push_back(padded(state));
  Values results = layer_of_batch(b, padded(x), of_padded, directions, kind, nullptr);
  for (Value& result : results) result = b.split(result, 1, {batch, added})[0];
  return results;
}

// Like layer_by_operator but with Scan, for projections and float64.
Values layer_by_scan(Builder& b, Value x, const Values& states,
                     const std::vector<Params>& directions, const Recurrence& kind,
                     const Packing* packing) {
  Values scanned{x};
  if (packing) scanned.push_back(b.unsqueeze(packing->present, {2}));
  Values outputs;
  std::vector<Values> last(states.size());
  for (size_t d = 0; d < directions.size(); ++d) {
    Values inputs;
    for (const Value state : states) {
      inputs.push_back(b.select(state, 0, static_cast<int64_t>(d)));
    }
    const Scanned results = scan(b, inputs, scanned,
                                 [&](const Values& current, const Values& slices) {
                                   Values next = kind.cell(b, slices[0], current, directions[d]);
                                   if (packing) {
                                     for (size_t i = 0; i < next.size(); ++i) {
                                       next[i] = b.where(slices[1], next[i], current[i]);
                                     }
                                   }
                                   next.push_back(next[0]);
                                   return next;
                                 },
                                 {.backwards = d == 1});
    for (size_t i = 0; i < states.size(); ++i)
      last[i].push_back(b.unsqueeze(results.states[i], {0}));
    outputs.push_back(results.outputs[0]);
  }
  Values all{b.concat(outputs, 2)};
  for (const Values& parts : last) all.push_back(b.concat(parts, 0));
  return all;
}

// Runs all layers. `states` are the initial states (LSTM: hidden and cell), each (layers *
// directions, batch, hidden). Returns the output and the last states.
Values recurrent(Builder& b, Value input, Values states, Values params, const Recurrence& kind,
                 const Layers& layers, const Packing* packing = nullptr) {
  const int64_t directions = layers.bidirectional ? 2 : 1;
  const auto count = static_cast<int64_t>(params.size());
  b.check(layers.num_layers > 0 && layers.num_layers <= count, "expected 1 to ", count,
          " layers, got ", layers.num_layers);
  const size_t stride = params.size() / (layers.num_layers * directions);
  const size_t plain = layers.has_biases ? 4 : 2;
  b.check(stride >= plain, "inconsistent arguments: got ", count, " parameters for ",
          layers.num_layers, " layers");
  // ONNX Runtime implements the operators only for float32.
  const DType dtype = input->dtype;
  const Layer run_layer = stride > plain || dtype == DType::f64 ? layer_by_scan : layer_by_operator;
  const auto wide = [&](Value v) { return b.cast(v, accumulation_dtype(dtype)); };
  std::ranges::transform(states, states.begin(), wide);
  std::ranges::transform(params, params.begin(), wide);

  Value x = wide(layers.batch_first ? b.swap_axes(input, 0, 1) : input);
  std::vector<Values> last(states.size());
  for (int64_t layer = 0; layer < layers.num_layers; ++layer) {
    std::vector<Params> of_layer;
    for (int64_t d = 0; d < directions; ++d) {
      const Value* p = &params[stride * (layer * directions + d)];
      Params& one = of_layer.emplace_back(Params{.w_ih = p[0], .w_hh = p[1]});
      if (layers.has_biases) {
        one.b_ih = p[2];
        one.b_hh = p[3];
      }
      if (stride > plain) one.projection = p[plain];
    }
    Values of_states;
    for (const Value state : states) {
      of_states.push_back(b.slice(state, 0, layer * directions, (layer + 1) * directions));
    }
    const Values results = run_layer(b, x, of_states, of_layer, kind, packing);
    x = results[0];
    if (layers.train && !is_zero(layers.dropout) && layer + 1 < layers.num_layers)
      x = dropped(b, x, layers.dropout).result;
    for (size_t i = 0; i < states.size(); ++i) last[i].push_back(results[1 + i]);
  }
  Values all{layers.batch_first ? b.swap_axes(x, 0, 1) : x};
  for (const Values& parts : last) all.push_back(b.concat(parts, 0));
  for (Value& value : all) value = b.cast(value, dtype);
  return all;
}

// Like `recurrent`, but for a packed sequence; the output is packed too.
Values recurrent_packed(Builder& b, Value data, Value batch_sizes, const Values& states,
                        const Values& params, const Recurrence& kind, const Layers& layers) {
  const Packing packing = packing_of(b, batch_sizes, states.at(0)->dim(1));
  Values all = recurrent(b, unpacked(b, data, packing), states, params, kind, layers, &packing);
  all[0] = packed(b, all[0], packing.present);
  return all;
}

void define(OpTable& ops, const std::string& name, const Recurrence& kind) {
  ops.def(name + ".data", [kind](Builder& b, Value data, Value batch_sizes, Value hx,
                                 const Values& params, bool has_biases, int64_t num_layers,
                                 Number dropout, bool train, bool bidirectional) {
    return recurrent_packed(b, data, batch_sizes, {hx}, params, kind,
                            {has_biases, num_layers, dropout, train, bidirectional, false});
  });
  ops.def(name + ".input", [kind](Builder& b, Value input, Value hx, Values params, bool has_biases,
                                  int64_t num_layers, Number dropout, bool train,
                                  bool bidirectional, bool batch_first) {
    return recurrent(b, input, {hx}, params, kind,
                     {has_biases, num_layers, dropout, train, bidirectional, batch_first});
  });
}

}  // namespace

void register_rnn(OpTable& ops) {
  ops.def("aten::lstm.input",
          [](Builder& b, Value input, Values hx, Values params, bool has_biases, int64_t num_layers,
             Number dropout, bool train, bool bidirectional, bool batch_first) {
            return recurrent(b, input, hx, params, kLstm,
                             {has_biases, num_layers, dropout, train, bidirectional, batch_first});
          });
  ops.def("aten::lstm.data",
          [](Builder& b, Value data, Value batch_sizes, const Values& hx, const Values& params,
             bool has_biases, int64_t num_layers, Number dropout, bool train, bool bidirectional) {
            return recurrent_packed(b, data, batch_sizes, hx, params, kLstm,
                                    {has_biases, num_layers, dropout, train, bidirectional, false});
          });
  define(ops, "aten::gru", kGru);
  define(ops, "aten::rnn_tanh", kRnnTanh);
  define(ops, "aten::rnn_relu", kRnnRelu);
  ops.def("aten::lstm_cell", lstm_cell);
  ops.def("aten::gru_cell", gru_cell);
  ops.def("aten::rnn_tanh_cell", rnn_cell<tanh>);
  ops.def("aten::rnn_relu_cell", rnn_cell<float_relu>);
}

}  // namespace onnx_native::ops
