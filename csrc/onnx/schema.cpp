#include "onnx/schema.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <unordered_set>
#include <utility>

namespace onnx_native::onnx {
namespace {

#include "generated/schemas.inc"

}  // namespace

bool OpSchema::allows(size_t input, DType dtype) const {
  if (inputs.empty()) return false;
  const SchemaParameter& parameter = inputs[std::min(input, inputs.size() - 1)];
  return (input < inputs.size() || parameter.option == SchemaParameter::Option::variadic) &&
         ((parameter.types >> static_cast<unsigned>(dtype)) & 1) != 0;
}

const OpSchema* find_schema(std::string_view op_type, int64_t opset) {
  const auto key = [](const OpSchema& schema) {
    return std::pair<std::string_view, int64_t>(schema.op_type, schema.since_version);
  };
  const OpSchema* after =
      std::ranges::upper_bound(kSchemas, std::pair(op_type, opset), std::less<>(), key);
  if (after == std::begin(kSchemas) || std::prev(after)->op_type != op_type) return nullptr;
  return std::prev(after);
}

bool is_random(std::string_view op_type) {
  static const std::unordered_set<std::string_view> kRandom{
      "Bernoulli",        "Dropout",       "Multinomial",       "RandomNormal",
      "RandomNormalLike", "RandomUniform", "RandomUniformLike",
  };
  return kRandom.contains(op_type);
}

int64_t newest_opset() { return kNewestOpset; }

}  // namespace onnx_native::onnx
