// Rewrites of the ONNX graph. Each is linear in the graph, keeps the names of inputs, outputs and
// named initializers, and goes into sub-graphs. Each lives in a file of its own, with its rule in
// one comment.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/graph.h"

namespace onnx_native::passes {

struct Pass {
  std::string_view name;
  bool (*run)(onnx::Model& model);  // whether it changed the graph
};

bool eliminate_dead_code(onnx::Model& model);
bool eliminate_common_subexpressions(onnx::Model& model);
bool fold_constants(onnx::Model& model);
bool simplify_shapes(onnx::Model& model);
bool clean_casts_and_transposes(onnx::Model& model);
bool fuse(onnx::Model& model);
bool fold_batch_norm(onnx::Model& model);

// Brings a model whose nodes are those of opset 18 at least into an older opset. Throws
// ExportError(unsupported) with the node and the user's source line where that opset has no form.
void express_in_opset(onnx::Model& model, int64_t opset);

// Which modules' calls become functions of the model.
struct ModuleFunctions {
  bool all = false;
  std::vector<std::string> classes;  // "package.module.Class", or its last part
};
// Compiled regions (invoke_subgraph) always become functions. Gives the classes that no node is in.
std::vector<std::string> outline_modules(onnx::Model& model, const ModuleFunctions& modules);

// Runs all of them (optimize) or only dead code elimination; verifies after each when
// `verify_each`.
void run(onnx::Model& model, bool optimize, bool verify_each);

}  // namespace onnx_native::passes
