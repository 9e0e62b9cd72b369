#include "api/metadata.h"

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "api/program_contents.h"
#include "api/weights.h"
#include "aten/fx_text.h"
#include "aten/signature_text.h"

namespace onnx_native {
namespace {

using writer::Properties;

constexpr const char* kInputKind = "pkg.torch.export.graph_signature.InputSpec.kind";
constexpr const char* kPersistent = "pkg.torch.export.graph_signature.InputSpec.persistent";
constexpr const char* kOutputKind = "pkg.torch.export.graph_signature.OutputSpec.kind";
constexpr const char* kSignature = "pkg.torch.export.ExportedProgram.graph_signature";
constexpr const char* kRanges = "pkg.torch.export.ExportedProgram.range_constraints";
constexpr const char* kOriginalName = "pkg.torch.onnx.original_node_name";

// The calls of a program by their locations.
class Calls {
 public:
  explicit Calls(const ProgramContents& program) : text_(*program.graph) { add(*program.graph); }

  writer::CallText describe(const Location& location) const {
    const aten::Node* call = find(location);
    if (!call) return {};
    return {.target = aten::python_name(*call), .fx_node = text_.of(*call)};
  }

 private:
  void add(const aten::Graph& graph) {
    for (const aten::Node* node : graph.nodes) {
      for (const aten::Argument& argument : node->arguments) {
        if (const auto* body = argument.get<std::shared_ptr<aten::Graph>>()) add(**body);
      }
      if (node->location && !node->location->node.empty()) add(*node);
    }
  }

  void add(const aten::Node& node) {
    const std::string& name = node.location->node;
    const auto [at, is_new] = by_location_.try_emplace(node.location, &node);
    // Of several calls at one place, the one that the place is named for.
    const bool is_namesake = !node.outputs.empty() && node.outputs[0]->name == name;
    if (!is_new && is_namesake) at->second = &node;
    const auto [same, is_first] = by_name_.try_emplace(name, node.location);
    // A branch may use the names of the graph around it.
    if (!is_first && same->second != node.location) same->second = nullptr;
  }

  // Passes that merge calls of several modules give the result a location of its own.
  const aten::Node* find(const Location& location) const {
    auto at = by_location_.find(&location);
    if (at == by_location_.end()) {
      const auto named = by_name_.find(location.node);
      if (named != by_name_.end()) at = by_location_.find(named->second);
    }
    return at == by_location_.end() ? nullptr : at->second;
  }

  aten::FxText text_;
  std::unordered_map<const Location*, const aten::Node*> by_location_;
  std::unordered_map<std::string_view, const Location*> by_name_;  // nullptr: ambiguous
};

Properties of_constant(const aten::Constant& constant) {
  return {{kInputKind, aten::kind_name(constant.kind)},
          {kPersistent, aten::persistent_text(constant.kind)},
          {kOriginalName, aten::placeholder_name(constant)}};
}

void describe_weights(const ProgramContents& program, const ModuleWeights& weights,
                      writer::Origin& origin) {
  for (const onnx::Value* weight : program.model->graph->initializers) {
    if (!weight->named) continue;
    const StoredWeight stored = weights.stored_in(weight->name);
    const WeightPart& first = stored.parts.front();
    const aten::Constant* found = weights.find(first.weight);
    if (stored.parts.size() > 1 || !first.rows.empty() || !found) continue;
    origin.values[weight] = of_constant(*found);
  }
}

void describe_interface(const ProgramContents& program, const ModuleWeights& weights,
                        writer::Origin& origin) {
  const onnx::Graph& graph = *program.model->graph;
  for (const onnx::Value* input : graph.inputs)
    origin.values[input] = {{kInputKind, "USER_INPUT"}, {kPersistent, "None"}};
  for (const onnx::Value* output : graph.outputs)
    origin.values[output] = {{kOutputKind, "USER_OUTPUT"}};
  for (const StateTensor& tensor : program.report.state) {
    const bool is_buffer = tensor.initial.has_value();
    const aten::Constant* constant = weights.find(tensor.target);
    if (is_buffer) origin.values[graph.inputs[tensor.input]] = {{kInputKind, "BUFFER"}};
    if (is_buffer && constant) origin.values[graph.inputs[tensor.input]] = of_constant(*constant);
    origin.values[graph.outputs[tensor.output]] = {
        {kOutputKind, is_buffer ? "BUFFER_MUTATION" : "USER_INPUT_MUTATION"}};
  }
}

}  // namespace

writer::Options metadata_options(const ProgramContents& program, Metadata level) {
  writer::Options options;
  options.metadata = level;
  if (level == Metadata::none) return options;
  const auto origin = std::make_shared<writer::Origin>();
  const auto calls = std::make_shared<const Calls>(program);
  origin->describe_call = [calls](const Location& location) { return calls->describe(location); };
  const ModuleWeights weights(*program.graph);
  describe_weights(program, weights, *origin);
  describe_interface(program, weights, *origin);
  if (level == Metadata::full) {
    origin->graph.emplace_back(kSignature, aten::signature_text(*program.graph));
    origin->graph.emplace_back(kRanges, aten::ranges_text(*program.graph));
  }
  options.origin = origin;
  return options;
}

}  // namespace onnx_native
