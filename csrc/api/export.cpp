#include "api/export.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "aten/visit.h"
#include "onnx/kernels.h"
#include "onnx/schema.h"
#include "onnx/typing.h"
#include "ops/engine/lower.h"
#include "passes/passes.h"

namespace onnx_native {
namespace {

// Adds the seconds of each stage to the report.
class Stopwatch {
 public:
  explicit Stopwatch(ExportReport* report) : report_(report) {}
  void lap(const char* stage) {
    auto now = std::chrono::steady_clock::now();
    if (report_)
      report_->seconds.emplace_back(stage, std::chrono::duration<double>(now - last_).count());
    last_ = now;
  }

 private:
  ExportReport* report_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// Results become graph outputs: an input, a weight or a value that is an output already goes
// through an Identity, so that each output has a name of its own.
class Outputs {
 public:
  Outputs(Builder& builder, const std::vector<std::string>& names)
      : builder_(builder), names_(names) {}

  // A result of the program, which the user may have named.
  void add(Value value, std::string_view program_name) {
    const size_t index = builder_.graph().outputs.size();
    add_named(value, index < names_.size() ? std::string_view(names_[index]) : program_name);
  }

  void add_named(Value value, std::string_view name) {
    if (!value->producer || !used_.insert(value).second) {
      value = builder_.Identity(value);
      used_.insert(value);
    }
    value->name = name;
    value->named = true;
    builder_.graph().outputs.push_back(value);
  }

 private:
  Builder& builder_;
  const std::vector<std::string>& names_;
  std::unordered_set<Value> used_;
};

void add_inputs(Builder& builder, ops::Environment& environment, const aten::Graph& graph,
                const ExportOptions& options) {
  onnx::Graph& main = builder.graph();
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const aten::Value* input = graph.inputs[i];
    std::string_view name = i < options.input_names.size() ? options.input_names[i] : input->name;
    const aten::Type type = ops::lowered_type(input->type);
    Value value = nullptr;
    switch (type.kind) {
      case aten::Type::Kind::sym_int:
        value = main.add_input(name, DType::i64, Shape{});
        break;
      case aten::Type::Kind::sym_float:
        value = main.add_input(name, DType::f32, Shape{});
        break;
      case aten::Type::Kind::sym_bool:
        value = main.add_input(name, DType::boolean, Shape{});
        break;
      default:
        if (type.dtype == DType::undefined)
          fail(ErrorKind::invalid_program, "input ", name, " has a dtype that ONNX does not have");
        value = main.add_input(name, type.dtype, type.shape);
    }
    value->named = true;
    if (type.kind == aten::Type::Kind::sym_int) {
      onnx::Typing::set_contents(*value, Shape{*type.dim});
      builder.bind(*type.dim, value);
      environment[input] = *type.dim;
    } else {
      environment[input] = value;
    }
  }
  // Plain symbols first: an expression needs them only where no tensor has it.
  for (Value input : main.inputs) builder.bind_sizes(input);
}

// A result of the program. Its floats that are no tensors are of the default dtype, as in
// torch.as_tensor.
Value output_value(Builder& builder, ops::Lowerer& lowerer, const aten::Argument& output) {
  const ops::Lowered lowered = lowerer.lowered(output);
  if (!lowered.value) return builder.dim_value(*lowered.dim);
  const aten::Value* value = output.as_value();
  const bool is_number = value && value->type.kind == aten::Type::Kind::sym_float;
  return is_number ? builder.cast(lowered.value, aten::default_dtype()) : lowered.value;
}

// The model's state: what of the program's updates the user wants in the model.
class State {
 public:
  State(const aten::Graph& graph, const StateOptions& options) {
    std::unordered_set<std::string_view> wanted(options.names.begin(), options.names.end());
    for (const aten::Mutation& mutation : graph.mutations) {
      const bool named = wanted.erase(mutation.target) > 0;
      (options.all || named ? kept_ : dropped_).push_back(&mutation);
    }
    if (wanted.empty()) return;
    std::string known;
    for (const aten::Mutation& mutation : graph.mutations)
      known += (known.empty() ? "" : ", ") + mutation.target;
    fail(ErrorKind::invalid_argument, "the program does not update ", *wanted.begin(),
         ", which is to be state; ", known.empty() ? "it updates nothing" : "it updates ", known);
  }

  const std::vector<const aten::Mutation*>& kept() const { return kept_; }
  const std::vector<const aten::Mutation*>& dropped() const { return dropped_; }

  static void check_shape(const aten::Mutation& mutation, const aten::Constant& constant) {
    const std::optional<Shape>& now = mutation.value->type.shape;
    const std::vector<int64_t>& before = constant.data.shape;
    if (now && *now != Shape(before.begin(), before.end()))
      fail(ErrorKind::unsupported, "the program changes the shape of the buffer ", mutation.target,
           " from ", str(Shape(before.begin(), before.end())), " to ", str(*now),
           ": what is state must keep its shape");
  }

  // Makes inputs of the buffers, after the user's.
  void add_inputs(Builder& builder, ops::Environment& environment, const aten::Graph& graph) {
    std::unordered_map<std::string_view, const aten::Constant*> constants;
    if (!kept_.empty())
      for (const aten::Constant& constant : graph.constants)
        constants.emplace(constant.value->name, &constant);
    for (const aten::Mutation* mutation : kept_) {
      StateTensor tensor{.target = mutation->target, .initial = {}};
      if (mutation->is_buffer) {
        const auto found = constants.find(mutation->target);
        if (found == constants.end())
          fail(ErrorKind::internal, "the buffer ", mutation->target, " has no value");
        const aten::Constant* constant = found->second;
        check_shape(*mutation, *constant);
        tensor.initial = ops::lowered_data(constant->data);
        tensor.input = builder.graph().inputs.size();
        const TensorData& data = *tensor.initial;
        Value input = builder.graph().add_input(mutation->target, data.dtype,
                                                Shape(data.shape.begin(), data.shape.end()));
        input->named = true;
        environment[constant->value] = input;
      } else {
        const auto input = std::ranges::find(graph.inputs, mutation->target, &aten::Value::name);
        if (input == graph.inputs.end())
          fail(ErrorKind::invalid_program, "the program updates ", mutation->target,
               ", which is none of its inputs");
        tensor.input = static_cast<size_t>(input - graph.inputs.begin());
      }
      tensors_.push_back(std::move(tensor));
    }
  }

  // Makes outputs of the new values, after the user's.
  void add_outputs(Builder& builder, ops::Lowerer& lowerer, Outputs& outputs) {
    for (size_t i = 0; i < kept_.size(); ++i) {
      tensors_[i].output = builder.graph().outputs.size();
      const ops::Lowered value = lowerer.lowered(kept_[i]->value);
      const std::string& name = builder.graph().inputs[tensors_[i].input]->name;
      outputs.add_named(value.value, name + "_out");
    }
  }

  std::vector<StateTensor> take() { return std::move(tensors_); }

 private:
  std::vector<const aten::Mutation*> kept_;
  std::vector<const aten::Mutation*> dropped_;
  std::vector<StateTensor> tensors_;
};

// The values that outputs need.
std::unordered_set<const aten::Value*> used_values(const aten::Graph& graph) {
  std::unordered_set<const aten::Value*> used;
  const auto use = [&used](const aten::Value* value) { used.insert(value); };
  for (const auto& output : graph.outputs) aten::for_each_value(output, use);
  for (const aten::Node* node : ops::live_nodes(graph)) {
    for (const auto& argument : node->arguments) aten::for_each_value(argument, use);
  }
  return used;
}

using Uses = std::map<std::string, OperatorUse>;

void count_operators(const aten::Graph& graph, const std::unordered_set<const aten::Node*>& missing,
                     Uses& uses) {
  for (const aten::Node* node : ops::live_nodes(graph)) {
    for (const auto& argument : node->arguments)
      if (const auto* body = argument.get<std::shared_ptr<aten::Graph>>())
        count_operators(**body, missing, uses);
    std::string op = node->op + (ops::key_of(*node) == ops::Key::complex ? "@complex" : "");
    OperatorUse& use = uses.try_emplace(op, OperatorUse{.op = op, .supported = true}).first->second;
    ++use.calls;
    if (missing.contains(node)) use.supported = false;
  }
}

// The operators of live nodes by name, those of sub-graphs included.
std::vector<OperatorUse> count_operators(
    const aten::Graph& graph, const std::unordered_set<const aten::Node*>& missing = {}) {
  Uses uses;
  count_operators(graph, missing, uses);
  std::vector<OperatorUse> result;
  for (auto& [op, use] : uses) result.push_back(std::move(use));
  return result;
}

std::vector<std::pair<std::string, int64_t>> count_calls(const onnx::Model& model) {
  std::map<std::string, int64_t> calls;
  for (const onnx::Function& function : model.functions) {
    calls[function.domain + "." + function.name] = 0;
  }
  const auto count = [&calls](onnx::Graph& graph) {
    onnx::for_each_graph(graph, [&calls](const onnx::Graph& part) {
      for (const onnx::Node* node : part.nodes) {
        const auto found = calls.find(node->domain + "." + node->op_type);
        if (found != calls.end()) ++found->second;
      }
    });
  };
  count(*model.graph);
  for (const onnx::Function& function : model.functions) count(*function.body);
  return {calls.begin(), calls.end()};
}

}  // namespace

std::vector<OperatorUse> used_operators(aten::Graph& graph) {
  aten::functionalize(graph);
  const auto missing = ops::missing_operators(graph, ops::Lowerings(ops::op_table()));
  return count_operators(graph, {missing.begin(), missing.end()});
}

std::unique_ptr<onnx::Model> export_graph(aten::Graph& graph, const ExportOptions& options,
                                          const PipelineOptions& pipeline, ExportReport* report) {
  if (options.opset < kMinOpset || options.opset > onnx::newest_opset())
    fail(ErrorKind::invalid_argument, "opset ", options.opset, " is not supported: choose ",
         kMinOpset, " to ", onnx::newest_opset());
  const ops::Lowerings lowerings(ops::op_table(), pipeline.foreign);
  Stopwatch watch(report);
  aten::functionalize(graph);
  watch.lap("functionalize");
  aten::verify(graph, "functionalize");
  watch.lap("verify");

  State state(graph, options.state);
  std::vector<aten::Argument> results = graph.outputs;
  for (const aten::Mutation* mutation : state.kept()) graph.outputs.emplace_back(mutation->value);
  ops::check_operators(graph, lowerings);
  auto model = std::make_unique<onnx::Model>();
  model->opset = std::max(options.opset, kMinLoweringOpset);
  const ReadScope recorded(report ? &report->reads : nullptr);
  model->final_opset = options.opset;
  Builder builder(*model);
  ops::Lowerer lowerer(builder, lowerings);
  add_inputs(builder, lowerer.environment(), graph, options);
  state.add_inputs(builder, lowerer.environment(), graph);
  const std::unordered_set<const aten::Value*> used = used_values(graph);
  for (const auto& constant : graph.constants) {
    if (lowerer.environment().contains(constant.value) || !used.contains(constant.value)) continue;
    Value value =
        model->graph->add_initializer(constant.value->name, ops::lowered_data(constant.data));
    value->named = true;
    lowerer.environment()[constant.value] = value;
  }
  lowerer.lower(graph);
  builder.set_location(nullptr);
  Outputs outputs(builder, options.output_names);
  for (const auto& output : results) {
    if (output.is_none() || output.get<std::string>()) continue;
    const aten::Value* value = output.as_value();
    outputs.add(output_value(builder, lowerer, output), value ? value->name : "output");
  }
  state.add_outputs(builder, lowerer, outputs);
  watch.lap("lower");
  if (pipeline.verify) onnx::verify(*model, "lowering");
  passes::run(*model, options.optimize, pipeline.verify);
  passes::express_in_opset(*model, options.opset);
  const std::vector<std::string> unseen = passes::outline_modules(
      *model, {.all = options.functions.all, .classes = options.functions.classes});
  onnx::assign_names(*model);
  watch.lap("passes");
  if (pipeline.verify) onnx::verify(*model, "passes");

  if (report) {
    report->operators = count_operators(graph);
    report->aten_nodes = static_cast<int64_t>(ops::live_nodes(graph).size());
    report->onnx_nodes = static_cast<int64_t>(model->graph->nodes.size());
    report->functions = count_calls(*model);
    for (const std::string& node : onnx::missing_kernels(*model)) {
      report->warnings.push_back("ONNX Runtime's CPU provider has no kernel for " + node +
                                 "\n  hint: cast to float32 around this call, choose another "
                                 "opset, or run the model with another provider");
    }
    for (const std::string& name : unseen) {
      report->warnings.push_back("no node of the model comes from a module of class " + name +
                                 ", which is to be a function");
    }
    report->state = state.take();
    for (const aten::Mutation* mutation : state.dropped()) {
      report->warnings.push_back("the update of " +
                                 std::string(mutation->is_buffer ? "buffer " : "input ") +
                                 mutation->target + " is not part of the ONNX model");
    }
  }
  return model;
}

}  // namespace onnx_native
