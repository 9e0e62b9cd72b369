// The strides of a program's tensors, as far as they can be told from the calls that make them.
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
  bool exact = true;     // false: the strides of dimensions of size 1 may be others
  bool in_order = true;  // no dimension is before one of larger stride
  // Where the condition holds, the strides are these.
  std::optional<std::pair<Condition, std::vector<Stride>>> unless = {};
};

// Filled call by call, in execution order. A value without an entry has unknown strides.
class KnownLayouts {
 public:
  void set_contiguous(const Value* value);
  // `to` is the same tensor as `from`, in another graph.
  void copy(const Value* from, const Value* to);
  void forget(const Value* value) { layouts_.erase(value); }
  // The results of a call, whose types are known.
  void record(const Node& node);

  const KnownLayout* find(const Value* value) const;
  // The value is contiguous, and its strides are those of its sizes.
  bool is_contiguous(const Value* value) const;

 private:
  void set(const Value* value, std::optional<Layout> layout, bool exact, bool in_order);
  void record_write(const Node& node);
  void record_view(const Node& node, const Value* base);
  void record_fresh(const Node& node);

  std::unordered_map<const Value*, KnownLayout> layouts_;
};

}  // namespace onnx_native::aten
