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

}  // namespace onnx_native
