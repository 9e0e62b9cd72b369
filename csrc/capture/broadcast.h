// Sizes that must be equal: operators that write to a tensor broadcast the others to it, and a size
// that depends on data must fit that of a tensor.
#pragma once

#include <optional>

#include "capture/call.h"

namespace onnx_native::capture {

// Notes the sizes that an operator such as add_ needs.
void note_broadcast(const Call& call);
// Notes the equations of sizes that depend on data by which a call that failed may succeed: a mask
// of arange(lengths.max()) meets a tensor that is as long, and eager fails unless they are equal.
void note_identities(const Call& call);

struct Joined {
  torch::jit::Stack metas;
  Shape shape;  // of the results
};
// Runs the meta kernel of an elementwise operator where a size that depends on data must be another
// size of the call: the numbers that stand for them differ. Returns nullopt for other calls.
std::optional<Joined> run_joined(const Call& call);

// Returns the result of a view whose base has as many elements when the model runs, but not at the
// numbers that stand for sizes that depend on data. Returns nullopt for other calls.
std::optional<at::Tensor> viewed_by_data(const Call& call);

}  // namespace onnx_native::capture
