// What every entry point of the C++ API does around its work.
#pragma once

#include <c10/util/Exception.h>

#include <exception>

#include "base/error.h"

namespace onnx_native {

// Throws ExportError when PyTorch is not the version that this library was built for.
void check_torch_version();

// Runs `work`; whatever it throws is an ExportError.
template <class Work>
auto entry(const Work& work) {
  try {
    check_torch_version();
    return work();
  } catch (const ExportError&) {
    throw;
  } catch (const c10::Error& error) {
    fail(ErrorKind::internal, error.what_without_backtrace());
  } catch (const std::exception& error) {
    fail(ErrorKind::internal, error.what());
  }
}

}  // namespace onnx_native
