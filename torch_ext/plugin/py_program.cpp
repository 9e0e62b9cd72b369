#include "plugin/py_program.h"

#include <chrono>

#include "plugin/fx_reader.h"
#include "plugin/jit_program.h"
#include "plugin/py_fallback.h"
#include "readers/pt2/reader.h"

namespace onnx_native::plugin {

Program::Program(py::handle source, SymbolNames symbol_names, const aten::Hints& hints,
                 const ExportOptions& options, bool verify, bool fallbacks, py::object translations,
                 bool metadata) {
  writing_.metadata = metadata;
  const auto start = std::chrono::steady_clock::now();
  ProgramReader reader(std::move(symbol_names));
  auto recorded = std::make_optional<ReadScope>(&report_.reads);
  if (py::isinstance<py::str>(source)) {
    graph_ = readers::pt2::read(source.cast<std::string>());
  } else if (py::isinstance<py::tuple>(source)) {
    graph_ = read_script(source.cast<py::tuple>(), options.opset);
  } else {
    graph_ = read_exported_program(source, reader);
  }
  recorded.reset();
  aten::check_squeezes(*graph_, hints);
  const std::chrono::duration<double> reading = std::chrono::steady_clock::now() - start;
  PyLowerings foreign(reader, options.opset, fallbacks, std::move(translations));
  model_ = export_graph(*graph_, options, {.verify = verify, .foreign = &foreign}, &report_);
  fallbacks_ = foreign.used();
  decomposed_ = foreign.take_graphs();
  report_.seconds.insert(report_.seconds.begin(), {"read", reading.count()});
}

std::vector<std::string> Program::input_names() const {
  std::vector<std::string> names;
  for (const onnx::Value* value : model_->graph->inputs) names.push_back(value->name);
  return names;
}

std::vector<std::string> Program::output_names() const {
  std::vector<std::string> names;
  for (const onnx::Value* value : model_->graph->outputs) names.push_back(value->name);
  return names;
}

int64_t Program::weight_bytes() const {
  int64_t bytes = 0;
  for (const onnx::Value* value : model_->graph->initializers) bytes += value->constant->nbytes();
  return bytes;
}

py::dict Program::report() const {
  py::dict seconds;
  for (const auto& [stage, value] : report_.seconds) seconds[py::str(stage)] = value;
  py::dict operators;
  for (const OperatorUse& use : report_.operators) operators[py::str(use.op)] = use.calls;
  py::dict report;
  report["seconds"] = seconds;
  report["operators"] = operators;
  report["aten_nodes"] = report_.aten_nodes;
  report["onnx_nodes"] = report_.onnx_nodes;
  py::dict functions;
  for (const auto& [name, calls] : report_.functions) functions[py::str(name)] = calls;
  report["functions"] = functions;
  report["warnings"] = report_.warnings;
  report["fallbacks"] = fallbacks_;
  return report;
}

py::list Program::state() const {
  py::list result;
  for (const StateTensor& tensor : report_.state) {
    const py::object initial = tensor.initial ? py::cast(to_tensor(*tensor.initial)) : py::none();
    result.append(py::make_tuple(tensor.target, model_->graph->inputs[tensor.input]->name,
                                 model_->graph->outputs[tensor.output]->name, initial));
  }
  return result;
}

void Program::save(const std::string& path, std::optional<bool> external_data) const {
  const py::gil_scoped_release released;
  report_.reads.check();
  writer::Options writing = writing_;
  writing.external_data = external_data;
  writer::save(*model_, path, writing);
}

py::bytes Program::serialize() const {
  report_.reads.check();
  return writer::serialize(*model_, writing_);
}

py::tuple Program::serialize_without_weights() {
  report_.reads.check();
  weights_.clear();
  const py::bytes bytes = writer::serialize_without_weights(*model_, weights_, writing_);
  py::list names;
  for (size_t i = 0; i < weights_.size(); ++i) names.append(py::make_tuple(weights_[i].name, i));
  return py::make_tuple(bytes, names);
}

at::Tensor Program::weight(size_t number) const {
  report_.reads.check();
  return to_tensor(*weights_.at(number).data);
}

std::vector<std::string> Program::set_weights(const std::map<std::string, at::Tensor>& tensors) {
  std::vector<std::string> known;
  std::vector<std::pair<aten::TensorWeight*, at::Tensor>> before;
  try {
    for (const aten::Constant& constant : graph_->constants) {
      const auto given = tensors.find(constant.value->name);
      auto* weight = dynamic_cast<aten::TensorWeight*>(weight_of(constant.data));
      if (!weight || given == tensors.end()) continue;
      before.emplace_back(weight, weight->tensor());
      weight->assign(given->second);
      known.push_back(given->first);
    }
    report_.reads.check();
  } catch (...) {
    for (const auto& [weight, tensor] : before) weight->assign(tensor);
    throw;
  }
  return known;
}

std::string Program::text() const { return onnx::print(*model_); }

void bind_program(py::module_& module) {
  py::class_<Program>(module, "Program")
      .def(py::init([](py::handle source, int64_t opset, bool optimize,
                       std::vector<std::string> input_names, std::vector<std::string> output_names,
                       SymbolNames symbol_names, const aten::Hints& hints, const py::object& state,
                       const py::object& functions, bool verify, bool fallbacks,
                       py::object translations, bool metadata) {
             ExportOptions options;
             options.opset = opset;
             options.optimize = optimize;
             options.input_names = std::move(input_names);
             options.output_names = std::move(output_names);
             if (py::isinstance<py::bool_>(state)) {
               options.state.all = state.cast<bool>();
             } else {
               options.state.names = state.cast<std::vector<std::string>>();
             }
             if (py::isinstance<py::bool_>(functions)) {
               options.functions.all = functions.cast<bool>();
             } else {
               options.functions.classes = functions.cast<std::vector<std::string>>();
             }
             return std::make_unique<Program>(source, std::move(symbol_names), hints, options,
                                              verify, fallbacks, std::move(translations), metadata);
           }),
           py::arg("source"), py::kw_only(), py::arg("opset"), py::arg("optimize") = true,
           py::arg("input_names") = std::vector<std::string>(),
           py::arg("output_names") = std::vector<std::string>(),
           py::arg("symbol_names") = SymbolNames(), py::arg("hints") = aten::Hints(),
           py::arg("state") = false, py::arg("functions") = false, py::arg("verify") = false,
           py::arg("fallbacks") = false, py::arg("translations") = py::none(),
           py::arg("metadata") = true)
      .def_property_readonly("input_names", &Program::input_names)
      .def_property_readonly("output_names", &Program::output_names)
      .def_property_readonly("weight_bytes", &Program::weight_bytes)
      .def_property_readonly("opset", &Program::opset)
      .def("report", &Program::report)
      .def("state", &Program::state)
      .def("save", &Program::save, py::arg("path"), py::arg("external_data") = py::none())
      .def("serialize", &Program::serialize)
      .def("serialize_without_weights", &Program::serialize_without_weights)
      .def("weight", &Program::weight)
      .def("set_weights", &Program::set_weights)
      .def("text", &Program::text);
}

}  // namespace onnx_native::plugin
