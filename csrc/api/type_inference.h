// Infers the result types of ATen calls by lowering each call into a scratch graph.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "aten/type_inference.h"
#include "ops/engine/lower.h"

namespace onnx_native {

// Returns unknown types for operators without a lowering; check_operators reports these later. Owns
// the scratch graph. The values and nodes passed in must outlive it.
class LoweringTypes : public aten::TypeInference {
 public:
  explicit LoweringTypes(ops::Lowerings lowerings, int64_t opset);
  ~LoweringTypes() override;

  std::vector<aten::Type> infer(const aten::Node& node) override;
  void define(const aten::Value& value) override;
  void define(const aten::Constant& constant) override;
  std::optional<double> element(const aten::Value& tensor) override;
  std::optional<Dim> size(const aten::Value& tensor) override;
  void forget(const aten::Value& value) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Returns the inference of the built-in lowerings at the oldest opset that they support.
std::unique_ptr<LoweringTypes> builtin_types();

}  // namespace onnx_native
