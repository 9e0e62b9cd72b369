#include "passes/module_calls.h"

namespace onnx_native::passes {

const ModuleCall* common_call(const ModuleCall* a, const ModuleCall* b) {
  while (a != b) {
    if (a->depth < b->depth) std::swap(a, b);
    a = a->outer;
  }
  return a;
}

ModuleCalls::ModuleCalls(const ModuleFunctions& modules) : modules_(modules) {
  calls_.push_back({.outer = nullptr, .depth = 0, .location = nullptr, .scopes = 0});
}

const ModuleCall* ModuleCalls::find(const Location* location, const ModuleCall* around) {
  if (!location) return around;
  const auto [found, is_new] = found_.emplace(location, nullptr);
  if (is_new) found->second = find(*location);
  return common_call(found->second, around) == around ? found->second : around;
}

const ModuleCall* ModuleCalls::find(const Location& location) {
  const ModuleCall* call = root();
  for (size_t i = 0; i < location.module_names.size() && i < location.class_names.size(); ++i) {
    if (location.module_names[i].empty() || !is_function(location.class_names[i])) continue;
    const int64_t number = i < location.calls.size() ? location.calls[i] : 0;
    const ModuleCall*& inner = inner_[{call, location.module_names[i], number}];
    if (!inner) {
      inner = &calls_.emplace_back(ModuleCall{
          .outer = call, .depth = call->depth + 1, .location = &location, .scopes = i + 1});
    }
    call = inner;
  }
  return call;
}

bool ModuleCalls::is_function(const std::string& class_name) {
  const auto [known, is_new] = is_function_.emplace(class_name, false);
  if (!is_new) return known->second;
  bool wanted = modules_.all || class_name.starts_with(onnx_native::kSubgraphDomain);
  for (const std::string& name : modules_.classes) {
    if (class_name != name && !class_name.ends_with("." + name)) continue;
    wanted = true;
    seen_.insert(name);
  }
  return known->second = wanted;
}

std::vector<std::string> ModuleCalls::unseen() const {
  std::vector<std::string> result;
  for (const std::string& name : modules_.classes) {
    if (!seen_.contains(name)) result.push_back(name);
  }
  return result;
}

}  // namespace onnx_native::passes
