// Reads TorchScript modules, scripted or traced, into an aten::Graph.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "aten/graph.h"
#include "aten/type_inference.h"
#include "base/input_spec.h"

namespace torch::jit {
struct Function;
struct Module;
}  // namespace torch::jit

namespace onnx_native::readers::jit {

struct ReadOptions {
  // In schema order; trailing arguments with defaults may be omitted. An unnamed input takes the
  // argument's name.
  std::vector<InputSpec> inputs;
  std::string method = "forward";
};

// Reads a method of `module`, specialized to these inputs: constants decide conditions, loops and
// list lengths; data-dependent control flow becomes sub-graphs. Weights are named as in state_dict
// and share the module's memory; the module is not changed. Throws ExportError with the user's
// source line: invalid_argument if the inputs do not match the method, unsupported if ONNX cannot
// express the program.
std::unique_ptr<aten::Graph> read(const torch::jit::Module& module, const ReadOptions& options,
                                  aten::TypeInference& types);
// The same for a function that is not a method; ignores `options.method`.
std::unique_ptr<aten::Graph> read(const torch::jit::Function& function, const ReadOptions& options,
                                  aten::TypeInference& types);

}  // namespace onnx_native::readers::jit
