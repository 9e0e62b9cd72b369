// Branches and loops that a program states as higher-order operators: cond, while_loop, scan, map.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capture/region.h"

namespace onnx_native::capture {

// Records a call of a higher-order operator after its regions have ended. Refuses branches that
// return different types, and loops whose carried tensors change their type.
class ControlFlow {
 public:
  using Tensors = std::vector<at::Tensor>;

  explicit ControlFlow(Recording& recording) : recording_(recording) {
    recording_.frame().set_location(recording_.host().location());
  }

  // The condition is a tensor with one element or a condition on sizes.
  Tensors cond(const c10::IValue& condition, Region& yes, Region& no);
  // `condition` and `body` have an input for each of the carried tensors.
  Tensors while_loop(const Tensors& carried, Region& condition, Region& body);
  // `body` has an input for each of `init` and `xs`; its first results are the next `init`.
  // The others are stacked, or concatenated along the axis that `axes` has for a result: the sizes
  // along it may differ between steps. It is nullopt for a result that is stacked.
  Tensors scan(const Tensors& init, const Tensors& xs, Region& body,
               const std::vector<std::optional<size_t>>& axes = {});
  // `body` has an input for each of `xs`.
  Tensors map(const Tensors& xs, Region& body);

  // Returns an argument for a condition; adds nodes to the current graph that compute it.
  aten::Argument condition_argument(const c10::IValue& condition);

 private:
  aten::Argument::List values(const Tensors& tensors);
  aten::Node* add(const char* op, std::vector<aten::Argument> arguments);
  Dim length(const Tensors& xs);
  at::Tensor result(aten::Node* node, const Region::Result& of);
  at::Tensor last(aten::Node* node, const at::Tensor& carried, const Region::Result& of);
  at::Tensor grown(aten::Node* node, const at::Tensor& carried, const Region::Growth& growth,
                   const Dim& steps);
  at::Tensor stacked(aten::Node* node, const Region::Result& of, const Dim& length);
  at::Tensor concatenated(aten::Node* node, const Region::Result& of, size_t axis);
  at::Tensor made(aten::Node* node, at::Tensor meta, aten::Type type, c10::Device device);
  at::Tensor either(aten::Node* node, const Region::Result& a, const Region::Result& b);
  void check_carried(const Tensors& carried, const Region& body);
  [[noreturn]] void refuse(const std::string& reason) { recording_.decisions().refuse(reason); }

  Recording& recording_;
};

}  // namespace onnx_native::capture
