// Inspects a program file without exporting it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "onnx_native/export.h"

namespace onnx_native {

// An operator that a program calls, and its number of calls.
struct OperatorUse {
  std::string op;  // "aten::add.Tensor"; "aten::add.Tensor@complex" on complex tensors
  int64_t calls = 0;
  bool supported = false;  // true if it has a lowering
};

// Returns the operators that the program's outputs depend on, including those of sub-graphs, sorted
// by name. Uses the options `inputs`, `method` and `opset`. Throws the errors of export_file that
// concern reading and functionalizing the program; a missing lowering is not an error.
std::vector<OperatorUse> list_operators(const std::filesystem::path& path,
                                        const ExportOptions& options = {});

// Returns the program as text, one ATen call per line, before functionalization. Uses the options
// `inputs`, `method` and `opset`. Throws the errors of export_file that concern reading the file.
std::string aten_text(const std::filesystem::path& path, const ExportOptions& options = {});

}  // namespace onnx_native
