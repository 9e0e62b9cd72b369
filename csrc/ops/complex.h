// Complex numbers. A complex tensor is a real one with a last axis of 2 in ONNX: the real and the
// imaginary part. Arithmetic takes the two apart.
#pragma once

#include <deque>
#include <functional>

#include "ops/op_table.h"

namespace onnx_native::ops {

// The parts, of one dtype and of shapes that broadcast together.
struct Complex {
  Value real = nullptr;
  Value imaginary = nullptr;  // nullptr: zero
};

// Whether `join` made the pairs.
bool is_joined(Value pairs);
Complex split(Builder& b, Value pairs);
Value part(Builder& b, Value pairs, bool imaginary);
Value join(Builder& b, const Complex& z);
// The imaginary part, zeros where there is none.
Value imaginary_part(Builder& b, const Complex& z);

bool is_complex(const aten::Argument& argument);
// The parts of argument i, a tensor or number, real or complex.
Complex complex_argument(const Call& call, size_t i, DType part);
// The dtype of the parts of the call's complex results, or else of its arguments together.
DType part_dtype(const Call& call);

Complex add(Builder& b, const Complex& x, const Complex& y);
Complex sub(Builder& b, const Complex& x, const Complex& y);
Complex mul(Builder& b, const Complex& x, const Complex& y);
Complex div(Builder& b, const Complex& x, const Complex& y);
Complex negated(Builder& b, const Complex& z);
Complex reciprocal(Builder& b, const Complex& z);
Complex sqrt(Builder& b, const Complex& z);
Complex conjugate(Builder& b, const Complex& z);
// All pairs conjugated.
Value conjugate(Builder& b, Value pairs);
Value absolute(Builder& b, const Complex& z);
Value absolute(Builder& b, Value pairs);
// length * (cos(angle) + i sin(angle))
Complex polar(Builder& b, Value length, Value angle);

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

// The entry for real tensors, for `op`'s entry for complex ones to run.
const Lowering& dense_lowering(const OpTable& ops, std::string_view op);
// Runs the entry for real tensors on the real parts, then on the imaginary ones. Arguments that say
// where elements are, or are counts, are the same for both.
Results run_on_parts(const Call& call, const Lowering& dense);
Results run_on_part(const Call& call, const Lowering& dense, bool imaginary);
// Runs the entry for real tensors on something real that is made of each complex tensor.
Results run_through(const Call& call, const Lowering& dense, Value (*make)(Builder&, Value pairs));

void register_complex_views(OpTable& ops);
void register_complex_sums(OpTable& ops);
void register_complex_functions(OpTable& ops);

}  // namespace onnx_native::ops
