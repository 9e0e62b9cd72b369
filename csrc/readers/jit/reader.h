// Reads TorchScript modules, scripted or traced, into an aten::Graph.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "aten/graph.h"
#include "base/input_spec.h"

namespace torch::jit {
struct Function;
struct Module;
}  // namespace torch::jit

namespace onnx_native::readers::jit {

// Infers result types during reading. TorchScript graphs do not record them, and the reader needs
// sizes to resolve a program's conditions.
class TypeInference {
 public:
  virtual ~TypeInference() = default;
  // Returns the types of a call's results. The node's arguments must be complete. A result without
  // a known type has the kind `unknown`.
  virtual std::vector<aten::Type> infer(const aten::Node& node) = 0;
  // Declares a value without a call: a graph input or a control-flow result.
  virtual void define(const aten::Value& value) = 0;
  virtual void define(const aten::Constant& constant) = 0;
  // Returns the element of a constant float or bool tensor with one element, else nullopt.
  virtual std::optional<double> element(const aten::Value& tensor) = 0;
  // Invalidates the contents of a tensor after a write that `infer` did not see.
  virtual void forget(const aten::Value& value) = 0;
};

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
                                  TypeInference& types);
// The same for a function that is not a method; ignores `options.method`.
std::unique_ptr<aten::Graph> read(const torch::jit::Function& function, const ReadOptions& options,
                                  TypeInference& types);

}  // namespace onnx_native::readers::jit
