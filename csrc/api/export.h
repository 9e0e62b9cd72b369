// The export pipeline: functionalize, verify, lower, passes, verify.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "aten/graph.h"
#include "onnx/graph.h"
#include "ops/lower.h"

namespace onnx_native {

// Which updates of buffers and inputs become part of the model: a buffer as an input of its name
// and an output `<name>_out`, an input as an output.
struct StateOptions {
  bool all = false;
  std::vector<std::string> names;  // of buffers and inputs
};

struct ExportOptions {
  int64_t opset = 20;
  bool optimize = true;
  // New names for the first inputs and outputs; empty keeps the program's.
  std::vector<std::string> input_names;
  std::vector<std::string> output_names;
  StateOptions state;
  bool verify = false;  // check the graph after lowering and after each pass
  std::string producer_version;
  const ops::OpTable* table = nullptr;  // nullptr: the process's
  ops::ForeignLowerings* foreign = nullptr;
};

// A buffer or input whose update is part of the model.
struct StateTensor {
  std::string target;
  std::optional<TensorData> initial;  // of a buffer
  size_t input = 0;                   // its places among the model's inputs and outputs
  size_t output = 0;
};

// What an export did, for the report.
struct ExportReport {
  std::vector<std::pair<std::string, double>> seconds;  // stage -> seconds
  std::vector<std::string> warnings;                    // for the user
  int64_t aten_nodes = 0;
  int64_t onnx_nodes = 0;
  std::vector<StateTensor> state;
  std::vector<std::pair<std::string, int64_t>> operators;  // live ATen operators and how often
};

inline constexpr int64_t kMinOpset = 18;

// Lowers the program (functionalizing it in place). The model refers to the graph's weights and
// locations: `graph` must outlive it.
std::unique_ptr<onnx::Model> export_graph(aten::Graph& graph, const ExportOptions& options,
                                          ExportReport* report = nullptr);

}  // namespace onnx_native
