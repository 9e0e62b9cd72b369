// Higher-order operators that only say how to run a body. Readers do not record them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "aten/graph.h"

namespace onnx_native::aten {

struct HigherOrder {
  enum class Use {
    inlined,  // the body replaces the call
    ordered,  // (token, operator, *arguments) returns a token, then the operator's results
    dropped,  // computes nothing
  };
  // The arguments after the body.
  enum class Operands {
    each,          // the body's inputs
    tuple,         // one tuple of the inputs
    after_a_name,  // the subgraph's name, then the inputs
  };

  std::string_view op;  // "higher_order::wrap"
  Use use = Use::inlined;
  Operands operands = Operands::each;
  bool is_region = false;      // the body becomes a function of the model
  bool sets_autocast = false;  // the arguments before the body are (device, dtype, enabled, ...)
};

// Returns nullptr for operators that readers record.
const HigherOrder* find_higher_order(std::string_view op);
// Returns the body's inputs, given the arguments after the body.
std::vector<Argument> body_inputs(const HigherOrder& call, std::vector<Argument> operands);
// Returns true if the body runs under autocast; nullopt if it inherits the setting of its
// surroundings. `settings` are the arguments before the body.
std::optional<bool> autocast_of(const HigherOrder& call, const std::vector<Argument>& settings);
// Returns the type of the device whose operators the body runs in half precision ("cpu"); empty if
// there is none.
std::string autocast_device(const HigherOrder& call, const std::vector<Argument>& settings);

}  // namespace onnx_native::aten
