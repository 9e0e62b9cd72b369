// Operators whose results share memory with an argument: when they do, with what strides, and how
// a new view value becomes a new base value.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "aten/graph.h"

namespace onnx_native::aten {

// In elements, one per dimension; nullopt: not known.
using Strides = std::optional<std::vector<Dim>>;

Strides contiguous_strides(const Type& type);

// What the outputs of a node are to its base (the first argument).
enum class Sharing {
  fresh,    // memory of their own
  same,     // the very same tensor object
  view,     // a view of it
  unknown,  // fresh or a view, depending on strides or types that are not known
};
// Whether results of an operator may be anything but fresh.
bool may_share(const Schema& schema);
// `strides` are those of the base; asked only when it matters.
Sharing sharing(const Node& node, const std::function<Strides()>& strides);

// Strides of a view's output, given those of the base.
Strides view_strides(const Node& view, int output, const Strides& base);

// Whether a view shows its whole base, element by element in place (alias, detach, `x[:]`).
bool is_identity_view(const Node& view, int output);

// Emits the new value of a view's base after `written` became the value of its output. `base` gives
// the base's shape; `current_base`, its elements, is asked only when the view leaves some out. The
// new value is named `name`.
// Throws ExportError(unsupported) when a write cannot go through the view.
Value* write_back(Graph& graph, const Node& view, int output, Value* base, Value* written,
                  std::string_view name, const std::function<Value*()>& current_base);

// Throws ExportError(unsupported) with the node and its place in the user's program.
[[noreturn]] void fail_unsupported(const Node& node, const std::string& reason);

}  // namespace onnx_native::aten
