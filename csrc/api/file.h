// Reads programs from files.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "api/program_contents.h"
#include "aten/graph.h"
#include "onnx_native/export.h"

namespace onnx_native {

// Reads the program in a file; detects the format from the contents.
std::unique_ptr<aten::Graph> read_file(const std::filesystem::path& path,
                                       const ExportOptions& options);

// Runs the export of a file. In a .pt2 archive, torch.export.save records the type of each value,
// and this exporter derives it again. An internal error therefore means that the records contradict
// each other: it becomes ExportError(invalid_program) with the record's name.
Program export_archive(const std::filesystem::path& path, const std::function<Program()>& work);

}  // namespace onnx_native
