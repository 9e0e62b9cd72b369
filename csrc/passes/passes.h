// Rewrites of the ONNX graph. Each pass runs in linear time, keeps the names of inputs, outputs and
// named initializers, and visits sub-graphs. Each has its own file, with its rule in one comment.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/graph.h"

namespace onnx_native::passes {

struct Pass {
  std::string_view name;
  bool (*run)(onnx::Model& model);  // returns true if it changed the graph
};

bool eliminate_dead_code(onnx::Model& model);
bool eliminate_common_subexpressions(onnx::Model& model);
bool fold_constants(onnx::Model& model);
bool simplify_shapes(onnx::Model& model);
bool clean_casts_and_transposes(onnx::Model& model);
bool fuse(onnx::Model& model);
bool fold_batch_norm(onnx::Model& model);

// Rewrites a model of opset 18 or newer into an older opset. Throws ExportError(unsupported) with
// the node and the user's source line if that opset cannot express it.
void express_in_opset(onnx::Model& model, int64_t opset);

// Selects the modules whose calls become functions of the model.
struct ModuleFunctions {
  bool all = false;
  std::vector<std::string> classes;  // "package.module.Class", or its last part
};
// Compiled regions (invoke_subgraph) always become functions. Returns the classes without any node.
std::vector<std::string> outline_modules(onnx::Model& model, const ModuleFunctions& modules);

// Runs all passes if `optimize` is set, otherwise only dead code elimination. Verifies the model
// after each pass if `verify_each` is set.
void run(onnx::Model& model, bool optimize, bool verify_each);

}  // namespace onnx_native::passes
