// Lowerings of an application's own operators: which ONNX nodes a call becomes.
//
//   onnx_native::register_lowering("mylib::scaled_gelu", [](Builder& b, Value x, double scale) {
//     return b.Mul(b.op("Gelu", {x}), b.like(x, scale));
//   });
//
// The lambda's parameters follow the operator's schema: the table is at the top of
// ops/engine/binder.h. What Builder can do is in onnx/builder.h.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "ops/engine/op_table.h"

namespace onnx_native {

using ops::Promote;

// Registers the lowering of "namespace::name[.overload]", or replaces it; it wins over a native
// one. `promote` says how tensor arguments come to one dtype before it runs. Not to be called while
// another thread exports.
template <class Lowering>
void register_lowering(std::string op, Promote promote, Lowering lowering) {
  ops::op_table().override_def(std::move(op), ops::bind(promote, std::move(lowering)));
}
template <class Lowering>
void register_lowering(std::string op, Lowering lowering) {
  register_lowering(std::move(op), Promote::none, std::move(lowering));
}

// Takes it back; a native one counts again.
inline void unregister_lowering(std::string_view op) { ops::op_table().remove_override(op); }

}  // namespace onnx_native
