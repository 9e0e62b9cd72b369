#include "checker/checker.h"

#include <exception>
#include <string>

#include "onnx/checker.h"

const char* onnx_native_check_file(const char* path) {
  thread_local std::string problem;
  try {
    ONNX_NAMESPACE::checker::check_model(path, /*full_check=*/true);
    return nullptr;
  } catch (const std::exception& error) {
    problem = error.what();
    return problem.c_str();
  }
}
