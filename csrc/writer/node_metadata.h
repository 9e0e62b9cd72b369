// A node's origin as metadata_props, with the same keys as PyTorch's own exporter.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace onnx_native::writer {

std::vector<std::pair<std::string, std::string>> node_metadata(const Location& location);

}  // namespace onnx_native::writer
