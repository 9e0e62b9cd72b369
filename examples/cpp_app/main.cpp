// Exports a .pt2 archive to ONNX, checks the model, and shows what it takes and gives.
#include <onnx_native/export.h>

#include <cstdlib>
#include <iostream>

#include "scaled_gelu.h"

namespace {

void show(const char* what, const std::vector<onnx_native::TensorInfo>& tensors) {
  for (const onnx_native::TensorInfo& tensor : tensors) {
    std::cout << what << ' ' << tensor.name << ": " << name(tensor.dtype)
              << (tensor.shape ? str(*tensor.shape) : "[?]") << '\n';
  }
}

void export_archive(const char* archive, const char* target) {
  const onnx_native::Program program = onnx_native::export_file(archive, {.opset = 20});
  for (const std::string& warning : program.warnings()) std::cerr << warning << '\n';
  show("input", program.inputs());
  show("output", program.outputs());
  program.check();
  program.save(target);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::cerr << "usage: cpp_app MODEL.pt2 MODEL.onnx\n";
    return 2;
  }
  register_scaled_gelu_lowering();
  try {
    export_archive(arguments[1], arguments[2]);
  } catch (const onnx_native::ExportError& error) {
    std::cerr << error.what() << '\n';
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
