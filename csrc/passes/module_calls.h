// Finds the module calls that become functions, from the locations of nodes.
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
  const ModuleCall* outer;   // nullptr: this is the model itself
  size_t depth;              // 0 for the model
  const Location* location;  // of some node in this call
  size_t scopes;             // number of outermost scopes of `location` that name this call
};

// Returns the innermost call that contains both.
const ModuleCall* common_call(const ModuleCall* a, const ModuleCall* b);

// All module calls of a model, created on first lookup.
class ModuleCalls {
 public:
  explicit ModuleCalls(const ModuleFunctions& modules);

  const ModuleCall* root() const { return &calls_.front(); }
  // Returns the innermost call at this location, or `around` if the location is outside `around`.
  const ModuleCall* find(const Location* location, const ModuleCall* around);
  // Returns the requested classes that no node comes from.
  std::vector<std::string> unseen() const;

 private:
  bool is_function(const std::string& class_name);
  const ModuleCall* find(const Location& location);

  const ModuleFunctions& modules_;
  std::deque<ModuleCall> calls_;
  std::map<std::tuple<const ModuleCall*, std::string, int64_t>, const ModuleCall*> inner_;
  std::unordered_map<const Location*, const ModuleCall*> found_;
  std::unordered_map<std::string, bool> is_function_;
  std::unordered_set<std::string> seen_;  // the entries of modules_.classes that matched
};

}  // namespace onnx_native::passes
