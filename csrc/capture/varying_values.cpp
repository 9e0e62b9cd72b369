#include "capture/varying_values.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <string>

#include "aten/op_facts.h"
#include "aten/schema.h"
#include "aten/visit.h"

namespace onnx_native::capture {
namespace {

// Returns true if a result may be, or may be a view of, an argument.
bool may_share(const aten::Node& node) {
  if (!node.schema) return true;
  const aten::OpFacts& facts = aten::facts_of(*node.schema);
  return facts.hidden_alias || facts.view != aten::ViewKind::none ||
         std::ranges::any_of(node.schema->returns, [](const aten::SchemaArgument& result) {
           return !result.alias_sets.empty();
         });
}

}  // namespace

bool is_random(const aten::Node& node) {
  const size_t dot = node.op.find('.');
  const std::string overload = dot == std::string::npos ? "" : node.op.substr(dot + 1);
  const auto found = c10::Dispatcher::singleton().findSchema({node.op.substr(0, dot), overload});
  return found && found->hasTag(at::Tag::nondeterministic_seeded);
}

VaryingValues::VaryingValues(const aten::Graph& graph) {
  for (const aten::Node* node : graph.nodes) {
    if (may_share(*node)) share(*node);
  }
  for (const aten::Value* input : graph.inputs) varying_.insert(memory_of(input));
  for (const aten::Node* node : graph.nodes) {
    const bool varies = is_random(*node) ||
                        std::ranges::any_of(node->arguments, [this](const aten::Argument& each) {
                          return uses_varying(each);
                        });
    if (!varies) continue;
    for (const aten::Value* output : node->outputs) varying_.insert(memory_of(output));
    add_written(*node);
  }
}

const aten::Value* VaryingValues::memory_of(const aten::Value* value) {
  for (auto at = shared_.find(value); at != shared_.end(); at = shared_.find(value)) {
    if (const auto next = shared_.find(at->second); next != shared_.end())
      at->second = next->second;
    value = at->second;
  }
  return value;
}

void VaryingValues::share(const aten::Node& node) {
  const aten::Value* memory = nullptr;
  const auto join = [&](const aten::Value* value) {
    const aten::Value* other = memory_of(value);
    if (memory && other != memory) shared_[other] = memory;
    if (!memory) memory = other;
  };
  for (const aten::Argument& argument : node.arguments) aten::for_each_value(argument, join);
  for (const aten::Value* output : node.outputs) join(output);
}

bool VaryingValues::uses_varying(const aten::Argument& argument) {
  bool uses = false;
  aten::for_each_value(argument, [&](const aten::Value* value) { uses = uses || contains(value); });
  return uses;
}

// A call without a schema has bodies, which may write to any argument.
void VaryingValues::add_written(const aten::Node& node) {
  for (size_t i = 0; i < node.arguments.size(); ++i) {
    if (node.schema && (i >= node.schema->arguments.size() || !node.schema->arguments[i].writes))
      continue;
    aten::for_each_value(node.arguments[i],
                         [this](const aten::Value* value) { varying_.insert(memory_of(value)); });
  }
}

}  // namespace onnx_native::capture
