#include "aten/stack_trace.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace onnx_native::aten {
namespace {

constexpr std::string_view kFile = "File \"";

bool is_torch_file(std::string_view path, std::string_view torch_folder) {
  return path.starts_with("torch/") || path.starts_with("<") ||
         (torch_folder.empty() ? path.find("-packages/torch/") != std::string_view::npos
                               : path.starts_with(torch_folder));
}

std::string_view trimmed(std::string_view line) {
  const size_t first = line.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
}

// A frame of a stack trace. `function` and `code` are empty if the trace does not have them.
struct Frame {
  std::string_view path;
  std::string_view line;
  std::string_view function;
  std::string_view code;
};

// Reads a frame, which starts with `File "`; nullopt if it is malformed.
std::optional<Frame> read_frame(std::string_view text) {
  Frame frame;
  std::string_view rest = text.substr(kFile.size());
  const size_t quote = rest.find('"');
  if (quote == std::string_view::npos) return std::nullopt;
  frame.path = rest.substr(0, quote);
  rest.remove_prefix(quote);
  constexpr std::string_view kLine = "\", line ";
  if (!rest.starts_with(kLine)) return std::nullopt;
  rest.remove_prefix(kLine.size());
  frame.line = rest.substr(0, rest.find_first_not_of("0123456789"));
  rest.remove_prefix(frame.line.size());
  const size_t end = std::min(rest.find('\n'), rest.size());
  constexpr std::string_view kIn = ", in ";
  if (rest.starts_with(kIn)) frame.function = trimmed(rest.substr(kIn.size(), end - kIn.size()));
  if (end == rest.size()) return frame;
  const std::string_view code = trimmed(rest.substr(end + 1, rest.find('\n', end + 1) - end - 1));
  if (!code.starts_with(kFile)) frame.code = code;
  return frame;
}

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// Returns the path from the folder of installed packages on; empty if it is in none.
std::string_view path_in_packages(std::string_view path) {
  for (const std::string_view folder : {"/site-packages/", "/dist-packages/"}) {
    const size_t at = path.rfind(folder);
    if (at != std::string_view::npos) return path.substr(at + folder.size());
  }
  return {};
}

std::string path_in_package(const std::filesystem::path& path) {
  std::filesystem::path root = path.parent_path();
  std::error_code ignored;
  while (root.has_relative_path() && std::filesystem::exists(root / "__init__.py", ignored))
    root = root.parent_path();
  return path.lexically_relative(root).generic_string();
}

}  // namespace

std::string portable_path(std::string_view path) {
  const std::string_view inside = path_in_packages(path);
  return std::string(inside.empty() ? file_name(path) : inside);
}

std::string local_path(const std::string& path) {
  if (!path_in_packages(path).empty() || !path.starts_with('/')) return portable_path(path);
  static std::mutex mutex;
  static std::map<std::string, std::string> known;
  const std::lock_guard lock(mutex);
  const auto [at, is_new] = known.try_emplace(path);
  if (is_new) at->second = path_in_package(path);
  return at->second;
}

std::string frame_text(std::string_view path, std::string_view line, std::string_view function,
                       std::string_view code) {
  std::string text = concat(kFile, path, "\", line ", line);
  if (!function.empty()) text += concat(", in ", function);
  if (!code.empty()) text += concat("\n    ", code);
  return text;
}

void append_frame(std::string& stack, std::string_view frame) {
  if (!stack.empty()) stack += "\n  ";
  stack += frame;
}

void read_stack_trace(std::string_view trace, Location& location, std::string_view torch_folder) {
  const bool is_local = !torch_folder.empty();
  const auto text_of = [is_local](const Frame& frame) {
    return frame_text(is_local ? local_path(std::string(frame.path)) : portable_path(frame.path),
                      frame.line, frame.function, frame.code);
  };
  std::optional<Frame> innermost;
  std::vector<Frame> of_user;
  for (size_t at = trace.find(kFile); at != std::string_view::npos;
       at = trace.find(kFile, at + 1)) {
    const auto frame = read_frame(trace.substr(at));
    if (!frame) continue;
    innermost = frame;
    if (is_torch_file(frame->path, torch_folder)) continue;
    of_user.push_back(*frame);
  }
  if (!innermost) return;
  const Frame& shown = of_user.empty() ? *innermost : of_user.back();
  std::string stack;
  for (size_t i = of_user.size() - std::min(of_user.size(), kMostFrames); i < of_user.size(); ++i)
    append_frame(stack, text_of(of_user[i]));
  location.source = concat(file_name(shown.path), ":", shown.line);
  location.code = concat(shown.code, "\n", stack.empty() ? text_of(shown) : stack);
}

}  // namespace onnx_native::aten
