// Exports a torch::nn::Module, or a C++ function over tensors, by recording one run of it.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "onnx_native/export.h"

namespace onnx_native {

// A size of an example input: a number, or the name of a dynamic dimension and its range. Equal
// names are equal sizes.
struct InputSize {
  InputSize(int64_t size) : number(size) {}            // NOLINT(google-explicit-constructor)
  InputSize(int size) : number(size) {}                // NOLINT(google-explicit-constructor)
  InputSize(std::string symbol, int64_t smallest = 0,  // NOLINT(google-explicit-constructor)
            std::optional<int64_t> largest = std::nullopt)
      : name(std::move(symbol)), low(smallest), high(largest) {}
  InputSize(const char* symbol, int64_t smallest = 0,  // NOLINT(google-explicit-constructor)
            std::optional<int64_t> largest = std::nullopt)
      : InputSize(std::string(symbol), smallest, largest) {}

  int64_t number = 0;
  std::string name;  // empty: the size is `number`
  int64_t low = 0;
  std::optional<int64_t> high;
};

// An example input, for example {"x", torch::randn({2, 4}), {"batch", 4}}. Its elements are not
// read.
struct ExampleInput {
  std::string name;
  at::Tensor tensor;
  // One entry per dimension. Without entries all sizes are those of `tensor`.
  std::vector<InputSize> sizes = {};
};

// The weights of a program with their names in the model. They are not copied.
struct NamedTensors {
  std::vector<std::pair<std::string, at::Tensor>> parameters;
  std::vector<std::pair<std::string, at::Tensor>> buffers;
  bool is_training = false;
};

// A program that runs on the recorded inputs and returns its results, flattened.
using RecordedProgram = std::function<std::vector<c10::IValue>(const std::vector<at::Tensor>&)>;

namespace detail {

// A result that the model returns, or several: tensors and numbers, in tuples and vectors. Leaves
// out undefined tensors.
inline void flatten(const at::Tensor& tensor, std::vector<c10::IValue>& results) {
  if (tensor.defined()) results.emplace_back(tensor);
}
inline void flatten(const c10::SymInt& size, std::vector<c10::IValue>& results) {
  results.emplace_back(size);
}
template <class T>
void flatten(const std::optional<T>& result, std::vector<c10::IValue>& results) {
  if (result) flatten(*result, results);
}
template <class T>
void flatten(const std::vector<T>& list, std::vector<c10::IValue>& results);
template <class... Ts>
void flatten(const std::tuple<Ts...>& tuple, std::vector<c10::IValue>& results);
template <class T, class U>
void flatten(const std::pair<T, U>& pair, std::vector<c10::IValue>& results) {
  flatten(pair.first, results);
  flatten(pair.second, results);
}
template <class T>
void flatten(const std::vector<T>& list, std::vector<c10::IValue>& results) {
  for (const T& item : list) flatten(item, results);
}
template <class... Ts>
void flatten(const std::tuple<Ts...>& tuple, std::vector<c10::IValue>& results) {
  std::apply([&results](const Ts&... items) { (flatten(items, results), ...); }, tuple);
}

template <class T>
std::vector<c10::IValue> flattened(const T& result) {
  std::vector<c10::IValue> results;
  flatten(result, results);
  return results;
}

// Calls a module, a pointer or holder of a module, or a function.
template <class Callable, class... Arguments>
auto call(Callable& callable, const Arguments&... arguments) {
  if constexpr (requires { callable.forward(arguments...); }) {
    return callable.forward(arguments...);
  } else if constexpr (requires { (*callable).forward(arguments...); }) {
    return (*callable).forward(arguments...);
  } else {
    return std::invoke(callable, arguments...);
  }
}

template <class Callable, size_t... I>
auto call_with(Callable& callable, const std::vector<at::Tensor>& tensors,
               std::index_sequence<I...> /*indices*/) {
  return call(callable, tensors[I]...);
}

}  // namespace detail

// Returns the parameters and buffers of a torch::nn::Module, or of a pointer or holder of one; no
// tensors for any other object.
template <class Module>
NamedTensors named_tensors(const Module& module) {
  NamedTensors tensors;
  if constexpr (requires { module.named_parameters(); }) {
    for (const auto& item : module.named_parameters())
      tensors.parameters.emplace_back(item.key(), item.value());
    for (const auto& item : module.named_buffers())
      tensors.buffers.emplace_back(item.key(), item.value());
    tensors.is_training = module.is_training();
  } else if constexpr (requires { (*module).named_parameters(); }) {
    return named_tensors(*module);
  } else if constexpr (requires { module.ptr()->named_parameters(); }) {
    return named_tensors(*module.ptr());
  }
  return tensors;
}

// Exports a program with any number of inputs. export_callable explains arguments and errors.
Program export_recorded(const RecordedProgram& program, const std::vector<ExampleInput>& inputs,
                        const NamedTensors& weights, const ExportOptions& options = {});

// Exports an object with a method `forward`, a pointer or holder of one (torch::nn::Linear), or a
// function. It takes one tensor per input and returns a tensor, or tuples or vectors of tensors.
//
//   Program program = onnx_native::export_callable(
//       model, {{"x", torch::randn({2, 3, 32, 32}), {"batch", 3, 32, 32}}});
//
// The callable runs on tensors that have a dtype and sizes but no elements, and each operator that
// it calls becomes part of the model; code that is not an operator runs once and leaves no trace.
// Its branches are decided by the example: Program::conditions() says for which sizes the model is
// valid. Call eval() first to export operators in inference mode. Without Python there are no
// source lines. `weights` names the tensors of a function that is not a module:
// named_tensors(module).
//
// The Program shares the weights, as after export_module. Several threads may export at once.
//
// Throws ExportError: invalid_argument when inputs or options do not fit, also when the size of an
// input is not in its range; invalid_program when the callable fails on the example; unsupported
// when it does what cannot be recorded: it reads elements of a tensor (item(), data_ptr()), writes
// to its weights, or reads a dynamic size as a number (x.size(0)) and not as a symbol
// (x.sym_size(0)); and the errors of export_file that concern lowering.
template <class Callable, size_t N>
Program export_callable(Callable&& callable, const ExampleInput (&inputs)[N],
                        const ExportOptions& options = {},
                        const std::optional<NamedTensors>& weights = std::nullopt) {
  const auto run = [&callable](const std::vector<at::Tensor>& tensors) {
    return detail::flattened(detail::call_with(callable, tensors, std::make_index_sequence<N>()));
  };
  return export_recorded(run, {inputs, inputs + N}, weights ? *weights : named_tensors(callable),
                         options);
}

}  // namespace onnx_native
