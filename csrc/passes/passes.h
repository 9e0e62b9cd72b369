// Rewrites of the ONNX graph. Each pass runs in linear time, keeps the names of inputs, outputs and
// named initializers, and visits sub-graphs. Each has its own file, with its rule in one comment.
// An initializer that is stored transposed is named "<name>.T", a part "<name>[start:end]",
// parts together "<name>[start:end,start:end]+<name>[start:end]".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "onnx/graph.h"
#include "passes/precision.h"
#include "passes/quantize_weights.h"

namespace onnx_native::passes {

struct Pass {
  std::string_view name;               // users switch the pass off by this name
  int64_t (*run)(onnx::Model& model);  // returns the number of changes
};

int64_t eliminate_dead_code(onnx::Model& model);
int64_t eliminate_common_subexpressions(onnx::Model& model);
int64_t hoist_from_branches(onnx::Model& model);
int64_t hoist_from_loops(onnx::Model& model);
int64_t recognize_recurrences(onnx::Model& model);
int64_t fold_constants(onnx::Model& model);
int64_t simplify_shapes(onnx::Model& model);
int64_t clean_slices(onnx::Model& model);
int64_t slice_early(onnx::Model& model);
int64_t remove_neutral_arithmetic(onnx::Model& model);
int64_t spell_means_of_squares(onnx::Model& model);
int64_t clean_casts_and_transposes(onnx::Model& model);
int64_t fuse(onnx::Model& model);
int64_t fold_batch_norm(onnx::Model& model);
int64_t fold_channel_scales(onnx::Model& model);
int64_t fold_weight_expressions(onnx::Model& model);
int64_t split_weights(onnx::Model& model);
int64_t join_weights(onnx::Model& model);
int64_t lay_out_weights(onnx::Model& model);
int64_t fuse_rms_normalization(onnx::Model& model);
int64_t fuse_layer_normalization(onnx::Model& model);
int64_t fuse_rotary_embedding(onnx::Model& model);
int64_t fuse_gelu(onnx::Model& model);
int64_t fuse_hard_swish(onnx::Model& model);
int64_t fuse_mish(onnx::Model& model);
int64_t fuse_attention(onnx::Model& model);
int64_t drop_row_masks(onnx::Model& model);
int64_t absorb_attention_caches(onnx::Model& model);
int64_t merge_attention_heads(onnx::Model& model);
int64_t reshape_single_axes(onnx::Model& model);
int64_t move_transposes_late(onnx::Model& model);
int64_t keep_product_scales(onnx::Model& model);
int64_t keep_gathered_ranges(onnx::Model& model);

// Rewrites a model of opset 18 or newer in the forms that its target takes (importer_forms.h), and
// into this opset, if that is older. Throws ExportError(unsupported) with the node and the user's
// source line if that opset cannot express it.
void express_in_opset(onnx::Model& model, int64_t opset);

// Selects the modules whose calls become functions of the model.
struct ModuleFunctions {
  bool all = false;
  std::vector<std::string> classes;  // "package.module.Class", or its last part
};
// Compiled regions (invoke_subgraph) always become functions. Returns the classes without any node.
std::vector<std::string> outline_modules(onnx::Model& model, const ModuleFunctions& modules);

// Makes finished models that hold the same matrices store them in the same layout, so that a data
// file needs them once. Returns the number of matrices that changed.
int64_t share_layouts(std::span<onnx::Model* const> models);

struct Options {
  bool optimize = true;      // false runs only what models need to load, and dead code elimination
  bool verify_each = false;  // verify the model after each pass
  std::vector<std::string> disabled;  // names of passes that do not run
  PrecisionOptions precision;
};

// The number of changes that each pass made, for the passes that made any.
using Changes = std::vector<std::pair<std::string, int64_t>>;

// Says what was done to the precision of a model.
struct Lowering {
  PrecisionCounts counts;
  QuantizedWeights weights;
};

// Runs the passes in rounds until nothing changes, at most kMostRounds times. Then lowers the
// precision and quantizes weights, and tells `lowering` (may be nullptr) about it. Throws
// ExportError(invalid_argument) if there is no pass with a name in `disabled`.
Changes run(onnx::Model& model, const Options& options, Lowering* lowering = nullptr);

}  // namespace onnx_native::passes
