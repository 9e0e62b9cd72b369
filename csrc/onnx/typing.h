// Writes the types of values, for inference, the Builder, and passes that copy values. Lowerings
// call Builder::refine instead.
#pragma once

#include "onnx/graph.h"

namespace onnx_native::onnx {

struct Typing {
  static void set(Value& value, DType dtype, std::optional<Shape> shape);
  static void set_dtype(Value& value, DType dtype) { value.dtype.fact_ = dtype; }
  static void set_shape(Value& value, std::optional<Shape> shape);
  static void set_contents(Value& value, std::optional<Shape> contents);
  // Copies dtype, shape, kind and contents.
  static void copy(const Value& from, Value& to);
  // Merges the stated shape with the inferred one: constants win over symbols, `stated` over other
  // symbols. Throws ExportError(internal) if ranks or constants differ.
  static void refine(Value& value, Shape stated);
};

}  // namespace onnx_native::onnx
