// Fills in the report of an export: numbers and warnings.
#pragma once

#include <string>
#include <vector>

#include "api/export.h"
#include "api/state.h"

namespace onnx_native {

// Results of the stages of an export that only its report tells.
struct Findings {
  // The module classes that the user asked to turn into functions, but that no node comes from.
  const std::vector<std::string>& unseen;
  const std::vector<Fault>& contradictions;      // between the inferred and the recorded sizes
  const std::vector<std::string>& assumptions;   // about sizes, that are no guards
  const std::vector<std::string>& output_names;  // that the user gave
};

// Describes a finished export.
void describe(ExportReport& report, const aten::Graph& graph, onnx::Model& model, State& state,
              const Findings& findings);

}  // namespace onnx_native
