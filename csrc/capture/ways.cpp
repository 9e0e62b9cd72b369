#include "capture/ways.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "aten/drop_unused.h"
#include "aten/sizes.h"
#include "aten/visit.h"
#include "base/error.h"
#include "capture/joined_sizes.h"
#include "capture/way_calls.h"
#include "capture/way_sizes.h"

namespace onnx_native::capture {
namespace {

using aten::Argument;
using aten::Graph;
using aten::Node;
using aten::Type;
using aten::Value;

constexpr size_t kYes = 0, kNo = 1;
constexpr int kBoth = -1;  // the segment of what both ways have

// The values of a way, by those of its graph.
using Values = std::unordered_map<const Value*, Value*>;

// Finds what two ways share. The calls are in one order: calls of both ways, and segments of calls
// that only one way has. A segment becomes a cond, whose results later calls of both ways take.
class Joiner {
 public:
  Joiner(const Guard& guard, const Graph& yes, const Graph& no)
      : guard_(guard),
        graphs_{&yes, &no},
        sizes_(guard),
        renaming_(no, yes),
        constants_(shared_constants(no, yes)),
        items_(aligned(yes, no)),
        is_apart_(items_.size(), false) {}

  // Returns true if all calls are shared.
  bool is_same() {
    analyze();
    return !is_stale_ && selections_.empty();
  }

  std::unique_ptr<Graph> run() {
    // Each time, more of the calls are apart.
    do analyze();
    while (is_stale_);
    if (selections_.empty() && !changes_types_) return nullptr;
    return written();
  }

 private:
  // Consecutive items that are apart.
  struct Segment {
    size_t first = 0, end = 0;
  };
  // A value of each way, of which the cond of a segment returns one.
  struct Selection {
    std::array<Value*, 2> of;
    int segment;
    Type type;
  };

  // Analysis.

  void analyze() {
    is_stale_ = changes_types_ = false;
    renaming_.restart();
    for (const size_t way : {kYes, kNo})
      segment_of_[way].clear(), segment_of_symbol_[way].clear(), defined_[way].clear();
    same_.clear(), types_.clear(), segments_.clear(), selections_.clear(), selected_.clear();
    share_inputs();
    for (now_ = 0; now_ < items_.size() && !is_stale_; ++now_) {
      const WayItem& item = items_[now_];
      if (item[kYes] && item[kNo] && !is_apart_[now_]) {
        if (share(*item[kYes], *item[kNo])) continue;
        is_apart_[now_] = true;
      }
      add_apart(item);
    }
    if (is_stale_) return;
    const Graph& yes = *graphs_[kYes];
    const Graph& no = *graphs_[kNo];
    if (yes.outputs.size() != no.outputs.size())
      fail(ErrorKind::unsupported, "the ways return different numbers of results");
    for (size_t i = 0; i < yes.outputs.size(); ++i) share_result(yes.outputs[i], no.outputs[i]);
    for (const auto& [a, b] : mutations()) share_result(a, b);
  }

  void share_inputs() {
    const Graph& yes = *graphs_[kYes];
    const Graph& no = *graphs_[kNo];
    if (yes.inputs.size() != no.inputs.size() ||
        yes.scattered_inputs.size() != no.scattered_inputs.size())
      fail(ErrorKind::unsupported, "the ways have different inputs");
    for (size_t i = 0; i < yes.inputs.size(); ++i) {
      // A way that is taken for one size only may have it as a number.
      const std::optional<Type> type = joined(yes.inputs[i]->type, no.inputs[i]->type);
      if (!type) fail(ErrorKind::unsupported, "the ways have inputs of different types");
      types_[yes.inputs[i]] = *type;
      same_[no.inputs[i]] = yes.inputs[i];
      note_symbols(kYes, yes.inputs[i]->type, kBoth);
      note_symbols(kNo, no.inputs[i]->type, kBoth);
    }
    same_.insert(constants_.begin(), constants_.end());
  }

  // Returns the results of both ways that are the new contents of a buffer or an input.
  std::vector<std::pair<Argument, Argument>> mutations() const {
    std::vector<std::pair<Argument, Argument>> pairs;
    const auto& yes = graphs_[kYes]->mutations;
    const auto& no = graphs_[kNo]->mutations;
    const bool same = std::ranges::equal(yes, no, [](const auto& a, const auto& b) {
      return a.target == b.target && a.is_buffer == b.is_buffer;
    });
    if (!same) fail(ErrorKind::unsupported, "the ways write to different buffers or inputs");
    for (size_t i = 0; i < yes.size(); ++i) pairs.emplace_back(yes[i].value, no[i].value);
    return pairs;
  }

  int segment_of(size_t way, const Value* value) const {
    const auto at = segment_of_[way].find(value);
    return at == segment_of_[way].end() ? kBoth : at->second;
  }

  // Returns the segment whose calls make a size that depends on data.
  int segment_of(size_t way, const Dim& size) const {
    int last = kBoth;
    for (const std::string& name : size.symbols()) {
      const auto at = segment_of_symbol_[way].find(name);
      if (at != segment_of_symbol_[way].end()) last = std::max(last, at->second);
    }
    return last;
  }

  // Notes the segment of the call that makes a size first.
  void note_symbols(size_t way, const Type& type, int segment) {
    aten::for_each_size(type, [&](const Dim& size) {
      if (size.is_constant()) return;
      for (std::string& name : size.symbols())
        segment_of_symbol_[way].try_emplace(std::move(name), segment);
    });
  }

  // Makes both ways share a call; returns false if they cannot.
  bool share(const Node& yes, const Node& no) {
    const size_t before = selections_.size();
    const bool changed = changes_types_;
    const auto give_up = [&] {
      for (size_t i = before; i < selections_.size(); ++i) selected_.erase(selections_[i].of);
      selections_.resize(before);
      changes_types_ = changed;
      return false;
    };
    for (size_t i = 0; i < yes.arguments.size(); ++i) {
      if (!joins(yes.arguments[i], no.arguments[i])) return give_up();
      if (is_stale_) return true;
    }
    std::vector<Type> types;
    for (size_t i = 0; i < yes.outputs.size(); ++i) {
      renaming_.meet(yes.outputs[i]->type, no.outputs[i]->type);
      const auto type = joined(yes.outputs[i]->type, renaming_.of(no.outputs[i]->type));
      if (!type) return give_up();
      types.push_back(*type);
    }
    for (size_t i = 0; i < yes.outputs.size(); ++i) {
      same_[no.outputs[i]] = yes.outputs[i];
      defined_[kYes][yes.outputs[i]] = defined_[kNo][no.outputs[i]] = now_ + 1;
      note_symbols(kYes, yes.outputs[i]->type, kBoth);
      note_symbols(kNo, no.outputs[i]->type, kBoth);
      types_[yes.outputs[i]] = std::move(types[i]);
    }
    return true;
  }

  // Adds the calls of an item to a segment.
  void add_apart(const WayItem& item) {
    if (segments_.empty() || segments_.back().end != now_) segments_.push_back({now_, now_});
    segments_.back().end = now_ + 1;
    const int segment = static_cast<int>(segments_.size()) - 1;
    for (const size_t way : {kYes, kNo}) {
      if (!item[way]) continue;
      for (const Argument& argument : item[way]->arguments)
        aten::for_each_value(argument, [&](Value* value) {
          const int from =
              as_size(value) ? segment_of(way, *value->type.dim) : segment_of(way, value);
          if (from != kBoth && from != segment) put_apart(from);
        });
      for (const Value* output : item[way]->outputs) {
        segment_of_[way][output] = segment;
        note_symbols(way, output->type, segment);
      }
      if (way == kNo) renaming_.keep(*item[way]);
    }
  }

  // Makes one segment of all items from a segment to the present one.
  void put_apart(int from) {
    const size_t first = segments_[static_cast<size_t>(from)].first;
    std::fill(is_apart_.begin() + static_cast<std::ptrdiff_t>(first),
              is_apart_.begin() + static_cast<std::ptrdiff_t>(std::min(now_ + 1, items_.size())),
              true);
    is_stale_ = true;
  }

  bool joins(const Argument& yes, const Argument& no) {
    const std::optional<Dim> size = as_size(yes);
    const std::optional<Dim> other = as_size(no);
    if (size && other) {
      const std::optional<Dim> both = sizes_.join(*size, renaming_.of(*other));
      if (both && !(*both == *size)) changes_types_ = true;
      return both.has_value();
    }
    if (yes.value.index() != no.value.index()) return false;
    if (Value* value = yes.as_value()) return selects(value, no.as_value());
    const auto* list = yes.get<Argument::List>();
    if (!list) return is_same_literal(yes, no);
    const auto* others = no.get<Argument::List>();
    return std::ranges::equal(*list, *others,
                              [this](const Argument& a, const Argument& b) { return joins(a, b); });
  }

  // Returns true if both ways have the same value, or if a cond can return one of them.
  bool selects(Value* yes, Value* no) {
    if (is_same(yes, no) || selected_.contains({yes, no})) return true;
    const std::optional<Type> type = joined(yes->type, renaming_.of(no->type));
    if (!type || !type->is_tensor()) return false;
    const int of_yes = segment_of(kYes, yes), of_no = segment_of(kNo, no);
    const int segment = std::max(of_yes, of_no);
    if (segment == kBoth) return false;
    if (of_yes != of_no && of_yes != kBoth && of_no != kBoth) {
      put_apart(std::min(of_yes, of_no));
      return true;
    }
    const size_t first = segments_[static_cast<size_t>(segment)].first;
    if (of_yes == kBoth && place(kYes, yes) > first) return false;
    if (of_no == kBoth && place(kNo, no) > first) return false;
    select(yes, no, segment, *type);
    return true;
  }

  void select(Value* yes, Value* no, int segment, Type type) {
    selected_[{yes, no}] = nullptr;
    selections_.push_back({{yes, no}, segment, std::move(type)});
  }

  // Returns the number of items that come before a value of both ways, with its own.
  size_t place(size_t way, const Value* value) const {
    const auto at = defined_[way].find(value);
    return at == defined_[way].end() ? 0 : at->second;
  }

  bool is_same(const Value* yes, const Value* no) const {
    const auto at = same_.find(no);
    return at != same_.end() && at->second == yes;
  }

  std::optional<Type> joined(const Type& yes, const Type& no) {
    if (yes.kind != no.kind || yes.dtype != no.dtype || yes.quantized != no.quantized ||
        yes.shape.has_value() != no.shape.has_value() || yes.dim.has_value() != no.dim.has_value())
      return std::nullopt;
    Type type = yes;
    if (yes.shape) type.shape = sizes_.join(*yes.shape, *no.shape);
    if (yes.dim) type.dim = sizes_.join(*yes.dim, *no.dim);
    if (type.shape.has_value() != yes.shape.has_value() ||
        type.dim.has_value() != yes.dim.has_value())
      return std::nullopt;
    if (type.shape != yes.shape || type.dim != yes.dim) changes_types_ = true;
    return type;
  }

  // Joins results of the program. A size in which they differ depends on data.
  void share_result(const Argument& yes, const Argument& no) {
    if (is_stale_) return;
    Value* of_yes = yes.as_value();
    Value* of_no = no.as_value();
    if (!of_yes || !of_no || as_size(of_yes)) {
      if (!joins(yes, no)) fail(ErrorKind::unsupported, "the ways return different numbers");
      return;
    }
    if (selects(of_yes, of_no)) return;
    const Type other = renaming_.of(of_no->type);
    Type type = of_yes->type;
    if (!type.is_tensor() || type.dtype != other.dtype || !type.shape || !other.shape ||
        type.shape->size() != other.shape->size())
      fail(ErrorKind::unsupported, "the ways return tensors of different types");
    for (size_t axis = 0; axis < type.shape->size(); ++axis) {
      const std::optional<Dim> size = sizes_.join((*type.shape)[axis], (*other.shape)[axis]);
      (*type.shape)[axis] = size ? *size : renaming_.fresh();
    }
    // The cond comes last.
    for (const auto& [way, value] : {std::pair{kYes, of_yes}, std::pair{kNo, of_no}}) {
      const int from = segment_of(way, value);
      if (from != kBoth && from + 1 != static_cast<int>(segments_.size())) return put_apart(from);
    }
    if (segments_.empty() || segments_.back().end != now_) {
      for (const auto& [way, value] : {std::pair{kYes, of_yes}, std::pair{kNo, of_no}})
        if (const int from = segment_of(way, value); from != kBoth) return put_apart(from);
      segments_.push_back({now_, now_});
    }
    select(of_yes, of_no, static_cast<int>(segments_.size()) - 1, std::move(type));
  }

  // Writing.

  std::unique_ptr<Graph> written() {
    graph_ = std::make_unique<Graph>();
    JoinedSizes sizes(*graph_);
    main_ = &sizes;
    write_inputs();
    size_t segment = 0;
    for (size_t i = 0; i <= items_.size(); ++i) {
      if (segment < segments_.size() && segments_[segment].end == i) write_cond(segment++);
      if (i == items_.size()) break;
      if (items_[i][kYes] && items_[i][kNo] && !is_apart_[i])
        write_call(*items_[i][kYes], *items_[i][kNo]);
    }
    const Graph& yes = *graphs_[kYes];
    const Graph& no = *graphs_[kNo];
    for (size_t i = 0; i < yes.outputs.size(); ++i)
      graph_->outputs.push_back(both(yes.outputs[i], no.outputs[i]));
    const auto pairs = mutations();
    for (size_t i = 0; i < pairs.size(); ++i)
      graph_->mutations.push_back({yes.mutations[i].target, yes.mutations[i].is_buffer,
                                   both(pairs[i].first, pairs[i].second).as_value()});
    aten::drop_unused(*graph_);
    return std::move(graph_);
  }

  void write_inputs() {
    const Graph& yes = *graphs_[kYes];
    const Graph& no = *graphs_[kNo];
    for (size_t i = 0; i < yes.inputs.size(); ++i) {
      Value* input = graph_->add_input(yes.inputs[i]->name, types_.at(yes.inputs[i]));
      values_[kYes][yes.inputs[i]] = values_[kNo][no.inputs[i]] = input;
      main_->note(input);
    }
    for (const aten::ScatteredInput& each : yes.scattered_inputs)
      graph_->scattered_inputs.push_back({values_[kYes].at(each.value), {}});
    for (size_t i = 0; i < yes.scattered_inputs.size(); ++i)
      graph_->scattered_inputs[i].strides =
          joined_strides(yes.scattered_inputs[i].strides, no.scattered_inputs[i].strides);
    for (const aten::Constant& each : yes.constants)
      values_[kYes][each.value] = graph_->add_constant(each.value->name, each.data, each.kind);
    for (const aten::Constant& each : no.constants) {
      const auto known = same_.find(each.value);
      values_[kNo][each.value] = known != same_.end()
                                     ? values_[kYes].at(known->second)
                                     : graph_->add_constant(each.value->name, each.data, each.kind);
    }
  }

  using Strides = std::vector<std::optional<Dim>>;
  Strides joined_strides(const Strides& yes, const Strides& no) const {
    Strides strides;
    for (size_t axis = 0; axis < yes.size(); ++axis)
      strides.push_back(yes[axis] && no[axis] ? sizes_.join(*yes[axis], *no[axis]) : std::nullopt);
    return strides;
  }

  // Returns an argument of a call that both ways have.
  Argument both(const Argument& yes, const Argument& no) {
    if (const std::optional<Dim> size = as_size(yes))
      return main_->size(*sizes_.join(*size, renaming_.of(*as_size(no))));
    if (Value* value = yes.as_value()) {
      const auto at = selected_.find({value, no.as_value()});
      return at == selected_.end() ? values_[kYes].at(value) : at->second;
    }
    const auto* list = yes.get<Argument::List>();
    if (!list) return yes;
    Argument::List result;
    for (size_t i = 0; i < list->size(); ++i)
      result.push_back(both((*list)[i], (*no.get<Argument::List>())[i]));
    return result;
  }

  void write_call(const Node& yes, const Node& no) {
    main_->set_location(copied(yes.location));
    std::vector<Argument> arguments;
    for (size_t i = 0; i < yes.arguments.size(); ++i)
      arguments.push_back(both(yes.arguments[i], no.arguments[i]));
    Node* node = graph_->add_node(yes.op, std::move(arguments), copied(yes.location));
    for (size_t i = 0; i < yes.outputs.size(); ++i) {
      Value* made = graph_->add_output(node, yes.outputs[i]->name, types_.at(yes.outputs[i]));
      values_[kYes][yes.outputs[i]] = values_[kNo][no.outputs[i]] = made;
      main_->note(made);
    }
  }

  const Location* copied(const Location* location) {
    if (!location) return nullptr;
    const auto [at, inserted] = locations_.try_emplace(location, nullptr);
    if (inserted) at->second = graph_->add_location(*location);
    return at->second;
  }

  void write_cond(size_t segment) {
    std::vector<size_t> results;
    for (size_t i = 0; i < selections_.size(); ++i) {
      if (selections_[i].segment == static_cast<int>(segment)) results.push_back(i);
    }
    if (results.empty()) return;
    const Location* location = nullptr;
    for (size_t i = segments_[segment].first; i < segments_[segment].end && !location; ++i) {
      const Node* node = items_[i][kYes] ? items_[i][kYes] : items_[i][kNo];
      location = copied(node->location);
    }
    main_->set_location(location);
    if (!condition_) condition_ = condition();
    std::array<WayBody, 2> bodies{WayBody(*main_, values_[kYes], nullptr),
                                  WayBody(*main_, values_[kNo], &renaming_)};
    for (const size_t way : {kYes, kNo}) {
      std::vector<const Node*> calls;
      for (size_t i = segments_[segment].first; i < segments_[segment].end; ++i)
        if (items_[i][way]) calls.push_back(items_[i][way]);
      std::vector<const Value*> returned;
      for (const size_t i : results) returned.push_back(selections_[i].of[way]);
      bodies[way].write(calls, returned);
    }
    std::vector<Value*> taken;
    std::unordered_set<const Value*> seen;
    for (const WayBody& body : bodies)
      for (Value* value : body.taken())
        if (seen.insert(value).second) taken.push_back(value);
    Argument::List operands(taken.begin(), taken.end());
    std::shared_ptr<Graph> yes = bodies[kYes].end(taken), no = bodies[kNo].end(taken);
    Node* node = graph_->add_node("higher_order::cond",
                                  {condition_, std::move(yes), std::move(no), std::move(operands)},
                                  location);
    for (const size_t i : results) {
      Selection& selection = selections_[i];
      Value* made = graph_->add_output(node, selection.of[kYes]->name, selection.type);
      selected_[selection.of] = made;
      main_->note(made);
    }
  }

  Value* condition() {
    if (guard_.condition) return number(*guard_.condition).as_value();
    const auto [rest, constant] = split(guard_.difference);
    return main_->number(std::string(operator_of(guard_.relation)), {main_->size(rest), -constant},
                         /*is_condition=*/true);
  }

  // Returns a number of the condition as an argument.
  Argument number(const Number& number) {
    if (const auto* known = std::get_if<double>(&number.is)) return *known;
    if (const auto* known = std::get_if<bool>(&number.is)) return *known;
    if (const auto* dim = std::get_if<Dim>(&number.is)) return main_->size(*dim);
    const auto* call = std::get_if<Number::Call>(&number.is);
    if (!call) fail(ErrorKind::unsupported, "the ways depend on a number that is read from data");
    std::vector<Argument> operands;
    for (const NumberPtr& operand : call->operands) operands.push_back(this->number(*operand));
    return main_->number(call->op, std::move(operands), is_condition(call->op));
  }

  const Guard& guard_;
  std::array<const Graph*, 2> graphs_;
  WaySizes sizes_;
  Renaming renaming_;
  std::unordered_map<const Value*, const Value*> constants_;  // by the value of the second way
  std::vector<WayItem> items_;
  std::vector<bool> is_apart_;  // items of which each way has its own call

  // An analysis.
  size_t now_ = 0;
  bool is_stale_ = false;
  bool changes_types_ = false;  // a type is another one than that of the first way
  std::array<std::unordered_map<const Value*, int>, 2> segment_of_;
  std::array<std::unordered_map<std::string, int>, 2> segment_of_symbol_;
  std::array<std::unordered_map<const Value*, size_t>, 2> defined_;
  std::unordered_map<const Value*, const Value*> same_;  // by the value of the second way
  std::unordered_map<const Value*, Type> types_;         // by the value of the first way
  std::vector<Segment> segments_;
  std::vector<Selection> selections_;
  std::map<std::array<Value*, 2>, Value*> selected_;  // the results of conds

  std::unique_ptr<Graph> graph_;
  JoinedSizes* main_ = nullptr;
  std::array<Values, 2> values_;
  std::unordered_map<const Location*, const Location*> locations_;
  Value* condition_ = nullptr;
};

}  // namespace

std::unique_ptr<Graph> join_ways(const Guard& guard, const Graph& yes, const Graph& no) {
  return Joiner(guard, yes, no).run();
}

bool are_same_ways(const Guard& guard, const Graph& yes, const Graph& no) {
  return Joiner(guard, yes, no).is_same();
}

}  // namespace onnx_native::capture
