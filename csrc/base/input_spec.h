// What an argument of a program is, for programs that do not record it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/dim.h"
#include "base/dtype.h"

namespace onnx_native {

// An argument of a TorchScript program, which knows neither dtypes nor shapes of its own: a tensor
// or number that becomes an input, a list, tuple or dict of such, or a constant.
struct InputSpec {
  // None, or a value of TorchScript.
  using Constant = std::variant<std::monostate, bool, int64_t, double, std::string>;

  std::string name;
  DType dtype = DType::undefined;
  // Sizes are numbers or Dim::symbol("batch"). nullopt: the rank is not known, an error where it is
  // needed. A number is written as a tensor without sizes.
  std::optional<Shape> shape = std::nullopt;
  // Of a list, tuple or dict: what is in it. The names of a dict's elements are its keys, those of
  // others may be empty: "<name>_0", "<name>_1" ...
  std::optional<std::vector<InputSpec>> elements = std::nullopt;
  // Not an input of the model: it is made for this value.
  std::optional<Constant> constant = std::nullopt;
};

}  // namespace onnx_native
