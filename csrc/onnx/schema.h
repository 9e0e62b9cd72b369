// ONNX operator schemas of the ai.onnx domain, generated from the installed onnx package
// (generate_schemas.py).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/dtype.h"

namespace onnx_native::onnx {

enum class AttributeKind : uint8_t {
  integer,
  floating,
  string,
  integers,
  floats,
  strings,
  tensor,
  graph,
  other
};

struct SchemaAttribute {
  std::string_view name;
  AttributeKind kind;
  bool required;
};

// A formal input or output. `types` is a set of DTypes as bits (1 << number); `type_parameter`
// names the type variable ("T") so that equal names mean equal dtypes; 0 where only sequences or
// optionals are allowed.
struct SchemaParameter {
  std::string_view name;
  std::string_view type_parameter;
  uint32_t types;
  enum class Option : uint8_t { single, optional, variadic } option;
  bool homogeneous;
};

struct OpSchema {
  std::string_view op_type;
  int since_version;
  bool deprecated;
  int min_inputs, max_inputs, min_outputs, max_outputs;
  std::span<const SchemaParameter> inputs, outputs;
  std::span<const SchemaAttribute> attributes;

  bool allows(size_t input, DType dtype) const;  // whether the input takes that dtype
};

// The newest schema of the operator whose since_version <= opset; nullptr when there is none.
const OpSchema* find_schema(std::string_view op_type, int64_t opset);
// The newest opset that the tables know.
int64_t newest_opset();

}  // namespace onnx_native::onnx
