// What every fuzz target does with the program that its reader gives.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "aten/graph.h"

namespace onnx_native::fuzz {

// Reads, exports and serializes. An ExportError is how bad input ends; anything else goes on to
// the fuzzer.
void export_all(const std::function<std::unique_ptr<aten::Graph>()>& read);

}  // namespace onnx_native::fuzz
