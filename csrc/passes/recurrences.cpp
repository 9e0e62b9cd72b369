#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "onnx/typing.h"
#include "passes/affine_map.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using match::mul;
using match::op;
using match::Var;
using onnx::Graph;
using onnx::Node;
using onnx::Value;

// The value of a step without the copies that a body returns.
Value* resolved(Value* value) {
  while (value->producer && value->producer->is("Identity")) value = value->producer->inputs[0];
  return value;
}

auto exactly(const Value* wanted) {
  return match::where(match::any, [wanted](const Value& value) { return &value == wanted; });
}

// A recurrent cell in the body of a Scan: its gates in the order of ONNX.
struct RecurrentCell {
  std::string op_type;
  std::vector<AffineMap> gates;
  size_t hidden = 0;            // the index of the hidden state
  std::optional<size_t> cell;   // that of the cell state
  Value* next = nullptr;        // the next hidden state
  std::string activation = {};  // of RNN
  bool is_reset_last = false;   // GRU: the reset gate scales a product, not an operand of it
  bool keeps_less = false;      // GRU: the update gate is 1 minus that of ONNX
};

class CellFinder {
 public:
  CellFinder(const Scan& scan) : scan_(scan) {}

  std::optional<RecurrentCell> find(size_t hidden) const {
    if (auto found = lstm(hidden)) return found;
    if (auto found = gru(hidden)) return found;
    return rnn(hidden);
  }

 private:
  std::optional<std::vector<AffineMap>> maps(std::initializer_list<Value*> values) const {
    std::vector<AffineMap> result;
    for (Value* value : values) {
      std::optional<AffineMap> map = affine_map(scan_, value);
      if (!map) return std::nullopt;
      result.push_back(std::move(*map));
    }
    return result;
  }

  std::optional<RecurrentCell> lstm(size_t hidden) const {
    Value* next = resolved(scan_.body.outputs[hidden]);
    Var i, o, f, c, cell, next_cell;
    const auto is_state = [this](const Value& value) { return scan_.state(&value).has_value(); };
    const auto sum = match::add(mul(op("Sigmoid", f), match::where(cell, is_state)),
                                mul(op("Sigmoid", i), op("Tanh", c)));
    if (!match::matches(next, mul(op("Sigmoid", o), op("Tanh", match::both(next_cell, sum)))))
      return std::nullopt;
    const size_t of_cell = *scan_.state(cell);
    if (of_cell == hidden || resolved(scan_.body.outputs[of_cell]) != next_cell)
      return std::nullopt;
    auto gates = maps({i, o, f, c});
    if (!gates) return std::nullopt;
    return RecurrentCell{"LSTM", std::move(*gates), hidden, of_cell, next};
  }

  std::optional<RecurrentCell> gru(size_t hidden) const {
    Value* next = resolved(scan_.body.outputs[hidden]);
    const auto state = exactly(scan_.body.inputs[hidden]);
    const auto update = [&](bool keeps_less) -> std::optional<RecurrentCell> {
      Var z, gate, h, made;
      const auto candidate = match::both(made, op("Tanh", h));
      const auto scale = match::both(gate, op("Sigmoid", z));
      // The sum (1 - scale) * a + scale * b.
      const auto mixed = [&scale](const auto& a, const auto& b) {
        return match::any_of(match::add(a, mul(scale, op("Sub", b, a))),
                             match::add(mul(op("Sub", match::number(1), scale), a), mul(scale, b)));
      };
      const bool is_found = keeps_less ? match::matches(next, mixed(state, candidate))
                                       : match::matches(next, mixed(candidate, state));
      if (!is_found) return std::nullopt;
      auto gates = maps({z, h});
      if (!gates) return std::nullopt;
      AffineMap& of_next = gates->at(1);
      const Value* reset = of_next.scale;
      for (const AffineTerm& term : of_next.terms)
        if (const auto product = scaled_state(scan_, term.operand.value); product && !reset)
          reset = product->scale;
      std::optional<AffineMap> of_reset =
          reset ? affine_map(scan_, reset->producer->inputs[0]) : std::nullopt;
      if (!of_reset) return std::nullopt;
      gates->insert(gates->begin() + 1, std::move(*of_reset));
      RecurrentCell cell{"GRU", std::move(*gates), hidden, std::nullopt, next};
      cell.is_reset_last = cell.gates[2].scaled != nullptr;
      cell.keeps_less = keeps_less;
      return cell;
    };
    if (auto found = update(false)) return found;
    return update(true);
  }

  std::optional<RecurrentCell> rnn(size_t hidden) const {
    Value* next = resolved(scan_.body.outputs[hidden]);
    const Node* node = next->producer;
    if (!node || !node->is_any({"Tanh", "Relu"})) return std::nullopt;
    auto gates = maps({node->inputs[0]});
    if (!gates) return std::nullopt;
    return RecurrentCell{"RNN", std::move(*gates), hidden, std::nullopt, next, node->op_type};
  }

  const Scan& scan_;
};

// Writes the operator of a cell before its Scan.
class CellWriter {
 public:
  CellWriter(onnx::Model& model, const Scan& scan, const RecurrentCell& cell)
      : model_(model), scan_(scan), cell_(cell), state_(*scan.body.inputs[cell.hidden]) {}

  // Returns false if the operator cannot compute the cell. Nothing has changed then.
  bool check() {
    if (!state_.shape || state_.rank() != 2 || state_.dtype != DType::f32) return false;
    const std::optional<int64_t> size = state_.dim(1).constant();
    if (!size || !state_.dim(0).known_positive()) return false;
    size_ = *size;
    for (const size_t each : states()) {
      if (scan_.node.inputs[each]->shape != state_.shape) return false;
    }
    for (size_t i = 0; i < cell_.gates.size(); ++i) {
      if (!check(cell_.gates[i], /*is_candidate=*/i == 2 && cell_.op_type == "GRU")) return false;
    }
    const auto is_complete = [this](const AffineMap& map) {
      return std::ranges::all_of(sequences_, [&map](const StepOperand& sequence) {
        return std::ranges::count(map.terms, sequence, &AffineTerm::operand) == 1;
      });
    };
    return !sequences_.empty() && std::ranges::all_of(sequences_, [this](const StepOperand& each) {
      return is_input(each);
    }) && std::ranges::all_of(cell_.gates, is_complete);
  }

  // Returns the results of the operator: all hidden states, (steps, batch, size), and the last
  // states.
  std::vector<Value*> write() {
    for (const AffineMap& gate : cell_.gates) {
      note(gate);
      if (gate.scaled) note(*gate.scaled);
    }
    std::vector<Value*> of_sequences, of_states, biases;
    for (size_t i = 0; i < cell_.gates.size(); ++i) {
      const AffineMap& gate = cell_.gates[i];
      const AffineMap& recurrent = gate.scaled ? *gate.scaled : gate;
      const bool negates = i == 0 && cell_.keeps_less;
      std::vector<Value*> parts;
      for (const StepOperand& sequence : sequences_)
        parts.push_back(rows(*std::ranges::find(gate.terms, sequence, &AffineTerm::operand)));
      of_sequences.push_back(negated(concat(std::move(parts), 1), negates));
      of_states.push_back(negated(
          rows(*std::ranges::find(recurrent.terms, false,
                                  [](const AffineTerm& term) { return term.operand.is_sequence; })),
          negates));
    }
    // The biases of products with sequences come first, then those with states.
    for (const bool is_first : {true, false}) {
      for (size_t i = 0; i < cell_.gates.size(); ++i)
        biases.push_back(negated(bias(cell_.gates[i], is_first), i == 0 && cell_.keeps_less));
    }
    const std::vector<int64_t> first{0};
    const auto joined = [&](std::vector<Value*> parts) {
      return add("Unsqueeze", {concat(std::move(parts), 0), model_.graph->add_integers(first)});
    };
    std::vector<Value*> inputs{sequence(), joined(of_sequences), joined(of_states), joined(biases),
                               nullptr};
    for (const size_t state : states())
      inputs.push_back(
          add("Unsqueeze", {scan_.node.inputs[state], model_.graph->add_integers(first)}));
    std::vector<onnx::Attribute> attributes{{"hidden_size", size_}};
    if (cell_.is_reset_last) attributes.push_back({"linear_before_reset", 1});
    if (!cell_.activation.empty())
      attributes.push_back({"activations", std::vector<std::string>{cell_.activation}});
    const Node* node = insert_node_before(model_, scan_.node, cell_.op_type, std::move(inputs),
                                          std::move(attributes), 1 + states().size());
    std::vector<Value*> results;
    for (size_t i = 0; i < node->outputs.size(); ++i) {
      const std::vector<int64_t> axis{i == 0 ? 1 : 0};
      results.push_back(add("Squeeze", {node->outputs[i], model_.graph->add_integers(axis)}));
    }
    return results;
  }

  std::vector<size_t> states() const {
    return cell_.cell ? std::vector{cell_.hidden, *cell_.cell} : std::vector{cell_.hidden};
  }

 private:
  // Checks that a gate multiplies sequences and the hidden state, each once.
  bool check(const AffineMap& gate, bool is_candidate) {
    if ((gate.scaled && !is_candidate) || !has_biases(gate)) return false;
    size_t products = 0;
    for (const AffineTerm& term : gate.terms) {
      if (term.weight.columns.size() != size_) return false;
      if (!term.operand.is_sequence) {
        const auto product = scaled_state(scan_, term.operand.value);
        const Value* state = product ? product->state : term.operand.value;
        if (state != &state_ || gate.scaled || product.has_value() != is_candidate) return false;
        ++products;
      } else if (std::ranges::find(sequences_, term.operand) == sequences_.end()) {
        sequences_.push_back(term.operand);
      }
    }
    if (gate.scaled) {
      const std::vector<AffineTerm>& terms = gate.scaled->terms;
      if (gate.scaled->scaled || !has_biases(*gate.scaled) || terms.size() != 1 ||
          terms[0].operand.value != &state_ || terms[0].weight.columns.size() != size_)
        return false;
      ++products;
    }
    return products == 1;
  }

  // Returns true if each bias has an element for each column: none is broadcast.
  bool has_biases(const AffineMap& map) const {
    return std::ranges::all_of(map.biases, [this](const BiasPart& bias) {
      return bias.range.size() == size_ && bias.range.end <= *bias.value->dim(0).constant();
    });
  }

  bool is_input(const StepOperand& sequence) const {
    const Value& value = *sequence.value;
    if (value.dtype != DType::f32 || value.rank_or(0) != 3 || !value.dim(2).is_constant())
      return false;
    const Dim& steps = value.dim(sequence.swaps ? 1 : 0);
    // ONNX Runtime's operators end the process if there is no step.
    return steps.known_positive() && steps == scan_.steps() &&
           value.dim(sequence.swaps ? 0 : 1) == state_.dim(0);
  }

  void note(const AffineMap& map) {
    for (const AffineTerm& term : map.terms) {
      const MatrixPart& weight = term.weight;
      note(weight.value, weight.is_transposed ? 0 : 1, weight.columns);
      note(weight.value, weight.is_transposed ? 1 : 0, weight.rows);
    }
    for (const BiasPart& bias : map.biases) note(bias.value, 0, bias.range);
  }
  void note(Value* value, int64_t axis, const IndexRange& range) {
    std::set<int64_t>& bounds = bounds_[value][static_cast<size_t>(axis)];
    bounds.insert({0, range.begin, range.end, *value->dim(axis).constant()});
  }

  // Returns a part of a value, which is that of `whole` or a part of it along another axis.
  Value* part(Value* value, Value* whole, int64_t axis, const IndexRange& range) {
    const std::set<int64_t>& bounds = bounds_.at(whole)[static_cast<size_t>(axis)];
    if (bounds.size() == 2) return value;
    std::vector<Value*>& parts = parts_[value];
    if (parts.empty()) {
      std::vector<int64_t> sizes;
      for (auto at = bounds.begin(); std::next(at) != bounds.end(); ++at)
        sizes.push_back(*std::next(at) - *at);
      const Node* split = insert_node_before(model_, scan_.node, "Split",
                                             {value, model_.graph->add_integers(sizes)},
                                             {{"axis", axis}}, sizes.size());
      parts = split->outputs;
    }
    const auto index = [&bounds](int64_t bound) {
      return std::distance(bounds.begin(), bounds.find(bound));
    };
    return concat(std::vector(parts.begin() + index(range.begin), parts.begin() + index(range.end)),
                  axis);
  }

  // Returns what multiplies the operand of a term, as (size, rows).
  Value* rows(const AffineTerm& term) {
    const MatrixPart& weight = term.weight;
    const int64_t axis = weight.is_transposed ? 0 : 1;
    Value* value = part(weight.value, weight.value, axis, weight.columns);
    value = part(value, weight.value, 1 - axis, weight.rows);
    const std::vector<int64_t> order{1, 0};
    return weight.is_transposed ? value : add("Transpose", {value}, {{"perm", order}});
  }

  // Returns the biases of a gate that are added to the products with sequences, or with states.
  Value* bias(const AffineMap& gate, bool is_first) {
    // Where it makes no difference, the first one is the one of the sequences.
    std::vector<BiasPart> biases = gate.biases;
    if (gate.scaled && !is_first) biases = gate.scaled->biases;
    Value* sum = nullptr;
    for (size_t i = 0; i < biases.size(); ++i) {
      if (!gate.scaled && (i == 1) == is_first) continue;
      Value* each = part(biases[i].value, biases[i].value, 0, biases[i].range);
      sum = sum ? add("Add", {sum, each}) : each;
    }
    if (sum) return sum;
    // Each is used once, so that the biases become one weight.
    std::vector<std::byte> bytes(static_cast<size_t>(size_ * item_size(DType::f32)));
    return model_.graph->add_initializer("", make_tensor(DType::f32, {size_}, std::move(bytes)));
  }

  // Returns the operator's sequence, (steps, batch, size).
  Value* sequence() {
    std::vector<Value*> parts;
    const std::vector<int64_t> order{1, 0, 2};
    for (const StepOperand& each : sequences_)
      parts.push_back(each.swaps ? add("Transpose", {each.value}, {{"perm", order}}) : each.value);
    return concat(std::move(parts), 2);
  }

  Value* negated(Value* value, bool negates) { return negates ? add("Neg", {value}) : value; }
  Value* concat(std::vector<Value*> parts, int64_t axis) {
    return parts.size() == 1 ? parts[0] : add("Concat", std::move(parts), {{"axis", axis}});
  }
  Value* add(std::string_view op_type, std::vector<Value*> inputs,
             std::vector<onnx::Attribute> attributes = {}) {
    return insert_before(model_, scan_.node, op_type, std::move(inputs), std::move(attributes));
  }

  onnx::Model& model_;
  const Scan& scan_;
  const RecurrentCell& cell_;
  const Value& state_;
  int64_t size_ = 0;
  std::vector<StepOperand> sequences_;
  std::unordered_map<const Value*, std::array<std::set<int64_t>, 2>> bounds_;
  std::unordered_map<const Value*, std::vector<Value*>> parts_;
};

bool is_of_zeros(const Value& value) {
  const Node* node = value.producer;
  if (node && node->is_any({"Expand", "Reshape", "Unsqueeze", "Identity"}))
    return is_of_zeros(*node->inputs[0]);
  if (node && node->is("ConstantOfShape")) {
    const auto* tensor = node->attribute("value");
    return !tensor || (*std::get_if<std::shared_ptr<TensorData>>(tensor))->number(0) == 0;
  }
  return match::is_scalar(value) && match::to_number(value) == 0;
}

class Recurrences {
 public:
  Recurrences(onnx::Model& model, Rewrite& rewrite) : model_(model), rewrite_(rewrite) {}

  void replace(Scan scan) {
    for (size_t i = scan.states(); i < scan.body.outputs.size(); ++i) {
      Value* sequence = scan.sequence(resolved(scan.body.outputs[i]));
      Value* result = scan.node.outputs[i];
      if (sequence && result) rewrite_.replace_all(scan.node, result, sequence);
    }
    size_t hidden = 0;
    while (hidden < scan.states()) {
      const std::optional<RecurrentCell> cell = CellFinder(scan).find(hidden);
      if (cell && replace(scan, *cell)) {
        if (is_done_) return;
        hidden = 0;  // others may multiply the states of this one
      } else {
        ++hidden;
      }
    }
  }

 private:
  bool replace(Scan& scan, const RecurrentCell& cell) {
    CellWriter writer(model_, scan, cell);
    const std::vector<size_t> states = writer.states();
    const std::vector<size_t> rest = results_besides(scan, cell, states);
    if (needs_states(scan, cell, rest, states) || !writer.check()) return false;
    const std::vector<Value*> results = writer.write();
    for (size_t i = 0; i < states.size(); ++i) give(scan, states[i], results[1 + i]);
    for (size_t i = scan.states(); i < scan.body.outputs.size(); ++i)
      if (resolved(scan.body.outputs[i]) == cell.next) give(scan, i, results[0]);
    is_done_ = rest.empty();  // the Scan has no uses
    if (is_done_) return true;
    onnx::replace_uses(scan.body, {{cell.next, scan.add_slices(results[0], *cell.next)}});
    scan.drop_states(states);
    eliminate_dead_code(scan.body);  // else the nodes of the cell read states that are gone
    return true;
  }

  // The results of the Scan that do not follow from the operator alone.
  static std::vector<size_t> results_besides(const Scan& scan, const RecurrentCell& cell,
                                             const std::vector<size_t>& states) {
    std::vector<size_t> rest;
    for (size_t i = 0; i < scan.body.outputs.size(); ++i) {
      const bool is_stacked = i >= scan.states() && resolved(scan.body.outputs[i]) == cell.next;
      if (!is_stacked && std::ranges::find(states, i) == states.end()) rest.push_back(i);
    }
    return rest;
  }

  // Returns true if other results of the Scan need more of the cell than its next hidden state.
  static bool needs_states(const Scan& scan, const RecurrentCell& cell,
                           const std::vector<size_t>& rest, const std::vector<size_t>& states) {
    std::unordered_set<const Value*> seen{nullptr, cell.next};
    std::vector<const Value*> open;
    for (const size_t i : rest) open.push_back(scan.body.outputs[i]);
    while (!open.empty()) {
      const Value* value = open.back();
      open.pop_back();
      if (!seen.insert(value).second || value->graph != &scan.body) continue;
      for (const size_t state : states)
        if (value == scan.body.inputs[state]) return true;
      if (!value->producer) continue;
      open.insert(open.end(), value->producer->inputs.begin(), value->producer->inputs.end());
      for (const onnx::Attribute& attribute : value->producer->attributes)
        if (std::get_if<std::shared_ptr<Graph>>(&attribute.value)) return true;
    }
    return false;
  }

  // Replaces a result of the Scan.
  void give(const Scan& scan, size_t i, Value* result) {
    Value* from = scan.node.outputs[i];
    if (!from) return;
    if (i < scan.states() && !scan.steps().known_positive(/*inputs_positive=*/false) &&
        !is_of_zeros(*scan.node.inputs[i])) {
      // Without a step, ONNX Runtime's operators return zeros.
      Value* steps = insert_before(model_, scan.node, "Shape", {scan.node.inputs.back()},
                                   {{"start", 0}, {"end", 1}});
      Value* zero = model_.graph->add_integers(std::vector<int64_t>{0});
      Value* has_steps = insert_before(model_, scan.node, "Greater", {steps, zero});
      result = insert_before(model_, scan.node, "Where", {has_steps, result, scan.node.inputs[i]});
    }
    rewrite_.replace_all(scan.node, from, result);
  }

  onnx::Model& model_;
  Rewrite& rewrite_;
  bool is_done_ = false;
};

}  // namespace

// A recurrent cell in the steps of a Scan becomes LSTM, GRU or RNN, for float32. The steps keep
// what else they compute, of the slices of its results.
int64_t recognize_recurrences(onnx::Model& model) {
  return sweep(model, [&model](Rewrite& rewrite, Graph&, Node& node) {
    if (const auto scan = Scan::of(node)) Recurrences(model, rewrite).replace(*scan);
  });
}

}  // namespace onnx_native::passes
