#include "passes/passes.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/device_weight.h"
#include "base/name_patterns.h"
#include "passes/quantized_weights.h"

namespace onnx_native::passes {
namespace {

constexpr Pass kLateTransposes = {"late_transposes", move_transposes_late};
// Run once, after all rounds: other passes would fold what they write.
constexpr std::array kLastPasses = {
    Pass{"product_scales", keep_product_scales},
    Pass{"gathered_ranges", keep_gathered_ranges},
};
constexpr std::array kPasses = {
    Pass{"shapes", simplify_shapes},
    Pass{"casts_and_transposes", clean_casts_and_transposes},
    Pass{"branches", hoist_from_branches},
    Pass{"loops", hoist_from_loops},
    Pass{"recurrences", recognize_recurrences},
    Pass{"dead_code", eliminate_dead_code},
    Pass{"layer_normalization", fuse_layer_normalization},  // else rms_normalization matches a part
    Pass{"rms_normalization", fuse_rms_normalization},
    Pass{"rotary_embedding", fuse_rotary_embedding},
    Pass{"gelu", fuse_gelu},
    Pass{"hard_swish", fuse_hard_swish},
    Pass{"mish", fuse_mish},
    Pass{"row_masks", drop_row_masks},
    Pass{"attention", fuse_attention},
    Pass{"attention_cache", absorb_attention_caches},
    Pass{"merged_heads", merge_attention_heads},
    Pass{"single_transposes", reshape_single_axes},
    Pass{"neutral_arithmetic", remove_neutral_arithmetic},
    Pass{"slices", clean_slices},
    Pass{"early_slices", slice_early},
    Pass{"unpacked_weights", dequantize_unpacked_weights},  // else others fold parts of them
    Pass{"quantized_weights", fuse_quantized_weights},
    Pass{"gemm", fuse},
    Pass{"batch_normalization", fold_batch_norm},
    Pass{"channel_scales", fold_channel_scales},
    Pass{"weight_parts", split_weights},
    Pass{"joined_weights", join_weights},
    Pass{"weight_layout", lay_out_weights},
    Pass{"packed_weights", pack_weights},  // has no strides, so it cannot be laid out
    Pass{"weight_expressions", fold_weight_expressions},  // else constants folds parts of them
    Pass{"constants", fold_constants},
    Pass{"integer_products", use_integer_products},
    Pass{"subexpressions", eliminate_common_subexpressions},
    Pass{"dead_code", eliminate_dead_code},
    Pass{"means_of_squares", spell_means_of_squares},  // no fusion found a use for the square
    kLateTransposes,
};
constexpr int kMostRounds = 4;

void check_names(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (std::ranges::find(kPasses, name, &Pass::name) != kPasses.end()) continue;
    if (std::ranges::find(kLastPasses, name, &Pass::name) != kLastPasses.end()) continue;
    std::string known;
    for (const Pass& pass : kPasses) {
      if (&*std::ranges::find(kPasses, pass.name, &Pass::name) != &pass) continue;
      known += (known.empty() ? "" : ", ") + std::string(pass.name);
    }
    for (const Pass& pass : kLastPasses) known += ", " + std::string(pass.name);
    fail(ErrorKind::invalid_argument, "there is no pass named ", name, "; the passes are ", known);
  }
}

// Runs passes and counts their changes.
class Rounds {
 public:
  Rounds(onnx::Model& model, const Options& options) : model_(model), options_(options) {}

  // Runs the pass. Does nothing if it is disabled.
  void run(const Pass& pass) {
    if (std::ranges::find(options_.disabled, pass.name) != options_.disabled.end()) return;
    const HostCopies copies;
    const int64_t changes = pass.run(model_);
    if (options_.verify_each) onnx::verify(model_, pass.name);
    if (changes == 0) return;
    total_ += changes;
    auto found = std::ranges::find(changes_, pass.name, &Changes::value_type::first);
    if (found == changes_.end()) found = changes_.insert(found, {std::string(pass.name), 0});
    found->second += changes;
  }
  int64_t total() const { return total_; }
  Changes take() { return std::move(changes_); }

 private:
  onnx::Model& model_;
  const Options& options_;
  Changes changes_;
  int64_t total_ = 0;
};

void run_rounds(Rounds& rounds) {
  // The number of changes when each pass began to run last.
  std::array<int64_t, kPasses.size()> seen;
  seen.fill(-1);
  for (int round = 0; round < kMostRounds; ++round) {
    for (size_t i = 0; i < kPasses.size(); ++i) {
      if (seen[i] == rounds.total()) continue;
      seen[i] = rounds.total();
      rounds.run(kPasses[i]);
    }
  }
}

}  // namespace

Changes run(onnx::Model& model, const Options& options, Lowering* lowering) {
  check_names(options.disabled);
  check_quantization(model);
  const std::vector<std::string>& float32 = options.precision.float32_modules;
  if (!float32.empty()) check_patterns("float32_modules", float32, module_names(model));
  Rounds rounds(model, options);
  if (options.optimize) run_rounds(rounds);
  PrecisionCounts counts = lower_precision(model, options.precision);
  if (options.verify_each) onnx::verify(model, "precision");
  const bool is_lowered = options.precision.precision != Precision::program;
  if (!options.optimize || is_lowered) rounds.run(kLateTransposes);
  for (const Pass& pass : kLastPasses) rounds.run(pass);
  rounds.run({"dead_code", eliminate_dead_code});
  QuantizedWeights weights = quantize_weights(model);
  if (options.verify_each) onnx::verify(model, "quantize_weights");
  if (lowering) *lowering = {std::move(counts), std::move(weights)};
  return rounds.take();
}

}  // namespace onnx_native::passes
