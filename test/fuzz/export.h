// The export pipeline shared by all fuzz targets.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "aten/graph.h"

namespace onnx_native::fuzz {

// Reads, exports and serializes a program. Swallows ExportError, the expected outcome of bad input;
// any other exception reaches the fuzzer.
void export_all(const std::function<std::unique_ptr<aten::Graph>()>& read);

}  // namespace onnx_native::fuzz
