// Writes that cannot be exported.
#pragma once

#include <functional>
#include <optional>

#include "aten/graph.h"
#include "aten/memory.h"
#include "aten/strides.h"

namespace onnx_native::aten {

// Throws ExportError(unsupported) if the call writes to elements that overlap in memory and the
// result depends on the order in which eager mode writes them. `layout` returns the layout of the
// tensor.
void check_overlapping_write(const Node& node, const Tensor& written,
                             const std::function<std::optional<Layout>()>& layout);

// Throws ExportError(unsupported) if the memory is marked as unwritable, or belongs to elements of
// a list that may be one tensor.
void check_writable(const Node& node, const Storage& written);

}  // namespace onnx_native::aten
