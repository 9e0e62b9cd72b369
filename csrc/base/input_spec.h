// Describes a program's arguments, for programs that do not record them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/dim.h"
#include "base/dtype.h"

namespace onnx_native {

// An argument of a TorchScript program, which records neither dtypes nor shapes: a tensor or number
// that becomes an input; a list, tuple or dict of arguments; or a constant.
struct InputSpec {
  // A constant value; std::monostate is None.
  using Constant = std::variant<std::monostate, bool, int64_t, double, std::string>;

  std::string name;
  DType dtype = DType::undefined;
  // Sizes are numbers or Dim::symbol("batch"). nullopt means unknown rank, which is an error if a
  // lowering needs the rank. A number has rank 0.
  std::optional<Shape> shape = std::nullopt;
  // The elements of a list, tuple or dict. The elements of a dict are named by its keys; other
  // elements may have empty names, which become "<name>_0", "<name>_1", ...
  std::optional<std::vector<InputSpec>> elements = std::nullopt;
  // If set, the argument is not an input of the model: the model is specialized to this value.
  std::optional<Constant> constant = std::nullopt;
};

}  // namespace onnx_native
