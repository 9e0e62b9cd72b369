// The strides of a program's tensors, inferred from the calls that make them.
#pragma once

#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "aten/graph.h"
#include "aten/strides.h"

namespace onnx_native::aten {

struct KnownLayout {
  Layout layout;
  bool exact = true;     // false: strides of size-1 dimensions may differ
  bool in_order = true;  // no dimension precedes one of larger stride
  // If the condition holds, the strides are these instead.
  std::optional<std::pair<Condition, std::vector<Stride>>> unless = {};
};

// Record calls in execution order. A value without an entry has unknown strides.
class KnownLayouts {
 public:
  void set_contiguous(const Value* value);
  // Gives `to` the layout of `from`: the same tensor, possibly in another graph.
  void copy(const Value* from, const Value* to);
  void forget(const Value* value) { layouts_.erase(value); }
  // Infers the layouts of a call's results, whose types must be known.
  void record(const Node& node);

  const KnownLayout* find(const Value* value) const;
  // Returns true if the value is contiguous and its strides are exactly those of its sizes.
  bool is_contiguous(const Value* value) const;

 private:
  void set(const Value* value, std::optional<Layout> layout, bool exact, bool in_order);
  void record_write(const Node& node);
  void record_view(const Node& node, const Value* base);
  void record_fresh(const Node& node);

  std::unordered_map<const Value*, KnownLayout> layouts_;
};

}  // namespace onnx_native::aten
