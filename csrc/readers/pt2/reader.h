// Reads archives written by torch.export.save into an aten::Graph, without Python.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "aten/graph.h"
#include "base/input_spec.h"

namespace onnx_native::readers::pt2 {

inline constexpr const char* kModel = "models/model.json";  // the record of the program

// Reads the `.pt2` file at `path`; gives the same graph as the FX reader. Weights refer to the
// mapped file and keep it open. Throws ExportError: io if the file cannot be opened,
// invalid_program if it is damaged or has another schema version, unsupported if ONNX cannot
// express its contents. `inputs` names dynamic sizes: {"x", f32, {batch, 10}} names the first size
// of the input x. Throws invalid_argument if it contradicts the program.
std::unique_ptr<aten::Graph> read(const std::string& path,
                                  const std::vector<InputSpec>& inputs = {});

}  // namespace onnx_native::readers::pt2
