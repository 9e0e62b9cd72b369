// Tells what ends the whole process, such as Ctrl-C, from an error of the call that it ended.
#pragma once

#include <exception>

namespace onnx_native::aten {

// Sets how an interrupt is recognized; by default no exception is one. The plugin recognizes
// Python's KeyboardInterrupt and SystemExit.
void set_interrupts(bool (*is_interrupt)(const std::exception_ptr& error));

// Throws the exception that is being handled again if it is an interrupt. Call it first in a
// handler that takes any other exception for an answer.
void pass_interrupt();

}  // namespace onnx_native::aten
