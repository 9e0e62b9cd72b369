#include "passes/scopes.h"

#include <algorithm>

namespace onnx_native::passes {
namespace {

int64_t call_of(const Location& location, size_t i) {
  return i < location.calls.size() ? location.calls[i] : 0;
}

template <class T>
void keep_first(std::vector<T>& values, size_t count) {
  if (values.size() > count)
    values.erase(values.begin() + static_cast<int64_t>(count), values.end());
}

template <class T>
void drop_first(std::vector<T>& values, size_t count) {
  values.erase(values.begin(),
               values.begin() + static_cast<int64_t>(std::min(count, values.size())));
}

}  // namespace

size_t common_scopes(const Location& a, const Location& b) {
  const size_t most = std::min(a.module_names.size(), b.module_names.size());
  size_t count = 0;
  while (count < most && a.module_names[count] == b.module_names[count] &&
         call_of(a, count) == call_of(b, count)) {
    ++count;
  }
  return count;
}

const Location* common_location(onnx::Model& model, const Location* a, const Location* b) {
  if (!a) return nullptr;
  const size_t count = b ? common_scopes(*a, *b) : 0;
  if (count == a->module_names.size()) return a;
  Location common = outer_scopes(*a, count);
  common.source = a->source;
  common.code = a->code;
  common.node = a->node;
  return &model.locations.emplace_back(std::move(common));
}

Location outer_scopes(const Location& location, size_t count) {
  Location outer;
  outer.module_names = location.module_names;
  outer.class_names = location.class_names;
  outer.calls = location.calls;
  keep_first(outer.module_names, count);
  keep_first(outer.class_names, count);
  keep_first(outer.calls, count);
  return outer;
}

Location inner_scopes(const Location& location, size_t count) {
  Location inner = location;
  inner.node.clear();
  inner.module_path.clear();
  drop_first(inner.module_names, count);
  drop_first(inner.class_names, count);
  drop_first(inner.calls, count);
  if (count == 0 || count > location.module_names.size()) return inner;
  const std::string prefix = location.module_names[count - 1] + ".";
  for (std::string& name : inner.module_names) {
    if (name.starts_with(prefix)) name.erase(0, prefix.size());
  }
  return inner;
}

}  // namespace onnx_native::passes
