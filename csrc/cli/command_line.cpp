#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <new>
#include <optional>
#include <system_error>

#include "cli/progress.h"
#include "onnx_native/export.h"
#include "onnx_native/inspect.h"
#include "onnx_native/version.h"

namespace onnx_native::cli {
namespace {

constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;

constexpr const char* kFooter = R"(
The sizes of an input are numbers or names; without brackets its rank is unknown:
  onnx-native scripted.pt -o model.onnx --input 'x:float32[batch,3,224,224]' --input 'n:int64[]'
Inputs can also be lists, tuples, dicts and constants:
  --input 'xs:[float32[n], float32[m]]'  --input 'd:{image: float32[3,h,w], mask: bool[h,w]}'
  --input 'scale:0.5'  --input "mode:'mean'"  --input 'flag:true'  --input 'mask:none'
Exit codes: 0 on success, 1 if the export failed, 2 if the arguments are wrong.)";

struct Arguments {
  std::string model;
  std::string output;
  std::vector<std::string> inputs;
  std::vector<std::string> state;
  std::vector<std::string> functions;
  std::string dump;
  std::string target = "onnx";
  std::string weights = "runtime";
  std::string nan = "standard";
  std::string precision = "program";
  std::string quantize_weights = "none";
  bool list = false;
  bool no_optimize = false;
  std::string metadata = "full";
  bool check = false;
  std::optional<bool> external_data;
  ExportOptions options;
};

void describe(CLI::App& app, Arguments& to) {
  app.set_version_flag("--version", "onnx-native " + std::string(version()) + " (PyTorch " +
                                        std::string(torch_version()) + ")");
  app.footer(kFooter);
  app.add_option("model", to.model,
                 "the program to export, saved by torch.export.save or torch.jit.save")
      ->type_name("MODEL")
      ->required();
  app.add_option("-o,--output", to.output, "the ONNX file to write")->type_name("OUT.onnx");
  app.add_option("--input", to.inputs,
                 "dtype and shape of an argument of a TorchScript program; repeat it for each "
                 "argument, in order; for a .pt2 file, names of the dynamic sizes of an input")
      ->type_name("NAME:DTYPE[SIZES]")
      ->allow_extra_args(false);
  app.add_option("--opset", to.options.opset, "version of the ONNX operator set")
      ->capture_default_str();
  app.add_option("--target", to.target,
                 "the tool that the model is written for: onnx (all tools), onnxruntime-cpu, "
                 "onnxruntime-cuda, onnxruntime-webgpu, opencv, mnn or tract")
      ->type_name("TARGET")
      ->capture_default_str();
  app.add_option("--weights", to.weights,
                 "the layout of matrices that only products use: runtime (transposed, named with "
                 "'.T') or module")
      ->type_name("LAYOUT")
      ->capture_default_str();
  app.add_option("--nan", to.nan,
                 "what the model computes from NaN: standard (max pools ignore it), exact, or "
                 "ignore (sorts ignore it too)")
      ->type_name("MODE")
      ->capture_default_str();
  app.add_option("--precision", to.precision,
                 "what a float32 program computes in: program (float32), float16 or bfloat16")
      ->type_name("PRECISION")
      ->capture_default_str();
  app.add_flag("--keep-io-types,!--no-keep-io-types", to.options.keep_io_types,
               "keep float32 inputs and outputs where --precision lowers the rest (the default)");
  app.add_option("--float32-modules", to.options.float32_modules,
                 "names of modules that compute in float32 where --precision lowers the rest")
      ->type_name("NAME,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--adapters", to.options.adapters,
                 "names of parameters that become inputs with zeros as defaults")
      ->type_name("NAME,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--quantize-weights", to.quantize_weights,
                 "the dtype in which weights of products are stored in blocks: none, int4 or int8")
      ->type_name("DTYPE")
      ->capture_default_str();
  app.add_option("--block-size", to.options.quantization.block_size,
                 "elements of a quantized weight that share a scale: a power of two, 16 or more")
      ->type_name("SIZE")
      ->capture_default_str();
  app.add_flag("--symmetric,!--no-symmetric", to.options.quantization.symmetric,
               "quantize weights without zero points (the default)");
  app.add_flag("--quantize-embeddings", to.options.quantization.embeddings,
               "quantize tables of embeddings too, where the target takes them");
  app.add_option("--keep-weights", to.options.quantization.excluded,
                 "names of weights and modules that --quantize-weights leaves as they are")
      ->type_name("NAME,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--input-names", to.options.input_names, "new names for the first inputs")
      ->type_name("NAME,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--output-names", to.options.output_names, "new names for the first outputs")
      ->type_name("NAME,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--state", to.state,
                 "buffers and inputs whose updates become part of the model, or 'all'")
      ->type_name("NAME,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--functions", to.functions,
                 "classes of the modules that become functions of the model, or 'all'")
      ->type_name("CLASS,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_flag("--external-data,!--no-external-data", to.external_data,
               "store the weights in OUT.onnx.data or in OUT.onnx; by default, large weights go to "
               "OUT.onnx.data");
  app.add_flag("--no-optimize", to.no_optimize, "do not optimize the graph after lowering");
  app.add_option("--disable-passes", to.options.disabled_passes,
                 "names of optimization passes that do not run")
      ->type_name("PASS,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--metadata", to.metadata,
                 "what the model records of the program: names of modules and operators, or also "
                 "source lines (full)")
      ->check(CLI::IsMember({"none", "names", "full"}))
      ->capture_default_str();
  app.add_flag("--check", to.check, "run onnx's checker on the model before writing it");
  app.add_option("--dump", to.dump, "print the program (aten) or the model (onnx) as text")
      ->check(CLI::IsMember({"aten", "onnx"}));
  app.add_flag("--list-ops", to.list,
               "print the operators that the program uses, including unsupported ones");
}

void list(const std::vector<OperatorUse>& operators) {
  for (const OperatorUse& use : operators) {
    std::cout << std::setw(6) << use.calls << "  " << use.op << (use.supported ? "" : "  (missing)")
              << '\n';
  }
  const auto missing = std::ranges::count(operators, false, &OperatorUse::supported);
  std::cout << operators.size() << " operators, " << missing << " missing\n";
}

bool takes_all(const std::vector<std::string>& names) {
  return std::ranges::find(names, "all") != names.end();
}

// The model must not take the place of the program.
void check_output(const Arguments& arguments) {
  std::error_code missing;
  if (std::filesystem::equivalent(arguments.model, arguments.output, missing))
    fail(ErrorKind::invalid_argument, "the output ", arguments.output,
         " is the program itself; choose another file");
}

void perform(Arguments& arguments) {
  check_output(arguments);
  ExportOptions& options = arguments.options;
  for (const std::string& text : arguments.inputs) options.inputs.push_back(parse_input(text));
  options.optimize = !arguments.no_optimize;
  options.target = parse_target(arguments.target);
  options.weights = parse_weight_layout(arguments.weights);
  options.nan = parse_nan_mode(arguments.nan);
  options.precision = parse_precision(arguments.precision);
  options.quantization.bits = parse_weight_bits(arguments.quantize_weights);
  options.state.all = takes_all(arguments.state);
  if (!options.state.all) options.state.names = arguments.state;
  options.functions.all = takes_all(arguments.functions);
  if (!options.functions.all) options.functions.classes = arguments.functions;

  if (arguments.list) list(list_operators(arguments.model, options));
  if (arguments.dump == "aten") std::cout << aten_text(arguments.model, options);
  if (arguments.output.empty() && arguments.dump != "onnx" && !arguments.check) return;
  const Program program = export_file(arguments.model, options);
  for (const std::string& warning : program.warnings())
    std::cerr << "onnx-native: warning: " << warning << '\n';
  if (arguments.dump == "onnx") std::cout << program.text();
  if (arguments.check) program.check();
  if (arguments.output.empty()) return;
  program.save(arguments.output, {.external_data = arguments.external_data,
                                  .metadata = parse_metadata(arguments.metadata),
                                  .progress = progress_line("writing " + arguments.output)});
}

}  // namespace

int run(std::vector<std::string> arguments) {
  Arguments values;
  CLI::App app("Exports PyTorch programs to ONNX, without Python.", "onnx-native");
  describe(app, values);
  std::ranges::reverse(arguments);  // CLI11 takes them last to first
  try {
    app.parse(std::move(arguments));
    if (values.output.empty() && values.dump.empty() && !values.list && !values.check)
      throw CLI::RequiredError("one of -o, --check, --dump and --list-ops");
    perform(values);
    if (std::cout.flush()) return 0;
    std::cerr << "onnx-native: cannot write to standard output\n";
    return kFailed;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::cerr << "onnx-native: " << error.what() << "\nTry 'onnx-native --help'.\n";
    return kWrongUsage;
  } catch (const ExportError& error) {
    std::cerr << "onnx-native: ExportError " << error.what() << '\n';
    return error.kind() == ErrorKind::invalid_argument ? kWrongUsage : kFailed;
  } catch (const std::bad_alloc&) {
    std::cerr << "onnx-native: out of memory\n";
    return kFailed;
  }
}

}  // namespace onnx_native::cli
