// The export pipeline: functionalize, verify, lower, passes, verify.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "aten/graph.h"
#include "base/weight.h"
#include "onnx/graph.h"
#include "onnx_native/export.h"
#include "onnx_native/inspect.h"
#include "ops/engine/lower.h"

namespace onnx_native {

// What an export inside a Python process has beyond the user's options.
struct PipelineOptions {
  bool verify = false;  // check the graph after lowering and after each pass
  ops::ForeignLowerings* foreign = nullptr;
};

// What an export did, for the report.
struct ExportReport {
  std::vector<std::pair<std::string, double>> seconds;  // stage -> seconds
  std::vector<std::string> warnings;                    // for the user
  int64_t aten_nodes = 0;
  int64_t onnx_nodes = 0;
  std::vector<StateTensor> state;
  std::vector<std::pair<std::string, int64_t>> functions;  // of the model, and how often called
  std::vector<OperatorUse> operators;                      // of live nodes, by name
  std::map<std::string, std::string> fallbacks;  // operator -> the safety net that lowered it
  WeightReads reads;  // the weights whose elements decided how the model looks
};

inline constexpr int64_t kMinOpset = 12;
// Lowerings and passes write the nodes of this opset at least; older opsets are made of them.
inline constexpr int64_t kMinLoweringOpset = 18;

// Lowers the program (functionalizing it in place). The model refers to the graph's weights and
// locations: `graph` must outlive it.
std::unique_ptr<onnx::Model> export_graph(aten::Graph& graph, const ExportOptions& options,
                                          const PipelineOptions& pipeline = {},
                                          ExportReport* report = nullptr);

// The operators that the program's outputs need. Functionalizes it in place.
std::vector<OperatorUse> used_operators(aten::Graph& graph);

}  // namespace onnx_native
