// Writes to tensors that have several elements at one place in memory.
#pragma once

#include <functional>
#include <optional>

#include "aten/graph.h"
#include "aten/memory.h"
#include "aten/strides.h"

namespace onnx_native::aten {

// Throws ExportError(unsupported) where the call writes to elements that share a place in memory,
// and the result depends on the order in which eager writes them. `layout` is that of the tensor.
void check_overlapping_write(const Node& node, const Tensor& written,
                             const std::function<std::optional<Layout>()>& layout);

}  // namespace onnx_native::aten
