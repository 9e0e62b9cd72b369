// Types of ATen calls' results, by lowering each call into a graph that is thrown away.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "ops/engine/lower.h"
#include "readers/jit/reader.h"

namespace onnx_native {

// Knows no types where the op table has no lowering: check_operators names those operators later.
// Owns the graph; values and nodes that it was given must outlive it.
class LoweringTypes : public readers::jit::TypeInference {
 public:
  explicit LoweringTypes(ops::Lowerings lowerings, int64_t opset);
  ~LoweringTypes() override;

  std::vector<aten::Type> infer(const aten::Node& node) override;
  void define(const aten::Value& value) override;
  void define(const aten::Constant& constant) override;
  std::optional<double> element(const aten::Value& tensor) override;
  void forget(const aten::Value& value) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace onnx_native
