#include "api/report.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>
#include <utility>

#include "base/half.h"
#include "onnx/importers.h"
#include "onnx/kernels.h"
#include "onnx/providers.h"
#include "onnx/schema.h"
#include "ops/engine/lower.h"

namespace onnx_native {
namespace {

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

// Counts the operators of live nodes, including those of sub-graphs; sorted by name.
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

// Says where the model draws random numbers, each line once; empty if it draws none.
std::string random_lines(onnx::Model& model) {
  std::string text;
  std::set<std::string> seen;
  const auto visit = [&](const onnx::Graph& graph) {
    for (const onnx::Node* node : graph.nodes) {
      if (!node->domain.empty() || !onnx::is_random(node->op_type)) continue;
      const std::string line = node->op_type + where(node->location);
      if (seen.insert(line).second) text += "\n  " + line;
    }
  };
  onnx::for_each_graph(*model.graph, visit);
  for (onnx::Function& function : model.functions) onnx::for_each_graph(*function.body, visit);
  return text;
}

std::string kernel_warning(Target target, const std::string& node) {
  const bool falls_back = onnx::has_provider(target) && target != Target::onnxruntime_cpu;
  return concat("ONNX Runtime's ", onnx::provider_name(target), " provider has no kernel for ",
                node,
                falls_back ? "\n  ONNX Runtime computes it on the CPU, and copies its operands\n  "
                             "hint: cast to float32 around this call, choose another opset, or "
                             "write this line with other operators; see docs/targets.md"
                           : "\n  hint: cast to float32 around this call, choose another opset, or "
                             "run the model with another provider");
}

void warn(std::vector<std::string>& warnings, const aten::Graph& graph, onnx::Model& model,
          const State& state, const std::vector<std::string>& unseen) {
  for (const std::string& node : onnx::untaken_operators(model)) {
    warnings.push_back(node +
                       "\n  hint: write this line with other operators, or run the model with "
                       "another tool; see docs/targets.md");
  }
  for (const std::string& name : unseen) {
    warnings.push_back("no node of the model comes from a module of class " + name +
                       ", so the model has no function for it");
  }
  if (const std::string lines = random_lines(model); !lines.empty())
    warnings.push_back("the model draws new random numbers in every run:" + lines);
  for (const aten::Mutation* mutation : state.dropped()) {
    warnings.push_back("the update of " + std::string(mutation->is_buffer ? "buffer " : "input ") +
                       mutation->target + " is not part of the ONNX model");
  }
  for (const aten::Argument& result : graph.outputs) {
    if (const auto* text = result.get<std::string>())
      warnings.push_back("the result '" + *text + "' of the program is not an output of the model");
  }
}

}  // namespace

std::vector<OperatorUse> used_operators(aten::Graph& graph) {
  aten::functionalize(graph);
  const auto missing = ops::missing_operators(graph, ops::Lowerings(ops::op_table()));
  return count_operators(graph, {missing.begin(), missing.end()});
}

void describe(ExportReport& report, const aten::Graph& graph, onnx::Model& model, State& state,
              const Findings& findings) {
  report.operators = count_operators(graph);
  report.aten_nodes = static_cast<int64_t>(ops::live_nodes(graph).size());
  report.onnx_nodes = static_cast<int64_t>(model.graph->nodes.size());
  report.functions = count_calls(model);
  report.state = state.take();
  for (StateTensor& tensor : report.state) {
    const DType dtype = model.graph->inputs[tensor.input]->dtype;
    const bool is_half = dtype == DType::f16 || dtype == DType::bf16;
    if (tensor.initial && tensor.initial->dtype == DType::f32 && is_half)
      tensor.initial = in_half(*tensor.initial, dtype);
  }
  for (const Fault& fault : findings.contradictions)
    report.contradictions.push_back(fault.op + ": " + fault.cause + where(&fault.location));
  report.missing_kernels = onnx::has_provider(model.target) ? onnx::missing_provider_kernels(model)
                                                            : onnx::missing_kernels(model);
  for (const std::string& node : report.missing_kernels)
    report.warnings.push_back(kernel_warning(model.target, node));
  warn(report.warnings, graph, model, state, findings.unseen);
  report.warnings.insert(report.warnings.end(), findings.assumptions.begin(),
                         findings.assumptions.end());
  const std::vector<onnx::Value*>& outputs = model.graph->outputs;
  for (size_t i = 0; i < std::min(outputs.size(), findings.output_names.size()); ++i) {
    const std::string& wanted = findings.output_names[i];
    if (outputs[i]->name != wanted)
      report.warnings.push_back(concat("the output ", wanted, " is named ", outputs[i]->name,
                                       ", because an input or another output has its name"));
  }
}

}  // namespace onnx_native
