// The data that a Program owns.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "api/export.h"
#include "onnx_native/program.h"

namespace onnx_native {

struct ProgramContents {
  // The program, and the calls that foreign lowerings decomposed. They own the weights and
  // locations that the model refers to.
  std::unique_ptr<aten::Graph> graph;
  std::vector<std::shared_ptr<aten::Graph>> decomposed;
  std::unique_ptr<onnx::Model> model;
  ExportReport report;
};

// Exports the program that `read` returns. The report includes the time that `read` took and the
// weights that it read.
Program export_program(const std::function<std::unique_ptr<aten::Graph>()>& read,
                       const ExportOptions& options, const PipelineOptions& pipeline = {});

}  // namespace onnx_native
