// Aliasing of views with their bases: when a result aliases its argument, the layout of a view, and
// the write-back of a written view into its base.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "aten/graph.h"
#include "aten/strides.h"

namespace onnx_native::aten {

// The aliasing between the outputs of a node and their base (the first argument).
struct Sharing {
  enum class Kind {
    fresh,    // no aliasing
    same,     // the same tensor object
    view,     // a view of it
    depends,  // a view of it if `condition` holds, else fresh
    unknown,  // fresh or a view; `cause` says which fact is missing
  };
  Kind kind = Kind::fresh;
  bool maybe_same = false;  // a view may be the same object
  Condition condition;
  std::string cause;
};

// Returns true for a dropout that returns its argument: not in training, or with probability 0.
bool is_idle_dropout(const Node& node);
// Returns true if results of an operator may alias an argument.
bool may_share(const Schema& schema);
// Returns the aliasing of a call's results. `layout` returns the base's layout; it is called only
// if needed.
Sharing sharing(const Node& node, const std::function<std::optional<Layout>()>& layout);

// Returns the layout of a view's output, given the layout of the base. Throws
// ExportError(invalid_program) if the program records another rank than the view has.
std::optional<Layout> view_layout(const Node& view, int output, const std::optional<Layout>& base);

// Returns true if a view shows its whole base, element by element in place (alias, detach, `x[:]`).
bool is_identity_view(const Node& view, int output);

// Returns true if two elements of a view may be the same element of its base.
bool may_overlap(const Node& view, int output);

// Returns the value, or a clone of it if it is a view, so that as_strided sees contiguous strides.
Value* own_memory(Graph& graph, Value* value, const Location* location);

// Emits the new value of a view's base after `written` became the value of its output. `base` gives
// the base's shape. `current_base` returns its elements; it is called only if the view omits some
// of them. The new value is named `name`. Throws ExportError(unsupported) if a write cannot go
// through the view.
Value* write_back(Graph& graph, const Node& view, int output, Value* base, Value* written,
                  std::string_view name, const std::function<Value*()>& current_base);

}  // namespace onnx_native::aten
