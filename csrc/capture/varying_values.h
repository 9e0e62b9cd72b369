// Values of a recorded graph that are not the same in every call.
#pragma once

#include <unordered_map>
#include <unordered_set>

#include "aten/graph.h"

namespace onnx_native::capture {

// The values that depend on the graph's inputs or on random numbers, by their elements. A write to
// memory that values share changes all of them.
class VaryingValues {
 public:
  explicit VaryingValues(const aten::Graph& graph);
  bool contains(const aten::Value* value) { return varying_.contains(memory_of(value)); }

 private:
  // Returns the value that stands for those that may share memory with this one. Shortens the way
  // to it.
  const aten::Value* memory_of(const aten::Value* value);
  void share(const aten::Node& node);
  bool uses_varying(const aten::Argument& argument);
  void add_written(const aten::Node& node);

  std::unordered_map<const aten::Value*, const aten::Value*> shared_;  // with another value
  std::unordered_set<const aten::Value*> varying_;                     // one for each memory
};

// Returns true for a call that may draw random numbers.
bool is_random(const aten::Node& node);

}  // namespace onnx_native::capture
