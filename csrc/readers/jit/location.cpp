#include "readers/jit/location.h"

#include <torch/csrc/jit/ir/ir.h>

#include "base/error.h"

namespace onnx_native::readers::jit {

void append_frame(std::string& trace, const torch::jit::Node& node) {
  const torch::jit::SourceRange range = node.sourceRange();
  const auto place = range.file_line_col();
  if (!place) return;
  const auto& [file, line, column] = *place;
  const size_t line_in_text = range.source()->lineno_for_offset(range.start());
  const std::string code = std::string(range.source()->get_line(line_in_text).str());
  trace += concat("  File \"", file, "\", line ", line, ", in forward\n    ", code, "\n");
}

std::string class_name(const c10::Type& type) {
  const c10::NamedType* named = dynamic_cast<const c10::NamedType*>(&type);
  std::string name = named && named->name() ? named->name()->qualifiedName() : type.str();
  constexpr std::string_view kRoot = "__torch__.";
  if (name.starts_with(kRoot)) name.erase(0, kRoot.size());
  const std::string mangled = "___torch_mangle_";
  for (size_t at = name.find(mangled); at != std::string_view::npos; at = name.find(mangled)) {
    name.erase(at, name.find('.', at) + 1 - at);
  }
  return name;
}

}  // namespace onnx_native::readers::jit
