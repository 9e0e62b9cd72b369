#include "aten/body_aliases.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "aten/bodies.h"
#include "aten/views.h"

namespace onnx_native::aten {
namespace {

// Returns the tensor that a call's result is or may be a view of; nullptr if it makes its results.
const Value* viewed(const Node& node) {
  if (!node.schema || node.arguments.empty()) return nullptr;
  const bool writes = node.schema->is_mutable();
  if (!writes && !may_share(*node.schema)) return nullptr;
  const bool to_out = writes && node.schema->arguments.back().is_out;
  return (to_out ? node.arguments.back() : node.arguments[0]).as_value();
}

bool is_tensor(const Value* value) { return value && value->type.is_tensor(); }

// Returns the position of a value among the graph's inputs.
std::optional<size_t> input_position(const Graph& graph, const Value* value) {
  const auto at = std::ranges::find(graph.inputs, value);
  if (at == graph.inputs.end()) return std::nullopt;
  return static_cast<size_t>(at - graph.inputs.begin());
}

std::vector<const Value*> first_outputs(const Graph& graph, size_t count) {
  std::vector<const Value*> values;
  for (size_t i = 0; i < count; ++i) values.push_back(graph.outputs[i].as_value());
  return values;
}

}  // namespace

// Finds tensors of a graph that may share memory.
class AliasFinder::Sharing {
 public:
  explicit Sharing(AliasFinder& finder) : finder_(finder) {}
  Sharing(AliasFinder& finder, const Graph& graph, const BodyAliases::Positions& entry)
      : finder_(finder) {
    for (const auto& [a, b] : entry) entry_.emplace_back(graph.inputs[a], graph.inputs[b]);
  }

  // Returns the positions of tensors that may share memory, the larger one first.
  std::set<std::pair<size_t, size_t>> among(const std::vector<const Value*>& values) const {
    std::unordered_map<const Value*, std::vector<size_t>> by_root;
    for (size_t i = 0; i < values.size(); ++i) {
      if (!is_tensor(values[i])) continue;
      for (const Value* root : finder_.roots(values[i])) by_root[root].push_back(i);
    }
    std::set<std::pair<size_t, size_t>> found;
    const auto add = [&found](const std::vector<size_t>& some, const std::vector<size_t>& others) {
      for (const size_t a : some) {
        for (const size_t b : others) {
          if (a != b) found.emplace(std::max(a, b), std::min(a, b));
        }
      }
    };
    for (const auto& [root, positions] : by_root) add(positions, positions);
    for (const auto& [a, b] : entry_) {
      if (by_root.contains(a) && by_root.contains(b)) add(by_root.at(a), by_root.at(b));
    }
    return found;
  }

 private:
  AliasFinder& finder_;
  std::vector<std::pair<const Value*, const Value*>> entry_;
};

// Finds what the states of a loop may share in any iteration: with each other and with the
// operands, which are the initial states and the captures.
class AliasFinder::LoopStates {
 public:
  LoopStates(AliasFinder& finder, const Node& loop, const Sharing& shares)
      : finder_(finder), body_(body(loop, kBody)), states_(operands(loop, kStates).size()) {
    for (const size_t list : {kStates, kCaptures}) {
      for (const Argument& given : operands(loop, list)) operands_.push_back(given.as_value());
    }
    const size_t count = operands_.size();
    same_.assign(count, std::vector<bool>(count));
    for (size_t i = 0; i < count; ++i) same_[i][i] = is_tensor(operands_[i]);
    for (const auto& [a, b] : shares.among({operands_.begin(), operands_.end()}))
      same_[a][b] = same_[b][a] = true;
    for (size_t state = 0; state < states_; ++state) find_sources(state);
    always_ = {same_, same_};  // an initial state, before the first iteration
    always_.with_operands.resize(states_);
    always_.with_states.resize(states_);
    while (join(always_, after_step(always_))) {
    }
    at_end_ = makes_a_step(loop) ? after_step(always_) : always_;
  }

  BodyAliases result(const Node& loop) const {
    BodyAliases result;
    for (size_t i = 0; i < states_; ++i) {
      if (!is_tensor(loop.outputs[i])) continue;
      for (size_t k = 0; k < operands_.size(); ++k) {
        if (at_end_.with_operands[i][k]) result.passed.emplace_back(loop.outputs[i], operands_[k]);
        if (always_.with_operands[i][k]) result.entered.emplace_back(i, k);
      }
      for (size_t j = 0; j < i; ++j) {
        if (at_end_.with_states[i][j])
          result.together.emplace_back(loop.outputs[i], loop.outputs[j]);
      }
    }
    for (size_t a = 0; a < operands_.size(); ++a) {
      for (size_t b = 0; b < a; ++b) {
        if (share(always_, a, b)) result.inputs.emplace_back(kBeforeStates + a, kBeforeStates + b);
      }
    }
    return result;
  }

 private:
  using Relation = std::vector<std::vector<bool>>;
  struct Relations {
    Relation with_operands, with_states;
  };
  // The memory of a state after an iteration.
  struct Source {
    const Value* value;           // as the body names it
    std::optional<size_t> input;  // its position among states and captures
  };

  void find_sources(size_t state) {
    std::vector<Source>& sources = sources_.emplace_back();
    const Value* output = body_.outputs[kBeforeStates + state].as_value();
    if (!is_tensor(output)) return;
    for (const Value* root : finder_.roots(output)) {
      const auto at = input_position(body_, root);
      if (at && *at < kBeforeStates) continue;
      sources.push_back({root, at ? std::optional(*at - kBeforeStates) : std::nullopt});
    }
  }

  // Two inputs of the body, counted from its states.
  bool share(const Relations& now, size_t a, size_t b) const {
    if (a == b) return true;
    if (a < states_) return b < states_ ? now.with_states[a][b] : now.with_operands[a][b];
    return b < states_ ? now.with_operands[b][a] : same_[a][b];
  }

  Relations after_step(const Relations& now) const {
    Relations after{Relation(states_, std::vector<bool>(operands_.size())),
                    Relation(states_, std::vector<bool>(states_))};
    for (size_t i = 0; i < states_; ++i) {
      for (const Source& source : sources_[i]) {
        if (!source.input) continue;
        for (size_t k = 0; k < operands_.size(); ++k) {
          const bool shares = *source.input < states_ ? now.with_operands[*source.input][k]
                                                      : bool{same_[*source.input][k]};
          if (shares) after.with_operands[i][k] = true;
        }
      }
      for (size_t j = 0; j < i; ++j) {
        const bool shares = std::ranges::any_of(sources_[i], [&](const Source& a) {
          return std::ranges::any_of(sources_[j], [&](const Source& b) {
            return a.value == b.value || (a.input && b.input && share(now, *a.input, *b.input));
          });
        });
        after.with_states[i][j] = after.with_states[j][i] = shares;
      }
    }
    return after;
  }

  // Returns true if this adds a pair.
  static bool join(Relations& all, const Relations& more) {
    bool grew = false;
    const auto add = [&grew](Relation& to, const Relation& from) {
      for (size_t i = 0; i < to.size(); ++i) {
        for (size_t k = 0; k < to[i].size(); ++k) {
          if (!from[i][k] || to[i][k]) continue;
          to[i][k] = true;
          grew = true;
        }
      }
    };
    add(all.with_operands, more.with_operands);
    add(all.with_states, more.with_states);
    return grew;
  }

  AliasFinder& finder_;
  const Graph& body_;
  size_t states_;
  std::vector<Value*> operands_;  // nullptr: a number
  Relation same_;                 // of the operands
  std::vector<std::vector<Source>> sources_;
  Relations always_, at_end_;  // before or after any iteration; after the last one
};

const AliasFinder::Roots& AliasFinder::roots(const Value* value) {
  const Value* last = value;
  while (last->producer && !roots_.contains(last)) {
    const Value* base = viewed(*last->producer);
    if (!base) break;
    last = base;
  }
  if (const auto at = roots_.find(last); at != roots_.end()) return at->second;
  Roots found = last->producer && !last->producer->schema ? roots_of_result(last) : Roots{last};
  return roots_.try_emplace(last, std::move(found)).first->second;
}

// The roots of a result of a branch or loop: its own memory, that of operands, and that of results
// which may share its own.
AliasFinder::Roots AliasFinder::roots_of_result(const Value* result) {
  const Node& call = *result->producer;
  if (!calls_.contains(&call)) {
    BodyAliases aliases = of(call, Sharing(*this));
    calls_.emplace(&call, std::move(aliases));
  }
  const BodyAliases& aliases = calls_.at(&call);
  Roots found{result};
  for (const auto* pairs : {&aliases.together, &aliases.same}) {
    for (const auto& [one, other] : *pairs) {
      if (one == result) found.push_back(other);
      if (other == result) found.push_back(one);
    }
  }
  for (const auto& [passed, operand] : aliases.passed) {
    if (passed != result) continue;
    const Roots& more = roots(operand);
    found.insert(found.end(), more.begin(), more.end());
  }
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

BodyAliases AliasFinder::of_cond(const Node& cond, const Sharing& shares) {
  BodyAliases result;
  std::vector<const Value*> given;
  for (const Argument& operand : operands(cond, 3)) given.push_back(operand.as_value());
  const auto inputs = shares.among(given);
  result.inputs.assign(inputs.begin(), inputs.end());
  std::set<std::pair<size_t, size_t>> together;
  for (const size_t i : {1, 2}) {
    const Graph& branch = body(cond, i);
    const std::vector<const Value*> outputs = first_outputs(branch, cond.outputs.size());
    for (size_t r = 0; r < outputs.size(); ++r) {
      if (!is_tensor(outputs[r])) continue;
      for (const Value* root : roots(outputs[r])) {
        const auto at = input_position(branch, root);
        if (at && is_tensor(given[*at]))
          result.passed.emplace_back(cond.outputs[r], operands(cond, 3)[*at].as_value());
      }
    }
    together.merge(Sharing(*this, branch, result.inputs).among(outputs));
  }
  for (const auto& [a, b] : together) {
    const bool same = std::ranges::all_of(std::array{1, 2}, [&, a = a, b = b](size_t i) {
      const Graph& branch = body(cond, i);
      return branch.outputs[a].as_value() == branch.outputs[b].as_value();
    });
    (same ? result.same : result.together).emplace_back(cond.outputs[a], cond.outputs[b]);
  }
  return result;
}

BodyAliases AliasFinder::of_loop(const Node& loop, const Sharing& shares) {
  return LoopStates(*this, loop, shares).result(loop);
}

BodyAliases AliasFinder::of(const Node& call, const Sharing& shares) {
  if (is_cond(call)) return of_cond(call, shares);
  if (is_loop(call)) return of_loop(call, shares);
  return {};
}

BodyAliases AliasFinder::find(const Node& call, const Graph& graph,
                              const BodyAliases::Positions& entry) {
  return of(call, Sharing(*this, graph, entry));
}

}  // namespace onnx_native::aten
