// Higher-order operators that readers do not record: they say only how a body is run.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "aten/graph.h"

namespace onnx_native::aten {

struct HigherOrder {
  enum class Use {
    inlined,  // the body takes the call's place
    ordered,  // (token, operator, *arguments) gives a token, then what the operator gives
    dropped,  // it computes nothing
  };
  // The arguments that come after the body.
  enum class Operands {
    each,          // the body's inputs
    tuple,         // one tuple of them
    after_a_name,  // the sub-graph's name, then the inputs
  };

  std::string_view op;  // "higher_order::wrap"
  Use use = Use::inlined;
  Operands operands = Operands::each;
  bool is_region = false;      // the body becomes a function of the model, if the user asks for it
  bool sets_autocast = false;  // (device, dtype, enabled, ...) come before the body
};

// nullptr for operators that are recorded.
const HigherOrder* find_higher_order(std::string_view op);
// The body's inputs, from the arguments after the body.
std::vector<Argument> body_inputs(const HigherOrder& call, std::vector<Argument> operands);
// The body runs in automatic mixed precision; nullopt where it does as its surroundings do.
// `settings` are the arguments before the body.
std::optional<bool> autocast_of(const HigherOrder& call, const std::vector<Argument>& settings);

}  // namespace onnx_native::aten
