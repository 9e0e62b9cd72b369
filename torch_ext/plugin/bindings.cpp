// The extension module onnx_native._C. torch.ops.load_library loads the same shared library.
#include <torch/csrc/utils/pybind.h>

#include "api/export.h"
#include "api/torch_version.h"
#include "aten/graph.h"
#include "aten/guard.h"
#include "aten/op_facts.h"
#include "cli/command_line.h"
#include "fx/reader.h"
#include "onnx/schema.h"
#include "onnx_native/inspect.h"
#include "ops/engine/op_table.h"
#include "plugin/py_capture.h"
#include "plugin/py_error.h"
#include "plugin/py_generators.h"
#include "plugin/py_graph.h"
#include "plugin/py_lowering.h"
#include "plugin/py_program.h"
#include "plugin/py_script.h"

namespace onnx_native::plugin {
namespace {

std::string_view key_name(ops::Key key) {
  switch (key) {
    case ops::Key::quantized:
      return "quantized";
    case ops::Key::complex:
      return "complex";
    default:
      return "dense";
  }
}

std::vector<std::pair<std::string, std::string>> table_keys() {
  std::vector<std::pair<std::string, std::string>> result;
  for (const auto& [op, key] : ops::op_table().keys()) result.emplace_back(op, key_name(key));
  return result;
}

std::vector<std::string> table_parameters(const std::string& op, const std::string& key) {
  for (const auto& [known, known_key] : ops::op_table().keys()) {
    if (known != op || key_name(known_key) != key) continue;
    const ops::Lowering* lowering = ops::op_table().find(op, known_key);
    return {lowering->parameters.begin(), lowering->parameters.end()};
  }
  throw py::key_error(op);
}

std::vector<std::string> uninitialized_operators() {
  std::vector<std::string> result;
  for (const auto& [name, facts] : aten::fact_rows()) {
    if (facts.uninitialized) result.emplace_back(name);
  }
  return result;
}

PYBIND11_MODULE(_C, module) {
  const std::string problem = torch_version_problem();
  if (!problem.empty()) throw py::import_error(problem);

  module.doc() = "The C++ functions that onnx_native's Python package calls.";
  bind_errors(module);
  bind_scripts(module);
  bind_program(module);
  bind_generators(module);
  bind_capture(module);
  bind_lowerings(module);
  module.def(
      "read",
      [](py::handle exported_program, fx::SymbolNames symbol_names) {
        fx::ProgramReader reader(std::move(symbol_names));
        return aten::print(*fx::read_exported_program(exported_program, reader));
      },
      py::arg("exported_program"), py::arg("symbol_names") = fx::SymbolNames(),
      "The ATen graph of a captured program, as text.");
  module.def(
      "functionalized",
      [](py::handle exported_program, fx::SymbolNames symbol_names) {
        fx::ProgramReader reader(std::move(symbol_names));
        const auto graph = fx::read_exported_program(exported_program, reader);
        aten::functionalize(*graph);
        aten::verify(*graph, "functionalize");
        return aten::print(*graph);
      },
      py::arg("exported_program"), py::arg("symbol_names") = fx::SymbolNames(),
      "The same after functionalization and verification.");
  module.def(
      "read_pt2", [](const std::string& path) { return aten_text(path); }, py::arg("path"),
      "The ATen graph of a program that torch.export.save wrote, as text.");
  module.def("pinned_sizes", &aten::pinned_sizes, py::arg("guard"),
             "The sizes that a guard of torch.export pins, as it writes them.");
  module.def("asserted_guard", &aten::asserted_guard, py::arg("message"),
             "The guard in the message of torch.export's assertions; empty in other messages.");
  module.def("describe_pin", &aten::describe_pin, py::arg("guard"), py::arg("size"),
             "Describes a guard that pins a size.");
  module.def("command_line", &cli::run, py::arg("arguments"),
             py::call_guard<py::gil_scoped_release>(),
             "Runs the command onnx-native with these arguments; returns its exit code.");
  module.def(
      "read_script",
      [](const ScriptSource& source, bool functionalized) {
        const auto graph = read_script(source, {.opset = kMinLoweringOpset});
        if (functionalized) {
          aten::functionalize(*graph);
          aten::verify(*graph, "functionalize");
        }
        return aten::print(*graph);
      },
      py::arg("source"), py::arg("functionalized") = false,
      "The ATen graph of a TorchScript module, as text.");
  module.def(
      "script_program",
      [](const ScriptSource& source, const py::object& builder) {
        return build_program(*read_script(source, {.opset = kMinLoweringOpset}), builder);
      },
      py::arg("source"), py::arg("builder"),
      "The program of a TorchScript module; see onnx_native.replay._recorded_program.");
  module.def("uninitialized_operators", &uninitialized_operators,
             "The operators whose results have elements without particular values.");
  module.def(
      "opsets", [] { return std::pair(kMinOpset, onnx::newest_opset()); },
      "The oldest and the newest opset of models.");
  module.def("table_keys", &table_keys, "(operator, dispatch key) of every native lowering.");
  module.def("table_parameters", &table_parameters, py::arg("op"), py::arg("key") = "dense",
             "The kinds of the parameters of a native lowering.");
  module.def(
      "torch_version_problem", [](uint64_t running) { return torch_version_problem(running); },
      py::arg("running"),
      "The message if PyTorch's ABI version `running` is incompatible; empty if it is compatible.");
}

}  // namespace
}  // namespace onnx_native::plugin
