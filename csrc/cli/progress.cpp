#include "cli/progress.h"

#include <unistd.h>

#include <iostream>
#include <utility>

namespace onnx_native::cli {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;
constexpr int64_t kWorthShowing = 64 * kMebibyte;

}  // namespace

std::function<void(int64_t, int64_t)> progress_line(std::string label) {
  if (isatty(STDERR_FILENO) == 0) return {};
  return [label = std::move(label), shown = int64_t{-1}](int64_t written, int64_t total) mutable {
    if (total < kWorthShowing) return;
    const int64_t percent = 100 * written / total;
    if (percent == shown) return;
    shown = percent;
    std::cerr << '\r' << label << ": " << percent << " % of " << total / kMebibyte << " MiB"
              << (written == total ? "\n" : "") << std::flush;
  };
}

}  // namespace onnx_native::cli
