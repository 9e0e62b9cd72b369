// Exports a program to ONNX: from a file here, from a torch::jit::Module in onnx_native/jit.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/input_spec.h"
#include "onnx_native/error.h"
#include "onnx_native/program.h"

namespace onnx_native {

// Reads an argument as the command line takes it. Throws ExportError(invalid_argument).
//   x:float32[batch,3,224,224]      a tensor; without brackets its rank is not known
//   n:int64[]                       a number that stays an input
//   n:3  on:true  m:none  s:'mean'  constants
//   xs:[float32[n,2], int64[n]]     a list; (...) a tuple; {image: float32[3,h,w]} a dict
InputSpec parse_input(std::string_view text);

// Which updates of buffers and inputs become part of the model: a buffer as an input of its name
// and an output `<name>_out`, an input as an output.
struct StateOptions {
  bool all = false;
  std::vector<std::string> names;  // of buffers and inputs
};

// Which modules become functions of the model, local to it: calls of one structure share a body.
// Compiled regions always are.
struct FunctionOptions {
  bool all = false;
  std::vector<std::string> classes;  // "package.module.Class" or "Class"
};

struct ExportOptions {
  int64_t opset = 20;
  bool optimize = true;
  // The inputs of a TorchScript program, in order, and the method to export. A `.pt2` file has its
  // own inputs.
  std::vector<InputSpec> inputs;
  std::string method = "forward";
  // New names for the first inputs and outputs; empty keeps the program's.
  std::vector<std::string> input_names;
  std::vector<std::string> output_names;
  StateOptions state;
  FunctionOptions functions;
};

// The program in a file of torch.export.save (`.pt2`) or torch.jit.save; its content tells which.
// Weights of a `.pt2` file are not read before the model is saved: it must stay as it is until
// then. Throws ExportError: io when it cannot be opened, invalid_program when it holds no program
// or is damaged, unsupported_operator with all operators that have no lowering, unsupported where
// ONNX cannot express something.
Program export_file(const std::filesystem::path& path, const ExportOptions& options = {});

}  // namespace onnx_native
