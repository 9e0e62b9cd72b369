#include "aten/fault.h"

#include <utility>

namespace onnx_native::aten {

Fault fault_at(const Node& node, std::string cause) {
  Fault fault{.cause = std::move(cause),
              .op = node.op,
              .node = print(node, /*argument_types=*/true),
              .location = {}};
  if (node.location) fault.location = *node.location;
  return fault;
}

void add_place(ExportError& error, const Node& node) {
  error.add_node(node.op, print(node, /*argument_types=*/true));
  if (node.location) error.add_location(*node.location);
}

void fail_unsupported(const Node& node, std::string cause) {
  throw ExportError(ErrorKind::unsupported, {fault_at(node, std::move(cause))});
}

}  // namespace onnx_native::aten
