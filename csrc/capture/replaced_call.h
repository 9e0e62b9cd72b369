// Calls that are recorded as other calls. Each function replaces the arguments on the stack by the
// results, and returns false for a call that it leaves alone.
#pragma once

#include "capture/call.h"

namespace onnx_native::capture {

// Records x.pin_memory() and x.is_pinned().
bool record_pinned(const Call& call, torch::jit::Stack& stack);
// Runs a call on `device` that draws from a generator that the program seeded, so that its numbers
// are those of eager: the same in every run, so that they are constants of the model.
bool record_draw(const Call& call, const c10::Device& device, torch::jit::Stack& stack);
// Records a slice as narrow() if no range proves whether a bound counts from the start or from the
// end. Guards say which it is: x[t : t + 8] with t = (n - 8) // 2.
bool record_slice(const Call& call, torch::jit::Stack& stack);
// Records unbind() along a counted size, and split() into pieces of size 1, as calls of select().
bool record_rows(const Call& call, torch::jit::Stack& stack);
// Records split() and chunk() of a dynamic size as split_with_sizes() if the number of pieces is
// the same at other sizes too, which a guard says.
bool record_pieces(const Call& call, torch::jit::Stack& stack);

}  // namespace onnx_native::capture
