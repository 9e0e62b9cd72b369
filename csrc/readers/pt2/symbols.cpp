#include "readers/pt2/symbols.h"

#include <cctype>
#include <string_view>
#include <vector>

namespace onnx_native::readers::pt2 {
namespace {

bool in_name(char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; }

void add_identifiers(std::string_view text, std::set<std::string>& found) {
  for (size_t at = 0; at < text.size(); ++at) {
    const size_t start = at;
    while (at < text.size() && in_name(text[at])) ++at;
    if (at > start && std::isdigit(static_cast<unsigned char>(text[start])) == 0)
      found.emplace(text.substr(start, at - start));
  }
}

}  // namespace

std::set<std::string> symbols_of(const Json& program) {
  std::set<std::string> symbols;
  std::vector<const Json*> open{&program};
  while (!open.empty()) {
    const Json& at = *open.back();
    open.pop_back();
    if (at.is_object()) {
      for (const auto& [key, inner] : at.items()) {
        if (key == "expr_str" && inner.is_string())
          add_identifiers(inner.get_ref<const std::string&>(), symbols);
        else
          open.push_back(&inner);
      }
    } else if (at.is_array()) {
      for (const Json& inner : at) open.push_back(&inner);
    }
  }
  return symbols;
}

}  // namespace onnx_native::readers::pt2
