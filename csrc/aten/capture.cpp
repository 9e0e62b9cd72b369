#include "aten/capture.h"

#include <algorithm>
#include <array>

namespace onnx_native::aten {

bool is_check(std::string_view name) {
  static constexpr std::array<std::string_view, 8> kNames = {
      "aten::_assert_tensor_metadata",
      "aten::_assert_scalar",
      "aten::_assert_async",
      "aten::_functional_assert_async",
      "aten::sym_constrain_range",
      "aten::sym_constrain_range_for_size",
      "aten::_functional_sym_constrain_range",
      "higher_order::print"};
  return std::ranges::find(kNames, name) != kNames.end();
}

bool is_transparent(std::string_view op) {
  static constexpr std::array<std::string_view, 8> kOperators = {
      "higher_order::wrap_with_set_grad_enabled",
      "higher_order::wrap_with_autocast",
      "higher_order::hints_wrapper",
      "higher_order::run_const_graph",
      "higher_order::wrap",
      "higher_order::wrap_activation_checkpoint",
      "higher_order::tag_activation_checkpoint",
      "higher_order::invoke_subgraph"};
  return std::ranges::find(kOperators, op) != kOperators.end();
}

}  // namespace onnx_native::aten
