// Sizes that a recorded graph computes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "aten/graph.h"
#include "base/dim.h"

namespace onnx_native::aten {

// Writes an expression over sizes as calls of Python's operators: 2*n + 1 is python::mul(n, 2),
// then python::add(.., 1). Both recorders derive from it: they know which sizes their graphs have.
class SizeCalls {
 public:
  virtual ~SizeCalls() = default;
  // Returns an argument for a size: a number, or the result of the calls that compute it.
  Argument size(const Dim& dim);

 protected:
  // Returns a size that needs no calls but to read it; nullopt if there is none.
  virtual std::optional<Argument> known_size(const Dim& dim) = 0;
  // Returns a symbol that is not a known size.
  virtual Argument symbol_size(const Dim& symbol) = 0;
  // Returns the size of two dimensions after a broadcast.
  virtual Argument broadcast_size(const Dim::Factor& factor) = 0;
  // Returns the result of a call, which may be an earlier one with the same result.
  virtual Value* size_call(std::string op, std::vector<Argument> arguments, const Dim& result) = 0;

 private:
  Argument factor(const Dim::Factor& factor);
  Argument term(const Dim::Term& term);
};

}  // namespace onnx_native::aten
