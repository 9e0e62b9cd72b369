// A progress line on standard error for writing large files.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace onnx_native::cli {

// Returns a callback for SaveOptions::progress that updates one line of the terminal: percent done
// and total MiB. Returns an empty function when standard error is not a terminal. The callback
// prints nothing for files below 64 MiB.
std::function<void(int64_t, int64_t)> progress_line(std::string label);

}  // namespace onnx_native::cli
