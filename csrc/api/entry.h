// The wrapper around every entry point of the C++ API.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <new>

#include "base/error.h"

namespace onnx_native {

// Throws ExportError if the running PyTorch is not the version that this library was built for.
void check_torch_version();

// Throws std::bad_alloc if an error of PyTorch says that its allocator has no memory left.
void check_memory(const c10::Error& error);

// Runs `work` and converts every exception that it throws to ExportError, except std::bad_alloc.
template <class Work>
auto entry(const Work& work) {
  try {
    check_torch_version();
    return work();
  } catch (const ExportError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const c10::Error& error) {
    check_memory(error);
    fail(ErrorKind::internal, error.what_without_backtrace());
  } catch (const std::exception& error) {
    fail(ErrorKind::internal, error.what());
  }
}

}  // namespace onnx_native
