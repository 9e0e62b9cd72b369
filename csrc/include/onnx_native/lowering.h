// Registers lowerings for an application's own operators. A lowering emits a call's ONNX nodes.
//
//   onnx_native::register_lowering("mylib::scaled_gelu", [](Builder& b, Value x, double scale) {
//     return b.Mul(b.op("Gelu", {x}), b.like(x, scale));
//   });
//
// The lambda's parameters follow the operator's schema: ops/engine/binder.h lists the parameter
// types for each schema type. onnx/builder.h declares Builder.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "ops/engine/op_table.h"

namespace onnx_native {

using ops::Promote;  // the type promotion of a call's arguments

// Registers the lowering of `op`, "namespace::name[.overload]". It replaces an earlier registration
// and takes precedence over the native lowering. `promote` selects the type promotion of the tensor
// arguments before the lowering runs. Not thread-safe: do not call it while another thread exports.
template <class Lowering>
void register_lowering(std::string op, Promote promote, Lowering lowering) {
  ops::op_table().override_def(std::move(op), ops::bind(promote, std::move(lowering)));
}
// The same without type promotion.
template <class Lowering>
void register_lowering(std::string op, Lowering lowering) {
  register_lowering(std::move(op), Promote::none, std::move(lowering));
}

// Removes the registered lowering of `op`, if any, so that the native lowering applies again. Not
// thread-safe, like register_lowering.
inline void unregister_lowering(std::string_view op) { ops::op_table().remove_override(op); }

}  // namespace onnx_native
