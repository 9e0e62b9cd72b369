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

// Finds the types of results. TorchScript's graphs have none, and what a program does with
// sizes is decided as it is read.
class TypeInference {
 public:
  virtual ~TypeInference() = default;
  // The types of a call's results; the node is complete (arguments bound, defaults filled in).
  // A result of which nothing can be said has the kind `unknown`.
  virtual std::vector<aten::Type> infer(const aten::Node& node) = 0;
  // A value that no call computes: an input of a graph, or a result of control flow.
  virtual void define(const aten::Value& value) = 0;
  virtual void define(const aten::Constant& constant) = 0;
  // The only element of a float or bool tensor that is constant; nullopt of any other.
  virtual std::optional<double> element(const aten::Value& tensor) = 0;
  // The memory of a tensor was written to, not by a call that `infer` saw.
  virtual void forget(const aten::Value& value) = 0;
};

struct ReadOptions {
  // In the method's order; arguments with defaults may be missing. One without a name takes the
  // argument's.
  std::vector<InputSpec> inputs;
  std::string method = "forward";
};

// The calls of a method of `module`, for inputs such as these: what they decide (numbers, `if`s,
// lengths of lists) is decided, what depends on data becomes sub-graphs. Weights are named as in
// state_dict and share the module's memory; the module is not changed. Throws ExportError:
// invalid_argument when inputs do not fit the method, unsupported where ONNX has no form for what
// the program does, with the user's source line.
std::unique_ptr<aten::Graph> read(const torch::jit::Module& module, const ReadOptions& options,
                                  TypeInference& types);
// The same of a function that is no method; `options.method` does not matter.
std::unique_ptr<aten::Graph> read(const torch::jit::Function& function, const ReadOptions& options,
                                  TypeInference& types);

}  // namespace onnx_native::readers::jit
