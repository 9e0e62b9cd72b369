// What a Program owns.
#pragma once

#include <memory>

#include "api/export.h"
#include "onnx_native/program.h"

namespace onnx_native {

struct ProgramContents {
  std::unique_ptr<aten::Graph> graph;  // weights and locations, to which the model refers
  std::unique_ptr<onnx::Model> model;
  ExportReport report;
};

// Exports a program that was read; `reads`: the weights whose elements decided how.
Program export_program(std::unique_ptr<aten::Graph> graph, const ExportOptions& options,
                       WeightReads reads = {});

}  // namespace onnx_native
