#include <algorithm>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "aten/asserted_counts.h"
#include "aten/bodies.h"
#include "aten/body_aliases.h"
#include "aten/drop_unused.h"
#include "aten/fault.h"
#include "aten/functional_schema.h"
#include "aten/graph.h"
#include "aten/held_copies.h"
#include "aten/hidden_writes.h"
#include "aten/layouts.h"
#include "aten/memory.h"
#include "aten/op_facts.h"
#include "aten/overlapping_writes.h"
#include "aten/resize.h"
#include "aten/separate_views.h"
#include "aten/unwritable.h"
#include "aten/views.h"
#include "aten/visit.h"
#include "aten/written_operands.h"

namespace onnx_native::aten {
namespace {

// Keeps what is known of the calls with bodies in all graphs.
struct Calls {
  AliasFinder finder;
  std::unordered_map<const Node*, BodyAliases> aliases;  // before writes in bodies were rewritten
  // The inputs that a body may write to, depending on data.
  std::unordered_map<const Graph*, std::vector<size_t>> maybe_written;
};

class Functionalizer {
 public:
  Functionalizer(Graph& graph, Calls& calls) : graph_(graph), calls_(calls) {}

  // Prepares for a branch or loop body, of whose inputs these pairs may share memory.
  void enter_body(const BodyAliases::Positions& together) {
    for (Value* input : graph_.inputs) {
      if (input->type.is_tensor()) memory_.tensor_of(input).storage->is_input = true;
    }
    for (const auto& [a, b] : together) memory_.may_be_one(graph_.inputs[a], graph_.inputs[b]);
  }

  void run() {
    program_ = std::move(graph_.nodes);
    graph_.nodes.clear();
    graph_.nodes.reserve(program_.size());
    for (const Constant& constant : graph_.constants)
      if (!constant.data.is_contiguous()) memory_.scattered.insert(constant.value);
    for (const ScatteredInput& each : graph_.scattered_inputs) memory_.scattered.insert(each.value);
    for (position_ = 0; position_ < program_.size(); ++position_) {
      Node* node = program_[position_];
      node_ = node;
      if (node->op == kHoldsCopies) {
        hold(*node);
      } else if (node->op == kUnwritable) {
        memory_.tensor_of(node->arguments[0].as_value()).storage->unwritable = node;
      } else if (!node->schema) {
        call(*node);
      } else if (node->schema->is_mutable()) {
        write(*node);
      } else {
        read(*node);
      }
    }
    for (const Node* node : held_in_steps_) check_steps(*node);
    for (Argument& output : graph_.outputs) resolve(output);
    record_mutations();
    drop_unused(graph_);
  }

 private:
  // Returns the current value of a tensor; recomputes it from its base if a write made it stale.
  Value* current(Tensor& tensor) {
    if (const Node* writer = tensor.storage->writer) {
      fail_unsupported(
          *writer, concat("cannot export a write to memory that %", tensor.current->name,
                          " may share: ", tensor.storage->cause, "; write to a clone() instead"));
    }
    if (const Node* reshaper = tensor.reshaper) {
      fail_unsupported(*reshaper,
                       concat("whether this changes the shape of %", tensor.current->name,
                              " depends on sizes; use the out-of-place operator"));
    }
    if (tensor.version == tensor.storage->version) return tensor.current;
    View& view = *tensor.view;
    Value* base = current(*view.base);
    const bool sums = view.condition && kind_of(*view.node->schema) == ViewKind::sum_to_size;
    if (!sums && is_identity_view(*view.node, tensor.output)) {
      tensor.current = choose(view, base, tensor.current);
    } else {
      Node* made = look_again(*view.node, base);
      for (size_t i = 0; i < view.outputs.size(); ++i) {
        Tensor* output = view.outputs[i];
        output->current = choose(view, made->outputs[i], output->current);
        output->version = tensor.storage->version;
      }
    }
    tensor.version = tensor.storage->version;
    return tensor.current;
  }

  // Repeats the call that made a view on a new value of the base.
  Node* look_again(const Node& made, Value* base) {
    std::vector<Argument> arguments = made.arguments;
    arguments[0] = kind_of(*made.schema) == ViewKind::as_strided
                       ? own_memory(graph_, base, made.location)
                       : base;
    Node* node = graph_.add_node(made.op, std::move(arguments), made.location);
    for (const Value* output : made.outputs) graph_.add_output(node, output->name, output->type);
    return node;
  }

  // Selects `shared` if a size-dependent view is a view at run time, else `apart`.
  Value* choose(const View& view, Value* shared, Value* apart) {
    if (!view.condition) return shared;
    Value* condition = emit(graph_, *view.condition, view.node->location);
    Node* node =
        graph_.add_node("aten::where.self", {condition, shared, apart}, view.node->location);
    return graph_.add_output(node, apart->name, apart->type);
  }

  void resolve(Argument& argument) {
    for_each_value(argument, [&](Value*& value) {
      if (Tensor* tensor = memory_.find(value)) value = current(*tensor);
    });
  }

  // Gives a tensor a new value, updates its bases and makes all other aliases stale.
  void assign(Tensor& tensor, Value* value) {
    check_writable(*node_, *tensor.storage);
    std::vector<std::pair<Tensor*, Value*>> updated{{&tensor, value}};
    size_t stale = 0;  // the first `stale` entries are views of overlapping elements
    for (Tensor* at = &tensor; at->view; at = at->view->base) {
      Tensor& base = *at->view->base;
      const Node& view = *at->view->node;
      if (may_overlap(view, at->output)) stale = updated.size();
      value = write_back(graph_, view, at->output, base.current, value, base.names.front()->name,
                         [&] { return current(base); });
      if (at->view->condition) value = choose(*at->view, value, current(base));
      updated.emplace_back(&base, value);
    }
    const int version = ++tensor.storage->version;
    for (size_t i = 0; i < updated.size(); ++i) {
      const auto& [written, now] = updated[i];
      written->current = now;
      if (i >= stale) written->version = version;
    }
    memory_.mark_shared(*tensor.storage, node_);
  }

  std::optional<Layout> layout(const Tensor& tensor) {
    if (!tensor.view) {
      const Type& type = tensor.names.front()->type;
      return tensor.scattered ? layout_of_input(graph_, tensor.names.front())
                              : contiguous_layout(type);
    }
    const View& view = *tensor.view;
    std::optional<Layout> seen = view_layout(*view.node, tensor.output, layout(*view.base));
    if (!view.condition) return seen;
    const Type& type = view.node->outputs[static_cast<size_t>(tensor.output)]->type;
    const bool packs = kind_of(*view.node->schema) == ViewKind::contiguous;
    std::optional<Layout> either = packs ? contiguous_layout(type) : unknown_layout(type);
    if (either) either->offset = std::nullopt;
    return either;
  }

  bool is_packed(const Tensor& tensor) {
    return known_contiguous(tensor.names.front()->type, layout(tensor));
  }

  void read(Node& node) {
    std::vector<Value*> shared;  // the program's values; the first is a view's base
    if (!node.outputs.empty() && may_share(*node.schema)) {
      for (Argument& argument : node.arguments) {
        for_each_value(argument, [&](Value* value) {
          if (value->type.is_tensor() || value->type.kind == Type::Kind::unknown)
            shared.push_back(value);
        });
      }
    }
    const bool scattered =
        may_scatter(node, [&](const Value* value) { return memory_.scattered.contains(value); });
    for (Argument& argument : node.arguments) resolve(argument);
    const Sharing sharing =
        shared.empty() ? Sharing()
                       : aten::sharing(node, [&] { return layout(memory_.tensor_of(shared[0])); });
    const bool copies = sharing.kind == Sharing::Kind::fresh && !shared.empty() &&
                        kind_of(*node.schema) == ViewKind::copy_reshape;  // to a contiguous tensor
    if (scattered && !copies) memory_.scattered.insert(node.outputs.begin(), node.outputs.end());
    if (sharing.kind == Sharing::Kind::same) {
      for (const Value* output : node.outputs) memory_.name(memory_.tensor_of(shared[0]), output);
      return;
    }
    if (kind_of(*node.schema) == ViewKind::as_strided) {
      look_at_storage(node, memory_.tensor_of(shared[0]));
      return;
    }
    graph_.nodes.push_back(&node);
    if (sharing.kind == Sharing::Kind::view) {
      memory_.add_view(node, memory_.tensor_of(shared[0]));
    } else if (sharing.kind == Sharing::Kind::depends) {
      memory_.add_view(node, memory_.tensor_of(shared[0])).condition = sharing.condition;
    } else if (sharing.kind == Sharing::Kind::unknown) {
      for (Value* output : node.outputs) {
        for (Value* base : shared)
          memory_.may_be_same(*memory_.tensor_of(output).storage, *memory_.tensor_of(base).storage,
                              sharing.cause);
      }
    }
    if (!sharing.maybe_same) return;
    Tensor& base = memory_.tensor_of(shared[0]);
    Tensor& result = memory_.tensor_of(node.outputs[0]);
    base.maybe_same.push_back(&result);
    result.maybe_same.push_back(&base);
  }

  // as_strided of a view reads the storage, not the view.
  void look_at_storage(Node& node, Tensor& given) {
    Tensor* tensor = whole_storage(given);
    if (!tensor) fail_unknown_strides(node);
    if (tensor != &given) {
      const std::optional<Layout> from = layout(given);
      Argument& offset = node.arguments[3];
      if (offset.is_none() && from && from->offset)
        offset = make_size(graph_, from->offset->as_captured(), node.location);
      if (offset.is_none()) fail_unknown_strides(node);
    }
    if (!is_packed(*tensor)) fail_unknown_strides(node);
    node.arguments[0] = own_memory(graph_, current(*tensor), node.location);
    graph_.nodes.push_back(&node);
    memory_.add_view(node, *tensor);
  }

  [[noreturn]] static void fail_unknown_strides(const Node& node) {
    fail_unsupported(node, "cannot export as_strided with unknown strides; use other views");
  }

  // A call without a schema: arithmetic on numbers, or control flow with bodies that may write to
  // operands.
  void call(Node& node) {
    const BodyAliases& aliases = calls_.aliases[&node];
    const std::vector<Value*> maybe_written = possible_writes(node, aliases);
    const OperandWrites writes = return_writes(graph_, node);
    for (const auto& [operand, result] : writes.written) check_apart(node, operand);
    const bool scattered = may_scatter(node, [this](const Value* value) {
      const Tensor* tensor = memory_.find(value);
      return tensor ? !is_packed(*tensor) : memory_.scattered.contains(value);
    });
    if (scattered) memory_.scattered.insert(node.outputs.begin(), node.outputs.end());
    for (Argument& argument : node.arguments) resolve(argument);
    graph_.nodes.push_back(&node);
    for (Value* operand : maybe_written) memory_.may_write(operand, node_);
    for (const auto& [operand, result] : writes.written) {
      const Tensor& target = memory_.tensor_of(operand);
      check_overlapping_write(node, target, [&] { return layout(target); });
      assign(memory_.tensor_of(operand), result);
      memory_.name(memory_.tensor_of(operand), result);
    }
    for (const auto& [one, other] : aliases.same) memory_.name(memory_.tensor_of(other), one);
    for (const auto& [one, other] : aliases.together) memory_.may_be_one(one, other);
    for (const auto& [result, operand] : aliases.passed) {
      const Storage& storage = *memory_.tensor_of(operand).storage;
      if (is_used_later(storage) || storage.is_input || storage.held ||
          !storage.maybe_shared.empty())
        memory_.may_be_one(result, operand);
    }
  }

  // Returns operands that bodies may write to, and initial states of loops that write to a state.
  std::vector<Value*> possible_writes(const Node& node, const BodyAliases& aliases) {
    std::vector<Value*> found;
    if (is_cond(node)) {
      for (const size_t i : {1, 2}) {
        for (const size_t input : calls_.maybe_written[&body(node, i)])
          found.push_back(operands(node, 3)[input].as_value());
      }
    }
    if (!is_loop(node)) return found;
    const Graph& steps = body(node, kBody);
    const Argument::List& states = operands(node, kStates);
    const std::vector<size_t>& maybe_written = calls_.maybe_written[&steps];
    for (size_t input = kBeforeStates; input < steps.inputs.size(); ++input) {
      const bool maybe = std::ranges::find(maybe_written, input) != maybe_written.end();
      const size_t state = input - kBeforeStates;
      if (state >= states.size() && maybe) fail_written_capture(node, steps.inputs[input]);
      if (state >= states.size() || (!maybe && !writes_to(steps, input))) continue;
      for (const auto& [place, operand] : aliases.entered) {
        if (place != state) continue;
        if (operand >= states.size())
          fail_written_capture(node, steps.inputs[kBeforeStates + operand]);
        found.push_back(states[operand].as_value());
      }
    }
    return found;
  }

  [[noreturn]] static void fail_written_capture(const Node& node, const Value* input) {
    fail_unsupported(node, concat("it is data-dependent whether an iteration writes to %",
                                  input->name, "; write to a clone() instead"));
  }

  static const Argument::List& tensors(const Node& node, size_t i) {
    return *node.arguments[i].get<Argument::List>();
  }

  // Records copies held by a list: a write to a tensor makes its copy stale, and vice versa.
  void hold(const Node& node) {
    const bool repeated = *node.arguments[2].get<bool>();
    for (const Argument& original : tensors(node, 1)) {
      Storage& of = *memory_.tensor_of(original.as_value()).storage;
      for (const Argument& copy : tensors(node, 0)) {
        Storage& list = *memory_.tensor_of(copy.as_value()).storage;
        if (&list == &of) continue;
        list.holds_twice = list.holds_twice || repeated || of.held || of.holds_twice;
        memory_.may_be_same(list, of, concat("a list holds %", original.as_value()->name), true);
      }
      of.held = true;
    }
    if (*node.arguments[3].get<bool>()) held_in_steps_.push_back(&node);
  }

  // Throws if a loop may write to a tensor that another iteration appended to a list.
  void check_steps(const Node& node) {
    std::unordered_set<const Storage*> inputs;
    bool writes = false;
    for (const Value* input : graph_.inputs) {
      const Tensor* tensor = memory_.find(input);
      if (!tensor) continue;
      inputs.insert(tensor->storage);
      writes = writes || tensor->storage->version > 0;
    }
    for (const Argument& original : tensors(node, 1)) {
      const Storage* storage = memory_.tensor_of(original.as_value()).storage;
      auto carried = tensors(node, 0).empty() ? -1 : 0;  // a stacked tensor is an output anyway
      for (const Argument& output : graph_.outputs) {
        const Value* value = output.as_value();
        const Tensor* tensor = value ? memory_.find(value) : nullptr;
        carried += tensor && Memory::may_be(*tensor->storage, *storage);
      }
      const bool each_step = std::ranges::any_of(tensors(node, 4), [&](const Argument& given) {
        return given.as_value() == original.as_value();
      });
      if (each_step && inputs.contains(storage) ? storage->version > 0 : writes && carried > 0)
        fail(ErrorKind::unsupported, "a loop appends %", original.as_value()->name,
             " to a list and writes to it; append a clone()");
    }
  }

  // Throws if a written operand aliases another one, because bodies do not model aliased inputs.
  void check_apart(const Node& node, Value* written) {
    const Storage* storage = memory_.tensor_of(written).storage;
    for (const Argument& argument : node.arguments) {
      for_each_value(argument, [&](Value* value) {
        if (value != written && value->type.is_tensor() &&
            memory_.tensor_of(value).storage == storage)
          fail_unsupported(node, concat("the body writes to %", written->name, ", which aliases %",
                                        value->name, "; clone() it first"));
      });
    }
  }

  // Returns true if the program uses this memory after the current node.
  bool is_used_later(const Storage& storage) {
    bool used = false;
    const auto look = [&](const Value* value) {
      const Tensor* tensor = memory_.find(value);
      used = used || (tensor && tensor->storage == &storage);
    };
    for (size_t i = position_ + 1; i < program_.size() && !used; ++i) {
      if (program_[i]->op == kHoldsCopies) continue;
      for (const Argument& argument : program_[i]->arguments) for_each_value(argument, look);
    }
    for (const Argument& output : graph_.outputs) for_each_value(output, look);
    for (const Constant& constant : graph_.constants) look(constant.value);
    return used;
  }

  // A tensor that a call writes to.
  struct Target {
    Tensor* tensor;
    const SchemaArgument* argument;
    Value* result = nullptr;    // the program's value for the written tensor
    Value* computed = nullptr;  // the functional operator's result, before any cast
  };

  void write(Node& node) {
    if (node.schema->name == "aten::resize_" || node.schema->name == "aten::resize_as_") {
      const Tensor& tensor = memory_.tensor_of(node.arguments[0].as_value());
      resize_as_view(graph_, node,
                     !tensor.view && !memory_.scattered.contains(tensor.names.front()));
    }
    const FunctionalSchema& functional = functional_of(*node.schema);
    std::vector<Target> targets;
    for (const int index : functional.written) {
      const auto at = static_cast<size_t>(index);
      for_each_value(node.arguments[at], [&](Value* value) {
        targets.push_back(
            {.tensor = &memory_.tensor_of(value), .argument = &node.schema->arguments[at]});
      });
    }
    if (targets.empty()) return check_writes_nothing(node, functional);
    if (node.schema->name == "aten::requires_grad_") {
      for (const Value* output : node.outputs) memory_.name(*targets[0].tensor, output);
      return;
    }
    if (!functional.schema)
      fail_unsupported(node, node.op + " has no functional form; use an out-of-place operator");
    for (Argument& argument : node.arguments) resolve(argument);
    if (functional.schema->is_view()) return change_geometry(node, functional, *targets[0].tensor);
    for (const Target& target : targets)
      check_overlapping_write(node, *target.tensor, [&] { return layout(*target.tensor); });
    if (copies_whole(node)) {
      assign(*targets[0].tensor, node.arguments[1].as_value());
      for (const Value* output : node.outputs) memory_.name(*targets[0].tensor, output);
      return;
    }
    compute(node, functional, targets);
  }

  // Handles `x.unsqueeze_(0)`: x's values now denote a view of the former x.
  void change_geometry(Node& node, const FunctionalSchema& functional, Tensor& tensor) {
    if (node.schema->name == "aten::as_strided_" && tensor.view) fail_unknown_strides(node);
    make_functional(node, functional);
    if (node.outputs.empty()) graph_.add_output(&node, tensor.current->name, {});
    graph_.nodes.push_back(&node);
    memory_.scattered.insert(node.outputs[0]);
    const std::vector<const Value*> names = std::move(tensor.names);
    tensor.names.assign(1, names.front());  // the value whose type gives the strides
    Tensor& changed = *memory_.add_view(node, tensor).outputs[0];
    for (const Value* value : names) memory_.name(changed, value);
    changed.maybe_same = std::move(tensor.maybe_same);
    tensor.maybe_same.clear();
    for (Tensor* other : changed.maybe_same) {
      if (!other->reshaper) other->reshaper = node_;
      std::replace(other->maybe_same.begin(), other->maybe_same.end(), &tensor, &changed);
    }
  }

  // Turns the node into the functional operator and assigns its results to the targets.
  void compute(Node& node, const FunctionalSchema& functional, std::vector<Target>& targets) {
    std::vector<Value*> outputs = match_results(node, targets);
    while (outputs.size() + targets.size() < functional.schema->returns.size())
      outputs.push_back(graph_.add_value("unused", {}));
    for (Target& target : targets) {
      type_result(node, functional, target, outputs.size());
      outputs.push_back(target.computed);
    }
    make_functional(node, functional, targets[0].result->type);
    node.outputs = std::move(outputs);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      node.outputs[i]->producer = &node;
      node.outputs[i]->index = static_cast<int>(i);
    }
    graph_.nodes.push_back(&node);
    for (const Target& target : targets) {
      if (target.computed != target.result) convert(target, node.location);
      assign(*target.tensor, target.result);
      memory_.name(*target.tensor, target.result);
    }
  }

  // Finds the program's values for the written tensors; returns the call's other results.
  static std::vector<Value*> match_results(const Node& node, std::vector<Target>& targets) {
    std::vector<Value*> fresh;
    for (size_t i = 0; i < node.outputs.size() && i < node.schema->returns.size(); ++i) {
      const auto& sets = node.schema->returns[i].alias_sets;
      if (sets.empty()) fresh.push_back(node.outputs[i]);
      for (Target& target : targets)
        if (!sets.empty() && target.argument->alias_sets == sets) target.result = node.outputs[i];
    }
    return fresh;
  }

  void type_result(const Node& node, const FunctionalSchema& functional, Target& target, size_t i) {
    const Value* old = target.tensor->current;
    const Value* result = target.result;
    const bool is_out = target.argument->is_out;
    Type type = is_out && result && result->type.shape ? result->type : old->type;
    const bool resizes = is_out && type.shape && old->type.shape && *type.shape != *old->type.shape;
    if (resizes && (target.tensor->view || memory_.has_views(*target.tensor)))
      fail_unsupported(
          node, "the out= tensor is resized, but is a view or has views; pass one that fits");
    if (!result) target.result = graph_.add_value(target.tensor->names.front()->name, type);
    target.result->type = type;
    if (resizes) target.tensor->names.insert(target.tensor->names.begin(), target.result);
    target.computed = target.result;
    if (const auto dtype = unconverted_dtype(node, functional, type, i)) {
      type.dtype = *dtype;
      target.computed = graph_.add_value(target.result->name, type);
    }
  }

  // Casts the computed value to the dtype of the written tensor.
  void convert(const Target& target, const Location* location) {
    Node* cast =
        graph_.add_node("aten::to.dtype", {target.computed, target.result->type.dtype}, location);
    cast->outputs.push_back(target.result);
    target.result->producer = cast;
    target.result->index = 0;
  }

  const FunctionalSchema& functional_of(const Schema& mutates) {
    const auto [at, inserted] = functional_.try_emplace(&mutates);
    if (inserted) at->second = find_functional(mutates);
    return at->second;
  }

  void record_mutations() {
    std::unordered_map<std::string_view, const Tensor*> assigned;  // by name of the buffer
    for (Mutation& mutation : graph_.mutations) {
      assigned[mutation.target] = &memory_.tensor_of(mutation.value);
      Argument value = mutation.value;
      resolve(value);
      mutation.value = value.as_value();
    }
    std::vector<Mutation> found;
    std::unordered_set<std::string_view> replaced;
    const auto record = [&](const Value* root, bool is_buffer) {
      Tensor* tensor = memory_.find(root);
      if (!tensor) return;
      // Skip a buffer that ends as another tensor or with another shape.
      const auto end = assigned.find(root->name);
      if (is_buffer && end != assigned.end() && (end->second != tensor || tensor->view)) return;
      // The caller sees an input as the program reshaped it in place.
      while (is_buffer && tensor->view) tensor = tensor->view->base;
      if (tensor->storage->version == 0 && !tensor->storage->writer) return;
      replaced.insert(root->name);
      found.push_back({root->name, is_buffer, current(*tensor)});
    };
    for (const Constant& constant : graph_.constants) record(constant.value, true);
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      const Tensor* tensor = memory_.find(graph_.inputs[i]);
      const bool unwritten = tensor && tensor->storage->is_input && tensor->storage->version == 0;
      if (!unwritten)
        record(graph_.inputs[i], false);
      else if (tensor->storage->maybe_written)
        calls_.maybe_written[&graph_].push_back(i);
    }
    std::erase_if(graph_.mutations, [&](const Mutation& m) { return replaced.contains(m.target); });
    graph_.mutations.insert(graph_.mutations.end(), found.begin(), found.end());
  }

  Graph& graph_;
  Calls& calls_;
  std::vector<Node*> program_;
  size_t position_ = 0;         // of node_ in the program
  const Node* node_ = nullptr;  // the current node
  std::vector<const Node*> held_in_steps_;
  Memory memory_;
  std::unordered_map<const Schema*, FunctionalSchema> functional_;
};

// `together` are the inputs of a branch or loop body that may share memory; nullptr: no body.
void functionalize_graph(Graph& graph, Calls& calls, const BodyAliases::Positions* together) {
  bool needed = false;
  std::erase_if(graph.nodes, [](const Node* node) { return is_omitted(*node); });
  for (const Node* node : graph.nodes) {
    if (!node->schema) {
      const BodyAliases& aliases = calls.aliases[node] =
          calls.finder.find(*node, graph, together ? *together : BodyAliases::Positions());
      for (const Argument& argument : node->arguments) {
        const auto* sub_graph = argument.get<std::shared_ptr<Graph>>();
        if (!sub_graph) continue;
        functionalize_graph(**sub_graph, calls, &aliases.inputs);
        needed = needed || !(*sub_graph)->mutations.empty() ||
                 calls.maybe_written.contains(sub_graph->get());
      }
    } else {
      // as_strided of a view needs the storage, which only the Functionalizer tracks.
      needed =
          needed || node->schema->is_mutable() || kind_of(*node->schema) == ViewKind::as_strided;
    }
  }
  if (needed) {
    separate_views(graph);
    Functionalizer functionalizer(graph, calls);
    if (together) functionalizer.enter_body(*together);
    functionalizer.run();
  } else {
    std::erase_if(graph.nodes, [](const Node* node) { return node->op == kHoldsCopies; });
  }
}

}  // namespace

void functionalize(Graph& graph) {
  // Skips branches and loop bodies, which torch.export keeps from writing to outer tensors. There a
  // batch_norm does not update statistics, matching PyTorch's exporter.
  reveal_hidden_writes(graph);
  Calls calls;
  functionalize_graph(graph, calls, nullptr);
}

}  // namespace onnx_native::aten
