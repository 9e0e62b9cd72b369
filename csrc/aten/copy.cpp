#include "aten/copy.h"

#include <unordered_map>
#include <utility>
#include <vector>

namespace onnx_native::aten {
namespace {

class Copier {
 public:
  explicit Copier(const std::function<Type(const Type&)>& type) : type_(type) {}

  std::unique_ptr<Graph> run(const Graph& graph) {
    for (const Value* input : graph.inputs)
      values_[input] = copy_->add_input(input->name, type_(input->type));
    for (const ScatteredInput& each : graph.scattered_inputs)
      copy_->scattered_inputs.push_back({values_.at(each.value), each.strides});
    for (const Constant& each : graph.constants)
      values_[each.value] = copy_->add_constant(each.value->name, each.data, each.kind);
    for (const Node* node : graph.nodes) {
      std::vector<Argument> arguments;
      for (const Argument& argument : node->arguments) arguments.push_back(copied(argument));
      Node* made = copy_->add_node(node->op, std::move(arguments), copied(node->location));
      for (const Value* output : node->outputs)
        values_[output] = copy_->add_output(made, output->name, type_(output->type));
    }
    for (const Argument& output : graph.outputs) copy_->outputs.push_back(copied(output));
    for (const Mutation& each : graph.mutations)
      copy_->mutations.push_back({each.target, each.is_buffer, values_.at(each.value)});
    return std::move(copy_);
  }

 private:
  const Location* copied(const Location* location) {
    if (!location) return nullptr;
    const auto [at, inserted] = locations_.try_emplace(location, nullptr);
    if (inserted) at->second = copy_->add_location(*location);
    return at->second;
  }

  Argument copied(const Argument& argument) {
    if (const Value* value = argument.as_value()) return values_.at(value);
    if (const auto* body = argument.get<std::shared_ptr<Graph>>())
      return std::shared_ptr<Graph>(copy(**body, type_));
    const auto* list = argument.get<Argument::List>();
    if (!list) return argument;
    Argument::List items;
    for (const Argument& item : *list) items.push_back(copied(item));
    return items;
  }

  const std::function<Type(const Type&)>& type_;
  std::unique_ptr<Graph> copy_ = std::make_unique<Graph>();
  std::unordered_map<const Value*, Value*> values_;
  std::unordered_map<const Location*, const Location*> locations_;
};

}  // namespace

std::unique_ptr<Graph> copy(const Graph& graph, const std::function<Type(const Type&)>& type) {
  return Copier(type).run(graph);
}

}  // namespace onnx_native::aten
