#include "plugin/py_program.h"

#include <pybind11/stl/filesystem.h>

#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "api/file.h"
#include "api/program_contents.h"
#include "api/saved_bytes.h"
#include "api/together.h"
#include "api/weights.h"
#include "aten/example_sizes.h"
#include "aten/torch_tensor.h"
#include "aten/torch_types.h"
#include "base/weight_names.h"
#include "fx/reader.h"
#include "plugin/py_capture.h"
#include "plugin/py_fallback.h"
#include "plugin/py_script.h"

namespace onnx_native::plugin {
namespace {

using Report = std::function<void(int64_t, int64_t)>;

// Calls `save` with a function that calls `progress` (may be None) every 4 MiB with the bytes
// written and the total. Runs Python's signal handlers at the same time; an interrupted save leaves
// the old files in place.
void report_to(const py::object& progress, const std::function<void(const Report&)>& save) {
  constexpr int64_t kStep = int64_t{4} << 20;
  std::exception_ptr raised;  // by Python; the library would report it as its own
  const auto report = [&, next = kStep](int64_t written, int64_t total) mutable {
    if (written < next && written < total) return;
    next = written + kStep;
    const py::gil_scoped_acquire gil;
    try {
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
      if (!progress.is_none()) progress(written, total);
    } catch (...) {
      raised = std::current_exception();
      throw std::runtime_error("interrupted");
    }
  };
  try {
    const py::gil_scoped_release released;
    save(report);
  } catch (...) {
    if (raised) std::rethrow_exception(raised);
    throw;
  }
}

// An exported program, and the metadata that its model records.
class PyProgram {
 public:
  PyProgram(Program program, Metadata metadata)
      : program_(std::move(program)),
        metadata_(metadata),
        module_weights_(*program_.contents().graph) {}

  std::vector<std::string> input_names() const { return names(program_.inputs()); }
  std::vector<std::string> output_names() const { return names(program_.outputs()); }
  std::vector<at::ScalarType> input_dtypes() const;
  std::vector<at::ScalarType> output_dtypes() const;
  std::optional<at::ScalarType> half_dtype() const;
  std::vector<std::string> updated_inputs() const;
  using Adapter = std::tuple<std::string, std::vector<int64_t>, at::ScalarType>;
  std::vector<Adapter> adapters() const;
  // Returns the current value of a weight that is an adapter of the model.
  at::Tensor adapter_value(const std::string& name) const {
    const aten::Constant* constant = module_weights_.find(name);
    require(constant, "there is no adapter ", name);
    return aten::to_tensor(constant->data);
  }
  int64_t weight_bytes() const { return onnx_native::weight_bytes(program_); }
  int64_t opset() const { return program_.opset(); }
  std::string text() const { return program_.text(); }
  py::dict report() const;
  // A tensor of the module that the model takes as an input and returns as an output.
  struct State {
    std::string target;
    std::string input;
    std::string output;
    std::optional<at::Tensor> initial;
  };
  std::vector<State> state() const;

  void save(const std::filesystem::path& path, std::optional<bool> external_data,
            const py::object& progress, const std::map<std::string, WeightPlace>& places) const {
    report_to(progress, [&](const Report& report) {
      program_.save(path, {.external_data = external_data,
                           .places = places,
                           .metadata = metadata_,
                           .progress = report});
    });
  }
  // Saves the model with others, see save_together().
  ProgramPart part(std::filesystem::path path, std::map<std::string, WeightPlace> places) {
    return {.program = &program_,
            .path = std::move(path),
            .metadata = metadata_,
            .places = std::move(places)};
  }
  py::bytes serialize() const {
    const auto bytes = [this] {
      const py::gil_scoped_release released;
      return program_.serialize(metadata_);
    };
    return bytes();
  }
  // Returns the bytes of the model without its weights, and the names of the weights. weight()
  // takes the index of a name.
  std::pair<py::bytes, std::vector<std::string>> serialize_without_weights();
  // Returns the current elements of a weight of the last serialize_without_weights(). Throws
  // ExportError(invalid_argument) when a weight changed on which the model's structure depends.
  at::Tensor weight(size_t number) const {
    check_reads(program_);
    return aten::to_tensor(*weights_.at(number).second);
  }
  StoredWeight weight_layout(const std::string& initializer) const {
    return module_weights_.stored_in(initializer);
  }
  std::vector<std::string> set_weights(const std::map<std::string, at::Tensor>& tensors) {
    return onnx_native::set_weights(program_, tensors);
  }

 private:
  static std::vector<std::string> names(const std::vector<TensorInfo>& values) {
    std::vector<std::string> result;
    result.reserve(values.size());
    for (const TensorInfo& value : values) result.push_back(value.name);
    return result;
  }

  Program program_;
  Metadata metadata_;
  ModuleWeights module_weights_;
  std::vector<std::pair<std::string, const TensorData*>> weights_;  // indexed by weight()
};

template <class Pairs>
py::dict dict_of(const Pairs& pairs) {
  py::dict result;
  for (const auto& [key, value] : pairs) result[py::str(key)] = value;
  return result;
}

py::dict PyProgram::report() const {
  const ExportReport& done = program_.contents().report;
  py::dict operators;
  for (const OperatorUse& use : done.operators) operators[py::str(use.op)] = use.calls;
  py::dict report;
  report["seconds"] = dict_of(done.seconds);
  report["operators"] = operators;
  report["aten_nodes"] = done.aten_nodes;
  report["onnx_nodes"] = done.onnx_nodes;
  report["passes"] = dict_of(done.passes);
  report["functions"] = dict_of(done.functions);
  report["warnings"] = done.warnings;
  report["contradictions"] = done.contradictions;
  report["fallbacks"] = done.fallbacks;
  report["missing_kernels"] = done.missing_kernels;
  report["nan_differences"] = done.nan_differences;
  report["half_nodes"] = done.precision.half_nodes;
  report["float32_nodes"] = done.precision.float32_nodes;
  report["adapters"] = names(program_.adapters());
  report["quantized_weights"] = done.weights.quantized;
  report["unquantized_weights"] = done.weights.left;
  return report;
}

std::vector<at::ScalarType> dtypes_of(const std::vector<TensorInfo>& values) {
  std::vector<at::ScalarType> dtypes;
  dtypes.reserve(values.size());
  for (const TensorInfo& value : values) dtypes.push_back(aten::to_scalar_type(value.dtype));
  return dtypes;
}

std::vector<at::ScalarType> PyProgram::input_dtypes() const { return dtypes_of(program_.inputs()); }

std::vector<at::ScalarType> PyProgram::output_dtypes() const {
  return dtypes_of(program_.outputs());
}

// Returns the dtype of half precision in which the model computes; nullopt for the program's own.
std::optional<at::ScalarType> PyProgram::half_dtype() const {
  const DType dtype = program_.contents().report.precision.dtype;
  return dtype == DType::f32 ? std::nullopt : std::optional(aten::to_scalar_type(dtype));
}

std::vector<PyProgram::Adapter> PyProgram::adapters() const {
  std::vector<Adapter> result;
  for (const TensorInfo& info : program_.adapters())
    result.emplace_back(info.name, constant_shape(*info.shape).value(),
                        aten::to_scalar_type(info.dtype));
  return result;
}

std::vector<std::string> PyProgram::updated_inputs() const {
  std::vector<std::string> result;
  for (const aten::Mutation& mutation : program_.contents().graph->mutations)
    if (!mutation.is_buffer) result.push_back(mutation.target);
  return result;
}

std::vector<PyProgram::State> PyProgram::state() const {
  const std::vector<std::string> inputs = input_names(), outputs = output_names();
  std::vector<State> result;
  for (const StateTensor& tensor : program_.state()) {
    result.push_back(
        {.target = tensor.target, .input = inputs[tensor.input], .output = outputs[tensor.output]});
    if (tensor.initial) result.back().initial = aten::to_tensor(*tensor.initial).cpu();
  }
  return result;
}

std::pair<py::bytes, std::vector<std::string>> PyProgram::serialize_without_weights() {
  SeparateWeights separate = onnx_native::serialize_without_weights(program_, metadata_);
  weights_ = std::move(separate.weights);
  std::vector<std::string> names;
  for (const auto& [name, data] : weights_) names.push_back(name);
  return {py::bytes(separate.model), std::move(names)};
}

// Reads `source`: a torch.export.ExportedProgram, a file path, a ScriptSource, or a native capture.
std::unique_ptr<aten::Graph> read(py::handle source, fx::ProgramReader& reader,
                                  const ExportOptions& options) {
  if (py::isinstance<py::str>(source)) return read_file(source.cast<std::string>(), options);
  if (is_capture(source)) return take_graph(source);
  if (py::isinstance<ScriptSource>(source))
    return read_script(source.cast<const ScriptSource&>(), options);
  return fx::read_exported_program(source, reader);
}

// Converts a selection from Python: a bool sets `all`, a list of strings sets `names`.
void select(const py::object& selection, bool& all, std::vector<std::string>& names) {
  if (py::isinstance<py::bool_>(selection)) {
    all = selection.cast<bool>();
  } else {
    names = selection.cast<std::vector<std::string>>();
  }
}

// Exports a program. `fallbacks` lets PyTorch decompose operators without a lowering.
// `translations` is a TranslationTable of onnx_native.lowerings._translation, or None. `hints` maps
// the names of symbols to the sizes of the example inputs.
std::unique_ptr<PyProgram> export_source(
    py::handle source, int64_t opset, bool optimize, std::vector<std::string> input_names,
    std::vector<std::string> output_names, fx::SymbolNames symbol_names, const aten::Hints& hints,
    const py::object& state, const py::object& functions, std::vector<std::string> disabled_passes,
    bool verify, bool fallbacks, py::object translations, const std::string& metadata,
    const std::string& target, const std::string& weights, const std::string& nan,
    const std::string& precision, bool keep_io_types, std::vector<std::string> float32_modules,
    std::vector<std::string> adapters, WeightQuantization quantization) {
  ExportOptions options;
  options.opset = opset;
  options.optimize = optimize;
  options.target = parse_target(target);
  options.weights = parse_weight_layout(weights);
  options.nan = parse_nan_mode(nan);
  options.precision = parse_precision(precision);
  options.keep_io_types = keep_io_types;
  options.float32_modules = std::move(float32_modules);
  options.adapters = std::move(adapters);
  options.quantization = std::move(quantization);
  const Metadata level = parse_metadata(metadata);
  options.input_names = std::move(input_names);
  options.output_names = std::move(output_names);
  select(state, options.state.all, options.state.names);
  select(functions, options.functions.all, options.functions.classes);
  options.disabled_passes = std::move(disabled_passes);
  fx::ProgramReader reader(std::move(symbol_names));
  PyLowerings foreign(reader, opset, fallbacks, std::move(translations));
  const auto read_and_check = [&] {
    const py::gil_scoped_acquire acquired;
    std::unique_ptr<aten::Graph> graph = read(source, reader, options);
    aten::check_squeezes(*graph, hints);
    return graph;
  };
  const bool from_capture = is_capture(source);
  const auto convert = [&] {
    const py::gil_scoped_release released;
    return export_program(read_and_check, options,
                          {.verify = verify || verifies_by_default(),
                           .foreign = &foreign,
                           .has_guards = from_capture});
  };
  Program program = py::isinstance<py::str>(source)
                        ? export_archive(source.cast<std::string>(), convert)
                        : convert();
  ProgramContents& contents = program.contents();
  for (std::string& message : aten::fixed_examples(*contents.graph, hints))
    contents.report.warnings.push_back(std::move(message));
  return std::make_unique<PyProgram>(std::move(program), level);
}

}  // namespace

void bind_program(py::module_& module) {
  using State = PyProgram::State;
  py::class_<State>(module, "StateTensor", "A tensor of the module that the model updates.")
      .def_readonly("target", &State::target)
      .def_readonly("input", &State::input)
      .def_readonly("output", &State::output)
      .def_readonly("initial", &State::initial);
  py::class_<WeightPlace>(module, "WeightPlace", "Where the elements of a weight are in a file.")
      .def(py::init<std::string, int64_t>(), py::arg("file"), py::arg("offset"));
  py::class_<RowRange>(module, "RowRange", "Rows of a tensor: elements of its first axis.")
      .def_readonly("start", &RowRange::start)
      .def_readonly("end", &RowRange::end);
  py::class_<WeightPart>(module, "WeightPart", "The part of a weight that an initializer stores.")
      .def_readonly("weight", &WeightPart::weight)
      .def_readonly("rows", &WeightPart::rows);
  py::class_<StoredWeight>(module, "StoredWeight",
                           "The parts of weights that an initializer stores.")
      .def_readonly("parts", &StoredWeight::parts)
      .def_readonly("is_transposed", &StoredWeight::is_transposed);
  py::class_<WeightQuantization>(module, "WeightQuantization", "How weights are quantized.")
      .def(py::init([](const std::string& dtype, int64_t block_size, bool symmetric,
                       bool embeddings, std::vector<std::string> excluded, int64_t accuracy_level) {
             return WeightQuantization{
                 parse_weight_bits(dtype), block_size,    symmetric, embeddings,
                 std::move(excluded),      accuracy_level};
           }),
           py::kw_only(), py::arg("dtype"), py::arg("block_size"), py::arg("symmetric"),
           py::arg("embeddings"), py::arg("excluded"), py::arg("accuracy_level"));
  py::class_<PyProgram>(module, "Program")
      .def(py::init(&export_source), py::arg("source"), py::kw_only(), py::arg("opset"),
           py::arg("optimize") = true, py::arg("input_names") = std::vector<std::string>(),
           py::arg("output_names") = std::vector<std::string>(),
           py::arg("symbol_names") = fx::SymbolNames(), py::arg("hints") = aten::Hints(),
           py::arg("state") = false, py::arg("functions") = false,
           py::arg("disabled_passes") = std::vector<std::string>(), py::arg("verify") = false,
           py::arg("fallbacks") = false, py::arg("translations") = py::none(),
           py::arg("metadata") = "full", py::arg("target") = "onnx", py::arg("weights") = "runtime",
           py::arg("nan") = "standard", py::arg("precision") = "program",
           py::arg("keep_io_types") = true, py::arg("float32_modules") = std::vector<std::string>(),
           py::arg("adapters") = std::vector<std::string>(),
           py::arg("quantization") = WeightQuantization())
      .def_property_readonly("input_names", &PyProgram::input_names)
      .def_property_readonly("output_names", &PyProgram::output_names)
      .def_property_readonly("input_dtypes", &PyProgram::input_dtypes)
      .def_property_readonly("output_dtypes", &PyProgram::output_dtypes)
      .def_property_readonly("half_dtype", &PyProgram::half_dtype,
                             "The dtype of half precision in which the model computes, or None.")
      .def_property_readonly("adapters", &PyProgram::adapters,
                             "The names, shapes and dtypes of inputs that hold adapters.")
      .def("adapter_value", &PyProgram::adapter_value, py::arg("name"))
      .def_property_readonly("updated_inputs", &PyProgram::updated_inputs,
                             "Names of the inputs to which the program writes, as it names them.")
      .def_property_readonly("weight_bytes", &PyProgram::weight_bytes)
      .def_property_readonly("opset", &PyProgram::opset)
      .def("report", &PyProgram::report)
      .def("state", &PyProgram::state)
      .def("save", &PyProgram::save, py::arg("path"), py::arg("external_data") = py::none(),
           py::arg("progress") = py::none(),
           py::arg("places") = std::map<std::string, WeightPlace>())
      .def("serialize", &PyProgram::serialize)
      .def("serialize_without_weights", &PyProgram::serialize_without_weights)
      .def("weight", &PyProgram::weight, py::arg("number"))
      .def("weight_layout", &PyProgram::weight_layout, py::arg("initializer"),
           "Returns what the initializer with this name stores of the module's weights.")
      .def("set_weights", &PyProgram::set_weights, py::arg("tensors"))
      .def("text", &PyProgram::text);
  module.def(
      "save_bytes",
      [](const std::filesystem::path& path, const std::filesystem::path& data,
         const py::function& model_bytes) {
        const py::gil_scoped_release released;
        save_bytes(path, data, [&model_bytes](const std::string& location) {
          const py::gil_scoped_acquire gil;
          return model_bytes(location).cast<std::string>();
        });
      },
      py::arg("path"), py::arg("data"), py::arg("model_bytes"),
      "Saves the model that model_bytes returns for the name of the data file.");
  using PyPart = std::tuple<PyProgram*, std::filesystem::path, std::map<std::string, WeightPlace>>;
  module.def(
      "save_together",
      [](const std::vector<PyPart>& parts, const std::filesystem::path& folder,
         std::optional<int64_t> shard_bytes, const py::object& progress) {
        std::vector<ProgramPart> programs;
        programs.reserve(parts.size());
        for (const auto& [program, path, places] : parts)
          programs.push_back(program->part(path, places));
        report_to(progress, [&](const Report& report) {
          save_together(programs, folder, {.shard_bytes = shard_bytes, .progress = report});
        });
      },
      py::arg("parts"), py::arg("folder"), py::arg("shard_bytes") = py::none(),
      py::arg("progress") = py::none(),
      "Saves programs, each with its path and the places of weights, with one data file or "
      "shards.");
  module.def("temporary_path", &temporary_path, py::arg("model"));
  module.def("is_direct", &is_direct, py::arg("path"));
}

}  // namespace onnx_native::plugin
