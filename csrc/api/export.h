// The export pipeline: functionalize, verify, lower, passes, verify.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "aten/graph.h"
#include "base/precision.h"
#include "base/quantization.h"
#include "base/weight.h"
#include "onnx/graph.h"
#include "onnx_native/export.h"
#include "onnx_native/inspect.h"
#include "ops/engine/lower.h"

namespace onnx_native {

bool verifies_by_default();

// Options of an export inside a Python process, in addition to the user's.
struct PipelineOptions {
  // Verify the graph after lowering and after each pass, and reject a contradiction between
  // inferred and recorded sizes. On in debug builds and where ONNX_NATIVE_VERIFY is set to 1.
  bool verify = verifies_by_default();
  ops::ForeignLowerings* foreign = nullptr;
  // The capture recorded each decision on a size as a guard, so the report need not warn of it.
  bool has_guards = false;
};

// Data about a finished export, for the report.
struct ExportReport {
  std::vector<std::pair<std::string, double>> seconds;  // stage -> seconds
  std::vector<std::string> warnings;                    // for the user
  std::vector<std::string> contradictions;  // sizes that inference and the record disagree on
  int64_t aten_nodes = 0;
  int64_t onnx_nodes = 0;
  std::vector<std::string> conditions;  // on sizes, of a recorded program
  std::vector<StateTensor> state;
  std::vector<std::pair<std::string, int64_t>> passes;     // pass -> number of changes
  std::vector<std::pair<std::string, int64_t>> functions;  // name in the model -> number of calls
  std::vector<OperatorUse> operators;                      // of live nodes, sorted by name
  std::map<std::string, std::string> fallbacks;  // operator -> the fallback that lowered it
  std::vector<std::string> missing_kernels;      // nodes that the target's provider has none for
  NanDifferences nan_differences;                // that the lowerings accepted
  PrecisionCounts precision;                     // of the nodes, where options lowered it
  QuantizedWeights weights;                      // where options ask for it
  WeightReads reads;  // the weights whose elements affect the exported graph
};

inline constexpr int64_t kMinOpset = 9;
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
