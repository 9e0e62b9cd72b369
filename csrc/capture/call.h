// One call of a program: the operator and its arguments.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <string>
#include <vector>

#include "aten/op_facts.h"
#include "capture/recording.h"

namespace onnx_native::capture {

// A call that the recorder records. Symbols take the place of numbers that stand for dynamic sizes.
// The parts of the recorder read a call and do not change it.
class Call {
 public:
  // The arguments are the last values of the stack.
  Call(Recording& recording, const c10::OperatorHandle& op, c10::DispatchKeySet keys,
       const torch::jit::Stack& stack);

  Decisions& decisions() const { return recording.decisions(); }
  const std::string& name() const { return op.operator_name().name; }  // "aten::add"
  bool has_recorded() const;  // an argument is a recorded tensor, or contains one
  // Returns true if all tensors follow from literals of the program.
  bool has_literals_only() const;
  // Returns the dimension that the operator cuts into pieces.
  size_t cut_axis(size_t rank) const;
  [[noreturn]] void refuse(const std::string& reason, RefusalKind kind = RefusalKind::other) const;

  Recording& recording;
  const c10::OperatorHandle& op;
  const c10::DispatchKeySet keys;
  const std::string key;             // "aten::add.Tensor"
  const aten::Schema* const schema;  // nullptr if the operator has none
  const aten::OpFacts& facts;        // in the table; none without a schema
  const bool reshapes;               // see aten::reshapes_in_place
  std::vector<c10::IValue> arguments;
  bool has_tensors = false;  // among the arguments

 private:
  void recognize_sizes();
};

// Calls visit(tensor) for each defined tensor of an argument.
template <class Visit>
void for_each_tensor(const c10::IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) for_each_tensor(item, visit);
  }
}

// Returns true for a tensor that PyTorch made of a number, such as the 2 of x * 2.
inline bool is_wrapped_number(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() && !recorded(value.toTensor()) &&
         value.toTensor().unsafeGetTensorImpl()->is_wrapped_number();
}

}  // namespace onnx_native::capture
