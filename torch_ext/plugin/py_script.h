// Reads TorchScript programs that Python passes as objects.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/utils/pybind.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "aten/graph.h"
#include "base/input_spec.h"
#include "onnx_native/export.h"

namespace onnx_native::plugin {

namespace py = pybind11;

// An argument of a TorchScript program. Exactly one of the optional fields is set.
struct ScriptInput {
  using Size = std::variant<int64_t, std::string>;  // a number, or an expression of names

  std::string name;
  // The shape of a tensor. A number that is an input of the model is a tensor of rank 0.
  std::optional<std::vector<Size>> sizes = std::nullopt;
  at::ScalarType dtype = at::ScalarType::Undefined;
  // The value of an argument that is not an input of the model.
  std::optional<InputSpec::Constant> constant = std::nullopt;
  // The elements of a list, a tuple or a dict.
  std::optional<std::vector<ScriptInput>> elements = std::nullopt;
  bool has_keys = false;  // the names of the elements are the keys of a dict
};

// A TorchScript program and the inputs that it is exported for.
struct ScriptSource {
  py::object program;  // a torch.jit.ScriptModule or a ScriptFunction
  std::vector<ScriptInput> inputs;
  std::string method;  // the method to export, if the program is a module
};

// Reads the program into a graph. Throws ExportError like export_module().
std::unique_ptr<aten::Graph> read_script(const ScriptSource& source, const ExportOptions& options);

// The attributes of a TorchScript module and of the objects in it, which its methods may set.
// Tensors are kept as they are, not their elements.
class ScriptState {
 public:
  // Throws ExportError(invalid_argument) if it is not a TorchScript module.
  explicit ScriptState(const py::object& module);
  // Gives the attributes their values back.
  void restore() const;

 private:
  struct Attributes {
    c10::intrusive_ptr<c10::ivalue::Object> owner;
    std::vector<c10::IValue> values;
  };
  std::vector<Attributes> saved_;
};

void bind_scripts(py::module_& module);

}  // namespace onnx_native::plugin
