#include "passes/passes.h"

namespace onnx_native::passes {
namespace {

constexpr Pass kPasses[] = {
    {"shape simplification", simplify_shapes},
    {"cast and transpose cleanup", clean_casts_and_transposes},
    {"dead code elimination", eliminate_dead_code},
    {"fusion", fuse},
    {"batch normalization folding", fold_batch_norm},
    {"constant folding", fold_constants},
    {"common subexpression elimination", eliminate_common_subexpressions},
    {"dead code elimination", eliminate_dead_code},
};
constexpr int kMostRounds = 2;

bool run_pass(const Pass& pass, onnx::Model& model, bool verify_each) {
  const bool changed = pass.run(model);
  if (verify_each) onnx::verify(model, pass.name);
  return changed;
}

}  // namespace

void run(onnx::Model& model, bool optimize, bool verify_each) {
  if (!optimize) {
    run_pass({"dead code elimination", eliminate_dead_code}, model, verify_each);
    return;
  }
  bool changed = true;
  for (int round = 0; changed && round < kMostRounds; ++round) {
    changed = false;
    for (const Pass& pass : kPasses) changed |= run_pass(pass, model, verify_each);
  }
}

}  // namespace onnx_native::passes
