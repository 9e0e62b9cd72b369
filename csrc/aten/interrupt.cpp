#include "aten/interrupt.h"

#include <atomic>

namespace onnx_native::aten {
namespace {

std::atomic<bool (*)(const std::exception_ptr&)> recognizes{nullptr};

}  // namespace

void set_interrupts(bool (*is_interrupt)(const std::exception_ptr& error)) {
  recognizes = is_interrupt;
}

void pass_interrupt() {
  if (const auto is_interrupt = recognizes.load();
      is_interrupt && is_interrupt(std::current_exception()))
    throw;
}

}  // namespace onnx_native::aten
