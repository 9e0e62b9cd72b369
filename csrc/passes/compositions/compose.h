// Nodes that are composed from others at the end, for an opset or an importer that does not take
// them.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "onnx/builder.h"
#include "onnx/graph.h"

namespace onnx_native::passes {

// Emits nodes that compute what the node computes; returns one value per output, or none if the
// node has no such composition. It may emit nodes that are composed in their turn, but not the same
// operator in the same form.
using Composer = Values (*)(Builder& b, const onnx::Node& node);

// How to compose an operator below an opset.
struct Composition {
  std::string_view op_type;
  int64_t before;
  Composer compose;
  bool (*applies)(const onnx::Node& node) = nullptr;  // always if null
};

// Replaces nodes by their compositions until `choose` returns nullptr for all that are left.
void compose(onnx::Model& model, const std::function<Composer(const onnx::Node&)>& choose);

}  // namespace onnx_native::passes
