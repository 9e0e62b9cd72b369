#include "writer/node_metadata.h"

#include <algorithm>
#include <string_view>

namespace onnx_native::writer {
namespace {

// Returns Python's repr() of a string.
std::string repr(std::string_view text) {
  const bool single =
      text.find('\'') == std::string_view::npos || text.find('"') != std::string_view::npos;
  const char quote = single ? '\'' : '"';
  std::string out(1, quote);
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || c == quote) out += '\\';
    out += c;
  }
  return out + quote;
}

std::string repr(const std::vector<std::string>& texts) {
  std::string out = "[";
  for (const std::string& text : texts) {
    if (out.size() > 1) out += ", ";
    out += repr(text);
  }
  return out + "]";
}

// Returns the frames, which follow the text of the line. A location without them has a line:
// "model.py:42".
std::string stack_trace(const Location& location) {
  const size_t end = location.code.find('\n');
  if (end != std::string::npos) return location.code.substr(end + 1);
  const size_t colon = location.source.rfind(':');
  if (colon == std::string::npos) return location.source;
  std::string trace = "File \"" + location.source.substr(0, colon) + "\", line " +
                      location.source.substr(colon + 1);
  if (!location.code.empty()) trace += "\n    " + location.code;
  return trace;
}

}  // namespace

const Properties& NodeMetadata::of(const Location& location) const {
  if (&location != last_) {
    made_ = make(location);
    last_ = &location;
  }
  return made_;
}

Properties NodeMetadata::make(const Location& location) const {
  const Origin* origin = options_.origin.get();
  const CallText call =
      origin && origin->describe_call ? origin->describe_call(location) : CallText();
  std::vector<std::string> names = location.module_names;
  std::vector<std::string> classes = location.class_names;
  if (!location.node.empty()) names.push_back(location.node);
  if (!location.node.empty() && !call.target.empty()) classes.push_back(call.target);
  std::string scopes;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) scopes += '/';
    scopes += names[i];
    if (i < classes.size()) scopes += ": " + classes[i];
  }
  Properties metadata;
  const auto add = [&metadata](const char* key, std::string value) {
    metadata.emplace_back(key, std::move(value));
  };
  if (!names.empty()) add("namespace", scopes);
  if (!classes.empty()) add("pkg.torch.onnx.class_hierarchy", repr(classes));
  const bool full = options_.metadata == Metadata::full;
  if (full && !call.fx_node.empty()) add("pkg.torch.onnx.fx_node", call.fx_node);
  if (!names.empty()) add("pkg.torch.onnx.name_scopes", repr(names));
  if (full && !location.source.empty()) add("pkg.torch.onnx.stack_trace", stack_trace(location));
  return metadata;
}

}  // namespace onnx_native::writer
