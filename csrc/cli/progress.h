// How far a big file has been written, on standard error.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace onnx_native::cli {

// For SaveOptions::progress: keeps one line of a terminal up to date. Empty when standard error is
// no terminal; silent for files that are written in no time.
std::function<void(int64_t, int64_t)> progress_line(std::string label);

}  // namespace onnx_native::cli
