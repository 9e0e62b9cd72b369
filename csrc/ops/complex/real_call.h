// Runs the lowerings for real tensors in calls with complex ones.
#pragma once

#include <deque>
#include <functional>

#include "aten/op_facts.h"
#include "ops/engine/op_table.h"
#include "ops/formulas/complex.h"

namespace onnx_native::ops {

// A call with other arguments at the place of this one, for running a lowering for real tensors.
class RealCall {
 public:
  explicit RealCall(const Call& call) : call_(call), node_(call.node()) {}
  RealCall(const RealCall&) = delete;
  RealCall& operator=(const RealCall&) = delete;

  aten::Node& node() { return node_; }
  // Every tensor or literal of argument i, also in a list, becomes what `rewrite` makes of it.
  void rewrite(size_t i, const std::function<aten::Argument(const aten::Argument&)>& rewrite);
  // What stands for the program's value `original` in this call.
  aten::Argument replaced(const aten::Value& original, Value by);
  // The results' types become what `retype` makes of them.
  void retype_results(const std::function<aten::Type(const aten::Type&)>& retype);
  Results run(const Lowering& lowering);

 private:
  aten::Argument rewritten(const aten::Argument& argument,
                           const std::function<aten::Argument(const aten::Argument&)>& rewrite);

  const Call& call_;
  aten::Node node_;
  Environment environment_;
  std::deque<aten::Value> values_;
};
using aten::ArgumentRole;

ArgumentRole role_of(const Call& call, size_t i);

// The entry for real tensors, for `op`'s entry for complex ones to run.
const Lowering& dense_lowering(const OpTable& ops, std::string_view op);
// Runs the entry for real tensors on the real parts, then on the imaginary ones. Arguments that say
// where elements are, or are counts, are the same for both.
Results run_on_parts(const Call& call, const Lowering& dense);
Results run_on_part(const Call& call, const Lowering& dense, bool imaginary);
// Runs the entry for real tensors on something real that is made of each complex tensor.
Results run_through(const Call& call, const Lowering& dense, Value (*make)(Builder&, Value pairs));

}  // namespace onnx_native::ops
