// Finds the user's source lines in a Python stack trace.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/error.h"

namespace onnx_native::aten {

// The most frames that a location lists, the innermost ones. A call of nested modules has one for
// each module around it, so that complete lists grow with the square of the depth.
inline constexpr size_t kMostFrames = 32;

// Sets source and code to those of the innermost frame outside PyTorch, or else of the innermost
// frame. The first line of `code` is the text of the source line; the other lines are the frames
// outside PyTorch, from the outermost in, at most kMostFrames. PyTorch's files are those in
// `torch_folder`; if that is empty, those in any torch package.
void read_stack_trace(std::string_view trace, Location& location,
                      std::string_view torch_folder = {});

// Returns the path of a source file without the part that depends on the machine: from the folder
// of the installed packages on, or the name of the file.
std::string portable_path(std::string_view path);
// Does the same with a file of this machine. It keeps the folders of the package that has the file.
std::string local_path(const std::string& path);

// Returns a frame as Python prints it; `code` may be empty.
std::string frame_text(std::string_view path, std::string_view line, std::string_view function,
                       std::string_view code);
// Appends the next inner frame to a stack.
void append_frame(std::string& stack, std::string_view frame);

}  // namespace onnx_native::aten
