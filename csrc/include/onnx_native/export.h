// Exports a program file to ONNX. onnx_native/jit.h exports a torch::jit::Module.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/input_spec.h"
#include "base/nan.h"
#include "base/precision.h"
#include "base/quantization.h"
#include "base/target.h"
#include "onnx_native/error.h"
#include "onnx_native/program.h"

namespace onnx_native {

// Parses an input spec in the syntax of the command line; sizes are element counts or symbol names.
//   x:float32[batch,3,224,224]      a tensor; without brackets its rank is unknown
//   n:int64[]                       a number that remains an input of the model
//   n:3  on:true  m:none  s:'mean'  constants
//   xs:[float32[n,2], int64[n]]     a list; (...) a tuple; {image: float32[3,h,w]} a dict
// Throws ExportError(invalid_argument) on a syntax error or an unknown dtype.
InputSpec parse_input(std::string_view text);

// Selects the buffers and inputs whose updates become part of the model. A buffer becomes an input
// of the same name and an output `<name>_out`; an input gets an output `<name>_out`. A name of a
// tensor that the program does not update is an invalid_argument error.
struct StateOptions {
  bool all = false;                // select every updated buffer and input
  std::vector<std::string> names;  // buffers and inputs to select
};

// Selects modules whose calls become model-local functions; calls with the same structure share
// one function. Compiled regions (torch.compiler.nested_compile_region) always become functions.
struct FunctionOptions {
  bool all = false;                  // select every module
  std::vector<std::string> classes;  // "package.module.Class" or "Class"
};

// Options of an export; the defaults suit most programs.
struct ExportOptions {
  int64_t opset = 20;            // 9 or newer; an unsupported opset is an invalid_argument error
  bool optimize = true;          // run the optimization passes
  Target target = Target::onnx;  // the tool that the model is written for
  WeightLayout weights = WeightLayout::runtime;  // requires `optimize`
  NanMode nan = NanMode::standard;               // what the model computes from NaN
  Precision precision = Precision::program;      // in which a float32 program computes
  bool keep_io_types = true;  // false: float32 inputs and outputs get the precision too
  // Names of modules that compute in float32 where `precision` lowers the rest; "*" and "?" stand
  // for other characters.
  std::vector<std::string> float32_modules;
  // Names of parameters, likewise, that become inputs of the model with zeros as defaults: weights
  // of LoRA, which runtimes replace without a copy of the model.
  std::vector<std::string> adapters;
  WeightQuantization quantization;  // of the weights of products; none by default
  // The inputs of a TorchScript program, in order, and the method to export. A `.pt2` file records
  // its own inputs; giving `inputs` for one is an invalid_argument error.
  std::vector<InputSpec> inputs;
  std::string method = "forward";
  // New names for the first inputs and outputs, in order; the others keep the program's names.
  std::vector<std::string> input_names;
  std::vector<std::string> output_names;
  StateOptions state;
  FunctionOptions functions;
  // Names of optimization passes that do not run, for example "rms_normalization". A name that no
  // pass has is an invalid_argument error, which lists the names.
  std::vector<std::string> disabled_passes;
};

// Exports a file written by torch.export.save (`.pt2`) or torch.jit.save; the content decides the
// format. The weights of a `.pt2` file are read when the model is saved, so the file must not be
// modified before then. Throws ExportError: io when the file cannot be opened, invalid_program when
// it is damaged or holds no program, invalid_argument when `options` do not fit the program,
// unsupported_operator with every operator that has no lowering, unsupported when ONNX cannot
// express the program.
Program export_file(const std::filesystem::path& path, const ExportOptions& options = {});

}  // namespace onnx_native
