// Reads the archives of torch.export.save into an aten::Graph, without Python.
#pragma once

#include <memory>
#include <string>

#include "aten/graph.h"

namespace onnx_native::readers::pt2 {

// The program in the `.pt2` file at `path`, as the FX reader gives it. Weights are not read: they
// are parts of the mapped file, which they keep open. Throws ExportError: io when the file cannot
// be opened, invalid_program when it is damaged or of another schema version, unsupported where
// ONNX has no form for what it holds.
std::unique_ptr<aten::Graph> read(const std::string& path);

}  // namespace onnx_native::readers::pt2
