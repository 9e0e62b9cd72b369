// ONNX operator schemas of the ai.onnx domain, generated from the installed onnx package by
// generate_schemas.py.
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

// A formal input or output. `types` is a bit set of DTypes (1 << number), or 0 if only sequences or
// optionals are allowed. `type_parameter` names the type variable ("T"): parameters with the same
// name have the same dtype.
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

  bool allows(size_t input, DType dtype) const;  // true if the input accepts that dtype
};

// Returns the newest schema of the operator with since_version <= opset; nullptr if there is none.
const OpSchema* find_schema(std::string_view op_type, int64_t opset);
// Returns true for a standard operator that draws random numbers.
bool is_random(std::string_view op_type);
// Returns the newest opset in the tables.
int64_t newest_opset();

}  // namespace onnx_native::onnx
