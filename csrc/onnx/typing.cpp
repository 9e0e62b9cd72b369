#include "onnx/typing.h"

#include <utility>

namespace onnx_native::onnx {

void Typing::set(Value& value, DType dtype, std::optional<Shape> shape) {
  value.dtype.fact_ = dtype;
  value.shape.fact_ = std::move(shape);
}

void Typing::set_shape(Value& value, std::optional<Shape> shape) {
  value.shape.fact_ = std::move(shape);
}

void Typing::set_contents(Value& value, std::optional<Shape> contents) {
  value.contents.fact_ = std::move(contents);
}

void Typing::copy(const Value& from, Value& to) {
  to.dtype = from.dtype;
  to.shape = from.shape;
  to.kind = from.kind;
  to.contents = from.contents;
}

void Typing::refine(Value& value, Shape stated) {
  if (const std::optional<Shape>& inferred = value.shape) {
    const auto contradiction = [&] {
      fail(ErrorKind::internal, "the inferred shape ", str(*inferred),
           " contradicts the stated shape ", str(stated));
    };
    if (inferred->size() != stated.size()) contradiction();
    for (size_t axis = 0; axis < stated.size(); ++axis) {
      const Dim& known = (*inferred)[axis];
      if (!known.is_constant()) continue;
      if (stated[axis].is_constant() && stated[axis] != known) contradiction();
      stated[axis] = known;
    }
  }
  value.shape.fact_ = std::move(stated);
}

}  // namespace onnx_native::onnx
