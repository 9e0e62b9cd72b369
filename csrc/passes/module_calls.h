// The calls of modules that become functions, found by the locations of nodes.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "passes/passes.h"

namespace onnx_native::passes {

// One call of a module (or region) that becomes a function.
struct ModuleCall {
  const ModuleCall* outer;   // nullptr: the model itself
  size_t depth;              // of the model: 0
  const Location* location;  // of a node in it
  size_t scopes;             // how many of the location's scopes lead to it
};

// The innermost call that both are in.
const ModuleCall* common_call(const ModuleCall* a, const ModuleCall* b);

// All calls of a model, each made when it is first asked for.
class ModuleCalls {
 public:
  explicit ModuleCalls(const ModuleFunctions& modules);

  const ModuleCall* root() const { return &calls_.front(); }
  // The innermost call that is at this place; `around` where that is not inside it.
  const ModuleCall* find(const Location* location, const ModuleCall* around);
  // The classes asked for that are at no place.
  std::vector<std::string> unseen() const;

 private:
  bool is_function(const std::string& class_name);
  const ModuleCall* find(const Location& location);

  const ModuleFunctions& modules_;
  std::deque<ModuleCall> calls_;
  std::map<std::tuple<const ModuleCall*, std::string, int64_t>, const ModuleCall*> inner_;
  std::unordered_map<const Location*, const ModuleCall*> found_;
  std::unordered_map<std::string, bool> is_function_;
  std::unordered_set<std::string> seen_;  // of modules_.classes
};

}  // namespace onnx_native::passes
