// Runs lowerings for real tensors on calls that have complex tensors.
#pragma once

#include <deque>
#include <functional>

#include "aten/op_facts.h"
#include "ops/engine/op_table.h"
#include "ops/formulas/complex.h"

namespace onnx_native::ops {

// A copy of a call with other arguments, on which a lowering for real tensors can run.
class RealCall {
 public:
  explicit RealCall(const Call& call) : call_(call), node_(call.node()) {}
  RealCall(const RealCall&) = delete;
  RealCall& operator=(const RealCall&) = delete;

  aten::Node& node() { return node_; }
  // Replaces argument i, or each element if it is a list, by `rewrite` of it.
  void rewrite(size_t i, const std::function<aten::Argument(const aten::Argument&)>& rewrite);
  // Returns an argument that stands for `original` in this call, with the value and type of `by`.
  aten::Argument replaced(const aten::Value& original, Value by);
  // Replaces the type of each result by `retype` of it.
  void retype_results(const std::function<aten::Type(const aten::Type&)>& retype);
  // Runs `lowering` on this call.
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

// Returns the role of argument i in the operator's schema.
ArgumentRole role_of(const Call& call, size_t i);

// Returns the lowering of `op` for real tensors; throws ExportError(internal) if there is none.
const Lowering& dense_lowering(const OpTable& ops, std::string_view op);
// Runs `dense` on the real parts and on the imaginary parts, and joins the complex results. Index
// tensors and counts are the same in both runs.
Results run_on_parts(const Call& call, const Lowering& dense);
// Runs `dense` on the real or on the imaginary parts; those of real tensors are 0.
Results run_on_part(const Call& call, const Lowering& dense, bool imaginary);
// Runs `dense` with each complex tensor replaced by the real tensor `make(pairs)`.
Results run_through(const Call& call, const Lowering& dense,
                    const std::function<Value(Builder&, Value pairs)>& make);

}  // namespace onnx_native::ops
