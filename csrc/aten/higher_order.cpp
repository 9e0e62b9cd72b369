#include "aten/higher_order.h"

#include <algorithm>
#include <iterator>

namespace onnx_native::aten {
namespace {

using Use = HigherOrder::Use;
using Operands = HigherOrder::Operands;

constexpr HigherOrder kOperators[] = {
    {.op = "higher_order::hints_wrapper", .operands = Operands::tuple},
    {.op = "higher_order::invoke_subgraph", .operands = Operands::after_a_name, .is_region = true},
    {.op = "higher_order::print", .use = Use::dropped},
    {.op = "higher_order::run_const_graph", .operands = Operands::tuple},
    {.op = "higher_order::tag_activation_checkpoint"},
    {.op = "higher_order::with_effects", .use = Use::ordered},
    {.op = "higher_order::wrap"},
    {.op = "higher_order::wrap_activation_checkpoint"},
    {.op = "higher_order::wrap_with_autocast", .sets_autocast = true},
    {.op = "higher_order::wrap_with_set_grad_enabled"},
};

}  // namespace

const HigherOrder* find_higher_order(std::string_view op) {
  const auto* at = std::ranges::find(kOperators, op, &HigherOrder::op);
  return at == std::end(kOperators) ? nullptr : at;
}

std::vector<Argument> body_inputs(const HigherOrder& call, std::vector<Argument> operands) {
  if (operands.empty()) return operands;
  if (call.operands == Operands::tuple) {
    if (auto* tuple = std::get_if<Argument::List>(&operands[0].value)) {
      Argument::List inputs = std::move(*tuple);
      return inputs;
    }
  } else if (call.operands == Operands::after_a_name) {
    operands.erase(operands.begin());
  }
  return operands;
}

std::optional<bool> autocast_of(const HigherOrder& call, const std::vector<Argument>& settings) {
  if (!call.sets_autocast) return std::nullopt;
  const bool* enabled = settings.size() > 2 ? settings[2].get<bool>() : nullptr;
  return !enabled || *enabled;
}

std::string autocast_device(const HigherOrder& call, const std::vector<Argument>& settings) {
  if (!autocast_of(call, settings).value_or(false) || settings.empty()) return "";
  // A dtype that autocast does not support disables it.
  const DType* dtype = settings.size() > 1 ? settings[1].get<DType>() : nullptr;
  if (dtype && *dtype != DType::f16 && *dtype != DType::bf16) return "";
  const std::string* device = settings[0].get<std::string>();
  return device ? *device : "";
}

}  // namespace onnx_native::aten
