// A type inference that knows no types, for tests of recorders.
#pragma once

#include <optional>
#include <vector>

#include "aten/type_inference.h"

namespace onnx_native::aten {

struct NoTypes final : TypeInference {
  std::vector<Type> infer(const Node& node) override {
    return std::vector<Type>(node.outputs.size());
  }
  void define(const Value& /*value*/) override {}
  void define(const Constant& /*constant*/) override {}
  std::optional<double> element(const Value& /*tensor*/) override { return std::nullopt; }
  std::optional<Dim> size(const Value& /*tensor*/) override { return std::nullopt; }
  void forget(const Value& /*value*/) override {}
};

}  // namespace onnx_native::aten
