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

// Options of an export inside a Python process, in addition to the user's.
struct PipelineOptions {
  bool verify = false;  // verify the graph after lowering and after each pass
  ops::ForeignLowerings* foreign = nullptr;
};

// Data about a finished export, for the report.
struct ExportReport {
  std::vector<std::pair<std::string, double>> seconds;  // stage -> seconds
  std::vector<std::string> warnings;                    // for the user
  int64_t aten_nodes = 0;
  int64_t onnx_nodes = 0;
  std::vector<StateTensor> state;
  std::vector<std::pair<std::string, int64_t>> functions;  // name in the model -> number of calls
  std::vector<OperatorUse> operators;                      // of live nodes, sorted by name
  std::map<std::string, std::string> fallbacks;  // operator -> the fallback that lowered it
  WeightReads reads;  // the weights whose elements affect the exported graph
};

inline constexpr int64_t kMinOpset = 12;
// Lowerings and passes emit nodes of at least this opset; express_in_opset rewrites them for older
// ones.
inline constexpr int64_t kMinLoweringOpset = 18;

// Functionalizes the program in place and lowers it. The model refers to the graph's weights and
// locations, so `graph` must outlive it.
std::unique_ptr<onnx::Model> export_graph(aten::Graph& graph, const ExportOptions& options,
                                          const PipelineOptions& pipeline = {},
                                          ExportReport* report = nullptr);

// Returns the operators that the program's outputs need. Functionalizes the program in place.
std::vector<OperatorUse> used_operators(aten::Graph& graph);

}  // namespace onnx_native
