#include "aten/asserted_counts.h"

#include <algorithm>
#include <utility>

#include "aten/op_facts.h"
#include "base/dim_data.h"

namespace onnx_native::aten {

bool equates_count(const Argument& condition) {
  const Value* value = condition.as_value();
  if (!value || !value->producer || value->producer->op != "python::eq") return false;
  return std::ranges::any_of(value->producer->arguments, [](const Argument& argument) {
    const Value* size = argument.as_value();
    return size && size->type.dim && depends_on_data(*size->type.dim);
  });
}

bool asserts_count(const Node& node) {
  return node.op == kAssertScalar && !node.arguments.empty() && equates_count(node.arguments[0]);
}

void add_assertion(Graph& graph, Argument condition, const Location* location) {
  if (equates_count(condition))
    graph.add_node(kAssertScalar, {std::move(condition), std::string()}, location);
}

bool is_omitted(const Node& node) {
  return node.schema && is_check(*node.schema) && !asserts_count(node);
}

}  // namespace onnx_native::aten
