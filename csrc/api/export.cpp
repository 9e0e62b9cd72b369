#include "api/export.h"

#include <chrono>
#include <map>
#include <unordered_set>

#include "onnx/schema.h"
#include "ops/lower.h"
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

  void add(Value value, std::string_view program_name) {
    if (!value->producer || !used_.insert(value).second) {
      value = builder_.Identity(value);
      used_.insert(value);
    }
    size_t index = builder_.graph().outputs.size();
    value->name = index < names_.size() ? names_[index] : std::string(program_name);
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
      value->contents = {*type.dim};
      builder.bind(*type.dim, value);
      environment[input] = *type.dim;
    } else {
      environment[input] = value;
    }
  }
  // Plain symbols first: an expression needs them only where no tensor has it.
  for (Value input : main.inputs) builder.bind_sizes(input);
}

}  // namespace

std::unique_ptr<onnx::Model> export_graph(aten::Graph& graph, const ExportOptions& options,
                                          ExportReport* report) {
  if (options.opset < kMinOpset || options.opset > onnx::newest_opset())
    fail(ErrorKind::invalid_argument, "opset ", options.opset, " is not supported: choose ",
         kMinOpset, " to ", onnx::newest_opset());
  const ops::Lowerings lowerings(options.table ? *options.table : ops::op_table(), options.foreign);
  Stopwatch watch(report);
  aten::functionalize(graph);
  watch.lap("functionalize");
  aten::verify(graph, "functionalize");
  watch.lap("verify");

  ops::check_operators(graph, lowerings);
  auto model = std::make_unique<onnx::Model>();
  model->opset = options.opset;
  model->producer_version = options.producer_version;
  Builder builder(*model);
  ops::Lowerer lowerer(builder, lowerings);
  add_inputs(builder, lowerer.environment(), graph, options);
  for (const auto& constant : graph.constants) {
    Value value =
        model->graph->add_initializer(constant.value->name, ops::lowered_data(constant.data));
    value->named = true;
    lowerer.environment()[constant.value] = value;
  }
  lowerer.lower(graph);
  Outputs outputs(builder, options.output_names);
  for (const auto& output : graph.outputs) {
    if (output.is_none()) continue;
    ops::Lowered lowered = lowerer.lowered(output);
    const aten::Value* value = output.as_value();
    outputs.add(lowered.value ? lowered.value : builder.dim_value(*lowered.dim),
                value ? value->name : "output");
  }
  watch.lap("lower");
  if (options.verify) onnx::verify(*model, "lowering");
  passes::run(*model, options.optimize, options.verify);
  onnx::assign_names(*model);
  watch.lap("passes");
  if (options.verify) onnx::verify(*model, "passes");

  if (report) {
    auto live = ops::live_nodes(graph);
    report->aten_nodes = static_cast<int64_t>(live.size());
    report->onnx_nodes = static_cast<int64_t>(model->graph->nodes.size());
    std::map<std::string, int64_t> counts;
    for (const aten::Node* node : live)
      ++counts[node->op + (ops::key_of(*node) == ops::Key::complex ? "@complex" : "")];
    report->operators.assign(counts.begin(), counts.end());
    for (const auto& mutation : graph.mutations) {
      report->warnings.push_back("the update of " +
                                 std::string(mutation.is_buffer ? "buffer " : "input ") +
                                 mutation.target + " is not part of the ONNX model");
    }
  }
  return model;
}

}  // namespace onnx_native
