// The interface through which readers and captures learn the types of a call's results.
#pragma once

#include <optional>
#include <vector>

#include "aten/graph.h"

namespace onnx_native::aten {

// Infers the types of results while a graph is recorded. TorchScript does not record types, and
// PyTorch's meta kernels compute no symbolic sizes; a recorder needs both to resolve the conditions
// of a program. It sees the calls in their order, and the graphs' values and nodes outlive it.
class TypeInference {
 public:
  virtual ~TypeInference() = default;
  // Returns the types of a call's results. The node's arguments must be complete. A result without
  // a known type has the kind `unknown`.
  virtual std::vector<Type> infer(const Node& node) = 0;
  // Declares a value without a call: a graph input or a control-flow result.
  virtual void define(const Value& value) = 0;
  virtual void define(const Constant& constant) = 0;
  // Returns the element of a constant float or bool tensor with one element, else nullopt.
  virtual std::optional<double> element(const Value& tensor) = 0;
  // Returns the element of an integer tensor with one element if it follows from sizes and
  // constants, else nullopt.
  virtual std::optional<Dim> size(const Value& tensor) = 0;
  // Invalidates the contents of a tensor after a write that `infer` did not see.
  virtual void forget(const Value& value) = 0;
};

}  // namespace onnx_native::aten
