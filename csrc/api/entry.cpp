#include "api/entry.h"

#include <string_view>

namespace onnx_native {

void check_memory(const c10::Error& error) {
  // c10/core/impl/alloc_cpu.cpp throws an error of no type of its own.
  const std::string_view text = error.what_without_backtrace();
  if (text.find("can't allocate memory") != std::string_view::npos) throw std::bad_alloc();
}

}  // namespace onnx_native
