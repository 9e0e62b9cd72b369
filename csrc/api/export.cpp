#include "api/export.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <unordered_set>

#include "api/adapters.h"
#include "api/interface.h"
#include "api/report.h"
#include "api/state.h"
#include "aten/example_sizes.h"
#include "aten/sizes.h"
#include "base/device_weight.h"
#include "onnx/schema.h"
#include "ops/engine/lower.h"
#include "passes/passes.h"
#include "writer/file_names.h"

namespace onnx_native {
namespace {

// Adds the duration of each stage to the report.
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

void check_opset(int64_t opset) {
  if (opset < kMinOpset || opset > onnx::newest_opset())
    fail(ErrorKind::invalid_argument, "opset ", opset, " is not supported; choose ", kMinOpset,
         " to ", onnx::newest_opset());
}

// Checks the names that the user gave to inputs or outputs.
void check_names(std::string_view kind, const std::vector<std::string>& names) {
  std::unordered_set<std::string_view> seen;
  for (const std::string& name : names) {
    if (name.empty())
      fail(ErrorKind::invalid_argument, "an ", kind,
           " name is empty; ONNX gives an empty name another meaning");
    if (!writer::is_utf8(name))
      fail(ErrorKind::invalid_argument, "an ", kind, " name is not UTF-8");
    if (!seen.insert(name).second)
      fail(ErrorKind::invalid_argument, "two ", kind, "s cannot have the same name ", name);
  }
}

// Makes the program functional. A program that records shapes of the wrong rank is an error: the
// file's where it was read from an archive (export_archive), else one of the exporter.
void make_functional(aten::Graph& graph) {
  try {
    aten::functionalize(graph);
  } catch (const std::out_of_range&) {  // a dimension or an element that does not exist
    fail(ErrorKind::internal, "a recorded shape contradicts the call that computes it");
  }
}

struct Lowered {
  std::unique_ptr<onnx::Model> model;
  std::vector<Fault> contradictions;  // between the inferred and the recorded sizes
};

// Declares the symbols of a program, so that those of its lowering have other names: a recording of
// another program may have started since, which lets the names begin again.
void declare_symbols(const aten::Graph& graph) {
  const auto declare = [](const Dim& size) {
    if (size.is_constant()) return;
    for (const std::string& name : size.symbols()) Dim::symbol(name);
  };
  for (const aten::Value* input : graph.inputs) aten::for_each_size(input->type, declare);
  for (const aten::Node* node : graph.nodes) aten::for_each_size(*node, declare);
}

// Lowers a functional program to an ONNX model, without any pass.
Lowered lower(aten::Graph& graph, const ExportOptions& options, const ops::Lowerings& lowerings,
              State& state) {
  const HostCopies copies;
  const std::vector<aten::Argument> results = graph.outputs;
  for (const aten::Mutation* mutation : state.kept()) graph.outputs.emplace_back(mutation->value);
  ops::check_operators(graph, lowerings);
  declare_symbols(graph);
  auto model = std::make_unique<onnx::Model>();
  model->opset = std::max(options.opset, kMinLoweringOpset);
  model->final_opset = options.opset;
  model->target = options.target;
  model->weights = options.weights;
  model->quantization = options.quantization;
  for (const aten::Constant& constant : graph.constants)
    if (aten::is_buffer(constant.kind)) model->buffers.insert(constant.value->name);
  Builder builder(*model);
  ops::Lowerer lowerer(builder, lowerings);
  add_inputs(builder, lowerer.environment(), graph, options);
  state.add_inputs(builder, lowerer.environment(), graph);
  add_constants(builder, lowerer.environment(), graph, options.adapters);
  lowerer.lower(graph);
  builder.set_location(nullptr);
  Outputs outputs(builder, options.output_names);
  for (const aten::Argument& result : results) outputs.add(lowerer, result);
  state.add_outputs(builder, lowerer, outputs);
  return {std::move(model), lowerer.contradictions()};
}

// Optimizes the model, rewrites it for its opset and names its values. Returns the module classes
// that the user asked to turn into functions, but that no node comes from.
std::vector<std::string> run_passes(onnx::Model& model, const ExportOptions& options,
                                    const std::vector<std::string>& adapters, bool verify,
                                    ExportReport* report) {
  const HostCopies copies;
  passes::Lowering lowering;
  passes::Changes changes = passes::run(model,
                                        {.optimize = options.optimize,
                                         .verify_each = verify,
                                         .disabled = options.disabled_passes,
                                         .precision = {.precision = options.precision,
                                                       .keep_io_types = options.keep_io_types,
                                                       .float32_modules = options.float32_modules,
                                                       .half_inputs = adapters}},
                                        &lowering);
  if (report) {
    report->passes = std::move(changes);
    report->precision = std::move(lowering.counts);
    report->weights = std::move(lowering.weights);
    if (options.quantization.bits != 0 && report->weights.quantized.empty())
      report->warnings.emplace_back(
          "no weight was quantized: no product takes a matrix of the parameters that may be");
  }
  passes::express_in_opset(model, options.opset);
  std::vector<std::string> unseen = passes::outline_modules(
      model, {.all = options.functions.all, .classes = options.functions.classes});
  onnx::assign_names(model);
  return unseen;
}

}  // namespace

bool verifies_by_default() {
#ifdef NDEBUG
  const char* setting = std::getenv("ONNX_NATIVE_VERIFY");
  return setting && std::string_view(setting) == "1";
#else
  return true;
#endif
}

std::unique_ptr<onnx::Model> export_graph(aten::Graph& graph, const ExportOptions& options,
                                          const PipelineOptions& pipeline, ExportReport* report) {
  check_opset(options.opset);
  check_names("input", options.input_names);
  check_names("output", options.output_names);
  Stopwatch watch(report);
  make_functional(graph);
  watch.lap("functionalize");
  aten::verify(graph, "functionalize");
  watch.lap("verify");
  keep_written_elements(graph);
  State state(graph, options.state);
  const ReadScope recorded(report ? &report->reads : nullptr);
  const NanScope nan(options.nan, report ? &report->nan_differences : nullptr);
  auto [model, contradictions] =
      lower(graph, options, ops::Lowerings(ops::op_table(), pipeline.foreign), state);
  watch.lap("lower");
  if (pipeline.verify) {
    if (!contradictions.empty()) throw ExportError(ErrorKind::internal, contradictions);
    onnx::verify(*model, "lowering");
  }
  const std::vector<std::string> adapters = adapter_names(graph, options.adapters);
  const std::vector<std::string> unseen =
      run_passes(*model, options, adapters, pipeline.verify, report);
  watch.lap("passes");
  set_adapter_defaults(*model, adapters);
  if (pipeline.verify) onnx::verify(*model, "passes");
  if (report) {
    std::vector<std::string> assumptions;
    if (!pipeline.has_guards) {
      assumptions = aten::kept_dimensions(graph);
      std::ranges::move(aten::fixed_dimensions(graph), std::back_inserter(assumptions));
      std::ranges::move(aten::fixed_counts(graph), std::back_inserter(assumptions));
    }
    describe(*report, graph, *model, state,
             {unseen, contradictions, assumptions, options.output_names});
  }
  return std::move(model);
}

}  // namespace onnx_native
