#include "aten/default_dtype.h"

#include <c10/core/DefaultDtype.h>

#include "aten/torch_types.h"

namespace onnx_native::aten {
namespace {

thread_local DType scoped = DType::undefined;

}  // namespace

DType default_dtype() {
  if (scoped != DType::undefined) return scoped;
  return to_dtype(c10::get_default_dtype_as_scalartype()).value_or(DType::f32);
}

DefaultDType::DefaultDType(DType dtype) : outer_(scoped) { scoped = dtype; }

DefaultDType::~DefaultDType() { scoped = outer_; }

}  // namespace onnx_native::aten
