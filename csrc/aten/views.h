// Operators whose results share memory with an argument: when they do, where their elements lie,
// and how a new view value becomes a new base value.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "aten/graph.h"
#include "aten/strides.h"

namespace onnx_native::aten {

// What the outputs of a node are to its base (the first argument).
struct Sharing {
  enum class Kind {
    fresh,    // memory of their own
    same,     // the very same tensor object
    view,     // a view of it
    depends,  // a view of it where `condition` holds, else fresh
    unknown,  // fresh or a view: `cause` says what would have to be known
  };
  Kind kind = Kind::fresh;
  bool maybe_same = false;  // a view may be the very same object
  Condition condition;
  std::string cause;
};

// A dropout that returns its argument: not in training, or of probability 0.
bool is_idle_dropout(const Node& node);
// Whether results of an operator may be anything but fresh.
bool may_share(const Schema& schema);
// `layout` is that of the base; asked only when it matters.
Sharing sharing(const Node& node, const std::function<std::optional<Layout>()>& layout);

// The layout of a view's output, given that of the base.
std::optional<Layout> view_layout(const Node& view, int output, const std::optional<Layout>& base);

// Whether a view shows its whole base, element by element in place (alias, detach, `x[:]`).
bool is_identity_view(const Node& view, int output);

// Two elements of a view may be one element of its base.
bool may_overlap(const Node& view, int output);

// The value, or a clone of it, so that its strides are those of its shape: for as_strided.
Value* own_memory(Graph& graph, Value* value, const Location* location);

// Emits the new value of a view's base after `written` became the value of its output. `base` gives
// the base's shape; `current_base`, its elements, is asked only when the view leaves some out. The
// new value is named `name`.
// Throws ExportError(unsupported) when a write cannot go through the view.
Value* write_back(Graph& graph, const Node& view, int output, Value* base, Value* written,
                  std::string_view name, const std::function<Value*()>& current_base);

}  // namespace onnx_native::aten
