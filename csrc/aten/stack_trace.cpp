#include "aten/stack_trace.h"

namespace onnx_native::aten {
namespace {

constexpr std::string_view kFile = "File \"";

bool is_torch_file(std::string_view path, std::string_view torch_folder) {
  return path.starts_with("torch/") || path.starts_with("<") ||
         (torch_folder.empty() ? path.find("-packages/torch/") != std::string_view::npos
                               : path.starts_with(torch_folder));
}

// Returns the file of a frame; empty if there is none.
std::string_view path_of(std::string_view frame) {
  const std::string_view rest = frame.substr(kFile.size());
  const size_t quote = rest.find('"');
  return quote == std::string_view::npos ? std::string_view() : rest.substr(0, quote);
}

std::string_view trimmed(std::string_view line) {
  const size_t first = line.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
}

// Reads a frame, which starts with `File "`; returns false if it is malformed.
bool read_frame(std::string_view frame, Location& location) {
  const std::string_view path = path_of(frame);
  constexpr std::string_view kLine = "\", line ";
  std::string_view rest = frame.substr(kFile.size() + path.size());
  if (!rest.starts_with(kLine)) return false;
  rest.remove_prefix(kLine.size());
  const std::string_view line = rest.substr(0, rest.find_first_not_of("0123456789"));
  location.source = concat(path.substr(path.rfind('/') + 1), ":", line);
  const size_t end = rest.find('\n');
  if (end != std::string_view::npos) {
    rest.remove_prefix(end + 1);
    location.code = trimmed(rest.substr(0, rest.find('\n')));
  }
  return true;
}

}  // namespace

void read_stack_trace(std::string_view trace, Location& location, std::string_view torch_folder) {
  for (const bool any_file : {false, true}) {
    for (size_t at = trace.rfind(kFile); at != std::string_view::npos;
         at = at == 0 ? std::string_view::npos : trace.rfind(kFile, at - 1)) {
      const std::string_view frame = trace.substr(at);
      if (!any_file && is_torch_file(path_of(frame), torch_folder)) continue;
      if (read_frame(frame, location)) return;
    }
  }
}

}  // namespace onnx_native::aten
