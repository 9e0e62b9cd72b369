#include "aten/scopes.h"

#include <charconv>
#include <string>

namespace onnx_native::aten {
namespace {

int64_t call_number(std::string_view key) {
  const size_t at = key.rfind('@');
  int64_t number = 0;
  if (at != std::string_view::npos) {
    std::from_chars(key.data() + at + 1, key.data() + key.size(), number);
  }
  return number;
}

std::string module_path(std::string_view path, std::string_view class_name) {
  return concat(path, path.empty() ? "(" : " (", class_name.substr(class_name.rfind('.') + 1), ")");
}

void append_scope(Location& location, const Location& from, size_t i) {
  if (location.module_names.size() >= kMostScopes) return;
  location.module_names.push_back(from.module_names[i]);
  location.class_names.push_back(from.class_names[i]);
  location.calls.push_back(from.calls[i]);
}

}  // namespace

void add_scope(Location& location, std::string_view key, std::string_view path,
               std::string_view class_name) {
  // In the subgraphs of a strict capture, the model itself appears twice.
  constexpr std::string_view kRoot = "_export_root";
  if (path == kRoot) return;
  if (path.starts_with("_export_root.")) path.remove_prefix(kRoot.size() + 1);
  location.module_path = module_path(path, class_name);
  if (location.module_names.size() >= kMostScopes) return;
  location.module_names.emplace_back(path);
  location.class_names.emplace_back(class_name);
  location.calls.push_back(call_number(key));
}

Location in_region(const Location& call, std::string_view subgraph) {
  Location region = call;
  add_scope(region, "", call.node, concat(kSubgraphDomain, ".", subgraph));
  return region;
}

Location within(const Location& region, Location inner) {
  Location result = region;
  result.source = std::move(inner.source);
  result.code = std::move(inner.code);
  result.node = std::move(inner.node);
  // Take the modules of this call in place of those of the first call, as long as the classes
  // match.
  const size_t outer = region.class_names.size() - 1;
  size_t i = 0;
  while (i < outer && i < inner.class_names.size() &&
         inner.class_names[i] == region.class_names[i]) {
    ++i;
  }
  if (i < inner.module_names.size()) result.module_path = std::move(inner.module_path);
  for (; i < inner.module_names.size(); ++i) append_scope(result, inner, i);
  return result;
}

}  // namespace onnx_native::aten
