// What a file holds, before any export.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "onnx_native/export.h"

namespace onnx_native {

// An operator that a program calls.
struct OperatorUse {
  std::string op;  // "aten::add.Tensor"; "aten::add.Tensor@complex" on complex tensors
  int64_t calls = 0;
  bool supported = false;  // whether it has a lowering
};

// The operators that the program's outputs need, by name. Throws ExportError as export_file does,
// but not for missing operators.
std::vector<OperatorUse> list_operators(const std::filesystem::path& path,
                                        const ExportOptions& options = {});

// The program as read, one ATen call a line. Throws ExportError as export_file does.
std::string aten_text(const std::filesystem::path& path, const ExportOptions& options = {});

}  // namespace onnx_native
