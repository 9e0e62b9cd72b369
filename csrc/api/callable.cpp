#include "onnx_native/callable.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <map>

#include "api/entry.h"
#include "api/program_contents.h"
#include "api/type_inference.h"
#include "capture/recording.h"

namespace onnx_native {
namespace {

using capture::ModuleTensor;
using Symbols = std::map<std::string, capture::Symbol>;

// C++ has no source lines, no symbolic numbers wrapped in tensors, and few meta kernels.
class CppHost final : public capture::Host {
 public:
  Location location() override { return {}; }
  c10::IValue symbol_behind(const at::Tensor& /*wrapped_number*/) override { return {}; }
  bool has_meta_kernels() const override { return false; }
};

void check_options(const ExportOptions& options) {
  if (!options.inputs.empty())
    fail(ErrorKind::invalid_argument,
         "ExportOptions::inputs is for TorchScript; describe the inputs of a callable by "
         "ExampleInput::sizes");
  if (options.method != "forward")
    fail(ErrorKind::invalid_argument, "ExportOptions::method is for TorchScript; to export '",
         options.method, "', pass a lambda that calls it");
}

void check_inputs(const std::vector<ExampleInput>& inputs) {
  std::vector<std::string> names;
  for (const ExampleInput& input : inputs) {
    if (input.name.empty()) fail(ErrorKind::invalid_argument, "an example input has no name");
    if (std::ranges::count(names, input.name) != 0)
      fail(ErrorKind::invalid_argument, "two example inputs have the name ", input.name);
    names.push_back(input.name);
    if (!input.tensor.defined())
      fail(ErrorKind::invalid_argument, "the example input ", input.name, " is undefined");
    const auto rank = static_cast<size_t>(input.tensor.dim());
    if (!input.sizes.empty() && input.sizes.size() != rank)
      fail(ErrorKind::invalid_argument, "the example input ", input.name, " has ", rank,
           " dimensions, but ", input.sizes.size(), " sizes are given");
  }
}

// Adds the symbol of a dynamic dimension.
void declare(Symbols& symbols, const std::string& input, const InputSize& size, int64_t example) {
  if (example < std::max<int64_t>(size.low, 1) || (size.high && example > *size.high))
    fail(ErrorKind::invalid_argument, "the size ", example, " of ", size.name,
         " in the example input ", input, " is not in its range; inputs are not empty");
  const bool has_range = size.low > 1 || size.high;
  const auto [at, inserted] = symbols.try_emplace(
      size.name, capture::Symbol{.example = example,
                                 .range = DimRange::input_size(size.low, size.high),
                                 .origin = has_range ? capture::Symbol::Origin::declared
                                                     : capture::Symbol::Origin::named});
  if (inserted) return;
  capture::Symbol& known = at->second;
  if (known.example != example)
    fail(ErrorKind::invalid_argument, "the dynamic dimension ", size.name, " is ", known.example,
         " in one example input and ", example, " in ", input,
         "; equal names stand for equal sizes");
  if (!has_range) return;
  if (known.origin == capture::Symbol::Origin::declared &&
      known.range != DimRange::input_size(size.low, size.high))
    fail(ErrorKind::invalid_argument, "the dynamic dimension ", size.name, " has two ranges");
  known.range = DimRange::input_size(size.low, size.high);
  known.origin = capture::Symbol::Origin::declared;
}

Symbols symbols_of(const std::vector<ExampleInput>& inputs) {
  Symbols symbols;
  for (const ExampleInput& input : inputs) {
    for (size_t axis = 0; axis < input.sizes.size(); ++axis) {
      const InputSize& size = input.sizes[axis];
      const int64_t example = input.tensor.size(static_cast<int64_t>(axis));
      if (!size.name.empty()) {
        declare(symbols, input.name, size, example);
      } else if (size.number != example) {
        fail(ErrorKind::invalid_argument, "dimension ", axis, " of the example input ", input.name,
             " has the size ", example, ", but ", size.number, " is given");
      }
    }
  }
  return symbols;
}

std::vector<ModuleTensor> state_of(const NamedTensors& weights) {
  std::vector<ModuleTensor> state;
  for (const auto& [name, tensor] : weights.parameters)
    state.push_back({name, tensor, aten::ConstantKind::parameter, /*is_kept=*/true});
  for (const auto& [name, tensor] : weights.buffers)
    state.push_back({name, tensor, aten::ConstantKind::buffer, /*is_kept=*/true});
  return state;
}

// The outcome of one recording.
struct Recorded {
  std::unique_ptr<aten::Graph> graph;  // nullptr: refused
  std::string reason;
  std::vector<capture::Guard> guards;
  std::optional<capture::Equation> equation;
  bool has_unrecognized_numbers = false;
};

// Records a program until it needs no further equation between its sizes.
class CallableReader {
 public:
  CallableReader(const RecordedProgram& program, const std::vector<ExampleInput>& inputs,
                 const NamedTensors& weights)
      : program_(program), inputs_(inputs), weights_(weights), symbols_(symbols_of(inputs)) {}

  std::unique_ptr<aten::Graph> read() {
    Recorded recorded = record(symbols_, /*recognizes_numbers=*/false);
    for (; !recorded.graph && recorded.equation; recorded = record(symbols_, false)) {
      symbols_.erase(recorded.equation->symbol);
      equations_.push_back(*recorded.equation);
    }
    if (recorded.has_unrecognized_numbers) recorded = recognize();
    if (!recorded.graph) refuse(recorded.reason);
    for (const capture::Guard& guard : recorded.guards)
      conditions_.push_back(guard.holds ? guard.text : "not (" + guard.text + ")");
    return std::move(recorded.graph);
  }
  std::vector<std::string> take_conditions() { return std::move(conditions_); }

 private:
  // Records the program at sizes by which the numbers that torch::nn reads can be recognized,
  // until two recordings agree.
  Recorded recognize() {
    Recorded refused{.reason =
                         "code of torch::nn computes with dynamic sizes as numbers in a way "
                         "that the recorder cannot follow; fix these sizes"};
    std::vector<std::string> texts;
    for (const int64_t least : {211, 307, 401, 61, 83, 103, 17, 29}) {
      const std::optional<Symbols> marked = with_primes(least);
      if (!marked) continue;
      Recorded recorded = record(*marked, /*recognizes_numbers=*/true);
      if (!recorded.graph) {
        refused.reason = std::move(recorded.reason);
        continue;
      }
      const auto other = std::ranges::find_if_not(
          recorded.guards, [this](const auto& guard) { return holds_for_example(guard); });
      if (other != recorded.guards.end()) {
        refused.reason = "the program branches on " + other->text +
                         ", and code of torch::nn reads sizes as numbers; fix these sizes";
        continue;
      }
      std::string text = aten::print(*recorded.graph);
      if (std::ranges::count(texts, text) != 0) return recorded;
      texts.push_back(std::move(text));
    }
    return refused;
  }

  // Returns the symbols with a different prime each as example; nullopt if the ranges have too few.
  std::optional<Symbols> with_primes(int64_t least) const {
    const auto is_prime = [](int64_t number) {
      for (int64_t divisor = 2; divisor * divisor <= number; ++divisor) {
        if (number % divisor == 0) return false;
      }
      return true;
    };
    Symbols marked = symbols_;
    for (auto& [name, symbol] : marked) {
      int64_t prime = std::max(least, symbol.range.low.value_or(0));
      while (!is_prime(prime)) ++prime;
      if (symbol.range.high && prime > *symbol.range.high) return std::nullopt;
      symbol.example = prime;
      least = prime + 1;
    }
    return marked;
  }

  bool holds_for_example(const capture::Guard& guard) const {
    return guard.allows([this](std::string_view name) -> std::optional<int64_t> {
      const auto at = symbols_.find(std::string(name));
      return at == symbols_.end() ? std::nullopt : std::optional(at->second.example);
    });
  }

  Recorded record(const Symbols& symbols, bool recognizes_numbers) {
    capture::Recording recording(symbols, state_of(weights_), builtin_types, host_);
    if (recognizes_numbers) recording.decisions().recognize_numbers();
    Recorded recorded{.graph = run(recording)};
    const capture::Decisions& decisions = recording.decisions();
    recorded.reason = decisions.reason();
    recorded.guards = decisions.guards();
    recorded.equation = decisions.equation();
    recorded.has_unrecognized_numbers = decisions.has_unrecognized_numbers();
    return recorded;
  }

  // Returns nullptr if the recording was refused.
  std::unique_ptr<aten::Graph> run(capture::Recording& recording) {
    const c10::InferenceMode no_inference_mode(false);
    const at::NoGradGuard no_grad;
    try {
      run_callable(recording);
      return recording.finish();
    } catch (const std::exception& error) {
      // The program may have caught the exception of a refusal and thrown another one.
      if (!recording.decisions().reason().empty()) return nullptr;
      if (recording.decisions().has_unrecognized_numbers()) return nullptr;
      if (dynamic_cast<const ExportError*>(&error)) throw;
      const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
      fail(ErrorKind::invalid_program, "the callable fails on the example inputs: ",
           torch_error ? torch_error->what_without_backtrace() : error.what());
    }
  }

  void run_callable(capture::Recording& recording) {
    std::vector<at::Tensor> arguments;
    for (const ExampleInput& input : inputs_)
      arguments.push_back(
          recording.add_input(input.tensor, input.name, shape_of(input, recording.decisions())));
    std::vector<c10::IValue> results;
    {
      const capture::ActiveRecording active(recording);
      results = program_(arguments);
    }
    for (const c10::IValue& result : results) recording.add_output(result);
  }

  Shape shape_of(const ExampleInput& input, const capture::Decisions& decisions) const {
    if (input.sizes.empty()) return Shape(input.tensor.sizes().begin(), input.tensor.sizes().end());
    Shape shape;
    for (const InputSize& size : input.sizes)
      shape.push_back(size.name.empty() ? Dim(size.number) : dim_of(size.name, decisions));
    return shape;
  }

  // Returns the symbol, or what it equals by the program's equations.
  Dim dim_of(const std::string& name, const capture::Decisions& decisions) const {
    if (decisions.has_symbol(name)) return decisions.symbol(name);
    const auto known = std::ranges::find(equations_, name, &capture::Equation::symbol);
    return known->value.substitute(
        [&](std::string_view part) { return dim_of(std::string(part), decisions); });
  }

  [[noreturn]] static void refuse(const std::string& reason) {
    throw ExportError(ErrorKind::unsupported, {{.cause = "cannot record the callable: " + reason}},
                      "export TorchScript (onnx_native/jit.h), or the program that "
                      "torch.export.save wrote, if the callable cannot avoid this");
  }

  const RecordedProgram& program_;
  const std::vector<ExampleInput>& inputs_;
  const NamedTensors& weights_;
  Symbols symbols_;
  std::vector<capture::Equation> equations_;
  std::vector<std::string> conditions_;
  CppHost host_;
};

}  // namespace

Program export_recorded(const RecordedProgram& program, const std::vector<ExampleInput>& inputs,
                        const NamedTensors& weights, const ExportOptions& options) {
  return entry([&] {
    check_options(options);
    check_inputs(inputs);
    CallableReader reader(program, inputs, weights);
    Program result = export_program([&] { return reader.read(); }, options, {.has_guards = true});
    ExportReport& report = result.contents().report;
    report.conditions = reader.take_conditions();
    if (weights.is_training)
      report.warnings.emplace_back(
          "the module is in training mode; call eval() first to export it for inference");
    return result;
  });
}

}  // namespace onnx_native
