// Exports a TorchScript module, on which it has run an inference, and a .pt2 archive to ONNX.
#include <onnx_native/export.h>
#include <onnx_native/jit.h>
#include <torch/script.h>

#include <cstdlib>
#include <iostream>

#include "scaled_gelu.h"

namespace {

using onnx_native::Program;

void show(const char* what, const std::vector<onnx_native::TensorInfo>& tensors) {
  for (const onnx_native::TensorInfo& tensor : tensors) {
    std::cout << what << ' ' << tensor.name << ": " << name(tensor.dtype)
              << (tensor.shape ? str(*tensor.shape) : "[?]") << '\n';
  }
}

void check_and_save(const Program& program, const std::string& target) {
  for (const std::string& warning : program.warnings()) std::cerr << warning << '\n';
  show("input", program.inputs());
  show("output", program.outputs());
  program.check();
  program.save(target);
}

// A module that takes a batch of rows of four numbers.
void export_scripted(const char* file, const std::string& target) {
  torch::jit::Module module = torch::jit::load(file);
  module.eval();
  std::cout << module.forward({at::ones({2, 4})}).toTensor() << '\n';

  const Program program = onnx_native::export_module(
      module, {.opset = 20, .inputs = {onnx_native::parse_input("x:float32[batch,4]")}});
  check_and_save(program, target);
}

void export_archive(const char* file, const std::string& target) {
  const Program program = onnx_native::export_file(file, {.opset = 20});
  check_and_save(program, target);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) {
    std::cerr << "usage: cpp_app SCRIPTED.pt SCRIPTED.onnx PROGRAM.pt2 PROGRAM.onnx\n";
    return 2;
  }
  register_scaled_gelu_lowering();
  try {
    export_scripted(arguments[1], arguments[2]);
    export_archive(arguments[3], arguments[4]);
  } catch (const onnx_native::ExportError& error) {
    std::cerr << error.what() << '\n';
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
