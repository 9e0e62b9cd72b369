#include "readers/jit/recorder.h"

#include <algorithm>

#include "aten/held_copies.h"
#include "aten/op_facts.h"
#include "aten/refused_call.h"
#include "aten/views.h"
#include "aten/visit.h"

namespace onnx_native::readers::jit {

using aten::Argument;
using aten::Type;
using aten::Value;

namespace {

// Returns the value of the graph that `value` is a view of.
const Value* view_root(const Value* value) {
  while (value->producer) {
    const aten::Node& made = *value->producer;
    if (!made.schema || made.arguments.empty() || !made.arguments[0].as_value() ||
        (!aten::may_share(*made.schema) && !made.schema->is_mutable()))
      break;
    value = made.arguments[0].as_value();
  }
  return value;
}

}  // namespace

std::string_view base_name(std::string_view op) {
  op.remove_prefix(op.find("::") + 2);
  return op.substr(0, op.find('.'));
}

Recorder::Recorder(std::shared_ptr<aten::Graph> graph, aten::TypeInference& types)
    : root_{.graph = std::move(graph)}, frame_(&root_), types_(types) {}

void Recorder::enter(Value* value, Frame& frame) {
  owners_[value] = &frame;
  const auto learn = [&](const Dim& dim) {
    for (std::string& symbol : dim.symbols()) symbols_.try_emplace(std::move(symbol), &frame);
  };
  if (value->type.dim) {
    learn(*value->type.dim);
    frame.sizes.try_emplace(*value->type.dim, value);
  }
  if (!value->type.is_tensor() || !value->type.shape) return;
  for (size_t axis = 0; axis < value->type.shape->size(); ++axis) {
    const Dim& dim = (*value->type.shape)[axis];
    if (dim.is_constant()) continue;
    learn(dim);
    frame.sources.try_emplace(dim, value, static_cast<int64_t>(axis));
  }
}

Value* Recorder::add_input(std::string_view name, Type type) {
  Value* value = graph().add_input(name, std::move(type));
  define(value);
  return value;
}

Value* Recorder::add_constant(std::string_view name, TensorData data, aten::ConstantKind kind) {
  Value* value = root().add_constant(name, std::move(data), kind);
  enter(value, root_);
  if (root().constants.back().data.is_contiguous()) layouts_.set_contiguous(value);
  types_.define(root().constants.back());
  return value;
}

void Recorder::define(Value* value) {
  enter(value, *frame_);
  types_.define(*value);
}

void Recorder::lift(Argument& argument) {
  if (auto* value = std::get_if<Value*>(&argument.value)) {
    *value = lift(*value, *frame_);
  } else if (auto* list = std::get_if<Argument::List>(&argument.value)) {
    for (Argument& item : *list) lift(item);
  }
}

// Records size calls for a tensor before it is reshaped, because later they would see the new
// shape.
void Recorder::will_reshape(const aten::Schema& schema, const std::vector<Argument>& arguments) {
  const bool in_place = aten::changes_geometry(schema);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const aten::SchemaArgument& written = schema.arguments[i];
    if (!written.writes || !(in_place || written.is_out)) continue;
    aten::for_each_value(arguments[i], [&](Value* value) {
      if (in_place) frame_->reshaped.insert(value);
      if (!value->type.shape) return;
      for (const Dim& dim : *value->type.shape) {
        const auto at = frame_->sources.find(dim);
        if (at != frame_->sources.end() && at->second.first == value) find_size(dim, *frame_);
      }
    });
  }
}

// PyTorch has not run the calls of a script. One that it rejects is the program's error.
std::vector<Type> Recorder::infer(const aten::Node& node) {
  if (const auto message = aten::refusal(node)) aten::fail_refused(node, *message);
  try {
    return types_.infer(node);
  } catch (const ExportError& error) {
    if (error.kind() != ErrorKind::internal) throw;
    if (const auto message = aten::likely_refusal(node)) aten::fail_refused(node, *message);
    if (aten::may_run(node)) throw;
    throw ExportError(ErrorKind::invalid_program, error.faults(),
                      "check the dtypes and sizes that you stated for the inputs");
  }
}

std::vector<Value*> Recorder::call(std::string op, std::vector<Argument> arguments,
                                   const Location& location) {
  for (Argument& argument : arguments) lift(argument);
  const std::string name(base_name(op));
  const aten::Schema* schema = aten::find_schema(op);
  if (schema && schema->is_mutable()) {
    will_reshape(*schema, arguments);
    for (Frame* frame = frame_; frame; frame = frame->parent) frame->writes = true;
  }
  aten::Node* node =
      graph().add_node(std::move(op), std::move(arguments), graph().add_location(location));
  std::vector<Type> types = infer(*node);
  const bool writes_out =
      schema && schema->is_mutable() && schema->arguments.back().is_out && types.size() == 1;
  if (const Value* out = writes_out ? node->arguments.back().as_value() : nullptr)
    for (Type& type : types) type.dtype = out->type.dtype;
  const bool several = types.size() > 1 || (node->schema && node->schema->returns.size() == 1 &&
                                            node->schema->returns[0].type.list);
  for (const Type& type : types) {
    Value* output = graph().add_output(node, several ? "getitem" : name, type);
    enter(output, *frame_);
  }
  layouts_.record(*node);
  return node->outputs;
}

Value* Recorder::call(std::string op, std::vector<Argument> arguments, Type type,
                      const Location& location) {
  for (Argument& argument : arguments) lift(argument);
  const std::string name(base_name(op));
  aten::Node* node =
      graph().add_node(std::move(op), std::move(arguments), graph().add_location(location));
  Value* output = graph().add_output(node, name, std::move(type));
  enter(output, *frame_);
  return output;
}

std::pair<Value*, std::optional<Dim>> Recorder::number(std::string op,
                                                       std::vector<Argument> arguments,
                                                       const Location& location) {
  for (Argument& argument : arguments) lift(argument);
  const std::string name(base_name(op));
  aten::Node* node =
      graph().add_node(std::move(op), std::move(arguments), graph().add_location(location));
  Type type = infer(*node).at(0);
  if (type.kind == Type::Kind::unknown)
    fail(ErrorKind::unsupported, "cannot read a number from a tensor of unknown type");
  if (type.dim && knows(*type.dim)) {
    graph().nodes.pop_back();
    return {nullptr, type.dim};
  }
  Value* output = graph().add_output(node, name, std::move(type));
  enter(output, *frame_);
  return {output, std::nullopt};
}

// --- Sub-graphs

Frame Recorder::sub_graph(bool views_from_base) {
  return {.graph = graphs_.emplace_back(std::make_shared<aten::Graph>()),
          .parent = frame_,
          .views_from_base = views_from_base};
}

aten::Node* Recorder::add_control_flow(std::string op, const Location& location) {
  return graph().add_node(std::move(op), {}, graph().add_location(location));
}

Value* Recorder::add_result(aten::Node* node, std::string_view name, Type type) {
  Value* value = graph().add_output(node, name, std::move(type));
  define(value);
  return value;
}

void Recorder::finish(aten::Node* node, std::vector<Argument> arguments,
                      std::initializer_list<const Frame*> bodies) {
  std::vector<aten::Node*>& nodes = graph().nodes;
  std::erase(nodes, node);
  const bool writes = std::ranges::any_of(bodies, &Frame::writes);
  if (node->outputs.empty() && !writes) return;
  node->arguments = std::move(arguments);
  nodes.push_back(node);
  for (const Frame* body : bodies) hold_outside(*node, *body);
  if (!writes) return;
  for (const Frame* body : bodies) {
    for (const auto& [outer, inner] : body->captures) {
      if (outer->type.is_tensor()) types_.forget(*outer);
    }
  }
}

void Recorder::hold(const std::vector<Value*>& copies, const std::vector<Value*>& originals,
                    bool repeated) {
  Argument::List holders, of, of_each_step;
  for (Value* copy : copies) holders.emplace_back(lift(copy));
  for (Value* original : originals) {
    Value* inner = lift(original);
    of.emplace_back(inner);
    frame_->held.push_back(inner);
    const bool is_state = std::ranges::any_of(
        frame_->states, [&](const auto& state) { return state.second == view_root(inner); });
    if (frame_->is_loop && !is_state) of_each_step.emplace_back(inner);
  }
  graph().add_node(std::string(aten::kHoldsCopies), {std::move(holders), std::move(of), repeated,
                                                     frame_->is_loop, std::move(of_each_step)});
}

void Recorder::hold_outside(const aten::Node& call, const Frame& body) {
  std::vector<Value*> originals;
  for (const Value* value : body.held) {
    const Value* root = view_root(value);
    for (const auto* given : {&body.captures, &body.states}) {
      for (const auto& [outer, inner] : *given) {
        if (inner == root && std::ranges::find(originals, outer) == originals.end())
          originals.push_back(outer);
      }
    }
  }
  std::vector<Value*> results;
  std::ranges::copy_if(call.outputs, std::back_inserter(results),
                       [](const Value* result) { return result->type.is_tensor(); });
  if (!originals.empty() && !results.empty()) hold(results, originals, body.is_loop);
}

Value* Recorder::lift(Value* value, Frame& frame) {
  const auto owner = owners_.find(value);
  require(owner != owners_.end(), "%", value->name, " belongs to no graph");
  if (owner->second == &frame) return value;
  if (const auto at = frame.inside.find(value); at != frame.inside.end()) return at->second;
  require(frame.parent, "%", value->name, " is used outside of its graph");
  const aten::Node* producer = value->producer;
  const bool view = producer && producer->schema && value->type.is_tensor() &&
                    (aten::may_share(*producer->schema) || producer->schema->is_mutable()) &&
                    !producer->arguments.empty() && producer->arguments[0].as_value();
  if (view && frame.views_from_base && can_replay(*value, *owner->second))
    return replay(value, frame);
  frame.captures_view = frame.captures_view || view;
  Value* outer = lift(value, *frame.parent);
  if (const auto at = frame.inside.find(outer); at != frame.inside.end()) {
    return frame.inside[value] = at->second;
  }
  Value* inner = frame.graph->add_input(value->name, value->type);
  frame.captures.emplace_back(outer, inner);
  frame.inside[value] = frame.inside[outer] = inner;
  enter(inner, frame);
  layouts_.copy(value, inner);
  types_.define(*inner);
  return inner;
}

// Returns true if no argument of the view's call was reshaped since.
bool Recorder::can_replay(const Value& value, const Frame& frame) const {
  bool same = true;
  for (const Argument& argument : value.producer->arguments) {
    aten::for_each_value(argument,
                         [&](const Value* of) { same = same && !frame.reshaped.contains(of); });
  }
  return same;
}

// Repeats the call that made a view. The result of a mutable call is its first argument.
Value* Recorder::replay(Value* value, Frame& frame) {
  const aten::Node& made = *value->producer;
  if (made.schema->is_mutable()) {
    return frame.inside[value] = lift(made.arguments[0].as_value(), frame);
  }
  std::vector<Argument> arguments = made.arguments;
  Frame* current = std::exchange(frame_, &frame);
  for (Argument& argument : arguments) lift(argument);
  frame_ = current;
  aten::Node* node =
      frame.graph->add_node(made.op, std::move(arguments),
                            made.location ? frame.graph->add_location(*made.location) : nullptr);
  infer(*node);
  for (const Value* output : made.outputs) {
    Value* again = frame.graph->add_output(node, output->name, output->type);
    enter(again, frame);
    frame.inside[output] = again;
  }
  layouts_.record(*node);
  return frame.inside[value];
}

Recorder::Mark Recorder::mark() const {
  return {.nodes = frame_->graph->nodes.size(),
          .frame = *frame_,
          .inputs = frame_->graph->inputs.size()};
}

void Recorder::restore(Mark mark) {
  *frame_ = std::move(mark.frame);
  frame_->graph->nodes.resize(mark.nodes);
  frame_->graph->inputs.resize(mark.inputs);
}

// --- Sizes

bool Recorder::is_outside(const Value* value) const {
  const Frame* frame = frame_;
  while (frame && frame != owners_.at(value)) frame = frame->parent;
  return frame != nullptr;
}

bool Recorder::knows(const Dim& dim) const {
  return std::ranges::all_of(dim.symbols(), [this](const std::string& symbol) {
    const auto at = symbols_.find(symbol);
    if (at == symbols_.end()) return false;
    const Frame* frame = frame_;
    while (frame && frame != at->second) frame = frame->parent;
    return frame != nullptr;
  });
}

Value* Recorder::add_size_call(Frame& frame, std::string op, std::vector<Argument> arguments,
                               const Dim& result) {
  const std::string name(base_name(op));
  aten::Node* node = frame.graph->add_node(std::move(op), std::move(arguments), nullptr);
  Value* value = frame.graph->add_output(node, name, Type::sym_int(result));
  enter(value, frame);
  frame.sizes[result] = value;
  return value;
}

// Returns the value of a size in this frame or an outer one, or nullptr.
Value* Recorder::find_size(const Dim& dim, Frame& frame) {
  if (const auto at = frame.sizes.find(dim); at != frame.sizes.end()) return at->second;
  if (const auto at = frame.sources.find(dim); at != frame.sources.end()) {
    return add_size_call(frame, "aten::sym_size.int", {at->second.first, at->second.second}, dim);
  }
  return frame.parent ? find_size(dim, *frame.parent) : nullptr;
}

std::optional<Argument> Recorder::known_size(const Dim& dim) {
  Value* found = find_size(dim, *frame_);
  if (!found) return std::nullopt;
  return frame_->sizes[dim] = lift(found);
}

Value* Recorder::size_call(std::string op, std::vector<Argument> arguments, const Dim& result) {
  if (const auto at = frame_->sizes.find(result); at != frame_->sizes.end()) return at->second;
  return add_size_call(*frame_, std::move(op), std::move(arguments), result);
}

// Computes a symbol from a known size that is linear in it.
Argument Recorder::symbol_size(const Dim& symbol) {
  for (const Frame* frame = frame_; frame; frame = frame->parent) {
    for (const auto& [dim, source] : frame->sources) {
      const std::vector<Dim::Term>& terms = dim.terms();
      if (terms.empty() || terms.size() > 2 || dim.symbols().size() != 1) continue;
      if (!(Dim::from_terms({{1, terms[0].factors}}) == symbol)) continue;
      if (terms.size() == 2 && !terms[1].factors.empty()) continue;
      const int64_t constant = terms.size() == 2 ? terms[1].coefficient : 0;
      Argument multiple = size(dim);
      if (constant != 0) multiple = size_call("python::add", {multiple, -constant}, dim - constant);
      if (terms[0].coefficient == 1) return multiple;
      return size_call("python::floordiv", {multiple, terms[0].coefficient}, symbol);
    }
  }
  fail(ErrorKind::internal, "no tensor has the size ", symbol.str());
}

Argument Recorder::broadcast_size(const Dim::Factor& factor) {
  aten::Node* is_one =
      frame_->graph->add_node("python::eq", {size(factor.operands[0]), int64_t{1}}, nullptr);
  Type type;
  type.kind = Type::Kind::sym_bool;
  Value* condition = frame_->graph->add_output(is_one, "eq", type);
  enter(condition, *frame_);
  return size_call("python::sym_ite",
                   {condition, size(factor.operands[1]), size(factor.operands[0])},
                   Dim::of(factor));
}

}  // namespace onnx_native::readers::jit
