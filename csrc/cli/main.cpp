#include "cli/command_line.h"

int main(int count, char** arguments) {
  return onnx_native::cli::run({arguments + 1, arguments + count});
}
