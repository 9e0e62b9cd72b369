#include "passes/function_body.h"

#include <algorithm>
#include <string_view>

#include "onnx/typing.h"
#include "passes/key.h"
#include "passes/scopes.h"

namespace onnx_native::passes {
namespace {

using onnx::Function;
using onnx::Graph;
using onnx::Node;
using onnx::Value;

constexpr int64_t kMostInside = 64;  // elements of an integer constant inside a function

void visit_graphs(const Node& node, const std::function<void(Graph&)>& visit) {
  for (const onnx::Attribute& attribute : node.attributes) {
    if (const auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.value)) {
      onnx::for_each_graph(**body, visit);
    }
  }
}

// Returns true if the constant belongs to the module's code, so it is not a weight.
bool goes_inside(const Value& value) {
  if (!value.constant || value.named) return false;
  const int64_t elements = value.constant->numel();
  return elements <= 1 || (!is_floating(value.dtype) && elements <= kMostInside);
}

// Returns all values of a function's body in a fixed order.
std::vector<Value*> values_of(Graph& body) {
  std::vector<Value*> values;
  onnx::for_each_graph(body, [&values](const Graph& graph) {
    values.insert(values.end(), graph.inputs.begin(), graph.inputs.end());
    values.insert(values.end(), graph.initializers.begin(), graph.initializers.end());
    for (const Node* node : graph.nodes) {
      for (Value* output : node->outputs) {
        if (output) values.push_back(output);
      }
    }
  });
  return values;
}

// Builds keys that are equal for bodies that compute the same results.
class BodyKey {
 public:
  std::string take(const Graph& body) {
    add_graph(body);
    return key_.take();
  }

 private:
  bool add_graph(const Graph& graph) {
    key_.add(graph.inputs.size());
    for (const Value* input : graph.inputs) define(input);
    key_.add(graph.initializers.size());
    for (const Value* constant : graph.initializers) {
      define(constant);
      // A large constant is equal only to itself.
      if (!key_.add_tensor(*constant->constant)) key_.add_identity(constant->constant->data);
    }
    for (const Node* node : graph.nodes) {
      key_.add_text(node->domain);
      key_.add_text(node->op_type);
      add_uses(node->inputs);
      const bool comparable =
          key_.add_attributes(*node, [this](const Graph& inner) { return add_graph(inner); });
      if (!comparable) key_.add_identity(node);
      for (const auto& [name, value] : node->metadata) {
        key_.add_text(name);
        key_.add_text(value);
      }
      key_.add(node->outputs.size());
      for (const Value* output : node->outputs) define(output);
    }
    add_uses(graph.outputs);
    return true;
  }
  void define(const Value* value) {
    key_.add(value != nullptr);
    if (!value) return;
    key_.add(value->dtype);
    key_.add(value->kind);
    numbers_.emplace(value, numbers_.size());
  }
  void add_uses(const std::vector<Value*>& values) {
    key_.add(values.size());
    for (const Value* value : values) key_.add(value ? numbers_.at(value) : SIZE_MAX);
  }

  Key key_;
  std::unordered_map<const Value*, size_t> numbers_;
};

// Drops shapes and contents of the values of `body` that differ from those of `other`.
void generalize(Graph& body, Graph& other) {
  const std::vector<Value*> values = values_of(body);
  const std::vector<Value*> others = values_of(other);
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i]->shape != others[i]->shape) onnx::Typing::set_shape(*values[i], std::nullopt);
    if (values[i]->contents != others[i]->contents)
      onnx::Typing::set_contents(*values[i], std::nullopt);
  }
}

// Drops the module's name from the name of its weight, or of each of its weights that are joined.
std::string own_name(std::string name, const std::string& module) {
  name.erase(0, module.size() + 1);
  const std::string next = concat("+", module, ".");
  for (size_t at = name.find(next); at != std::string::npos; at = name.find(next, at + 1)) {
    name.erase(at + 1, next.size() - 1);
  }
  return name;
}

// Splits "package.module.Class" at the last dot. Drops "<locals>." from classes inside functions.
std::pair<std::string, std::string> split_class(std::string_view text) {
  std::string path(text);
  constexpr std::string_view kLocals = "<locals>.";
  for (size_t at = path.find(kLocals); at != std::string::npos; at = path.find(kLocals)) {
    path.erase(at, kLocals.size());
  }
  const size_t dot = path.rfind('.');
  if (dot == std::string::npos) return {"modules", path};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

}  // namespace

void for_each_use(const Node& node, const std::function<void(Value*)>& visit) {
  for (Value* input : node.inputs) {
    if (input) visit(input);
  }
  std::unordered_set<const Graph*> own;
  visit_graphs(node, [&own](const Graph& graph) { own.insert(&graph); });
  if (own.empty()) return;
  const auto visit_outer = [&](Value* value) {
    if (value && !own.contains(value->graph)) visit(value);
  };
  visit_graphs(node, [&](const Graph& graph) {
    for (const Node* inner : graph.nodes) std::ranges::for_each(inner->inputs, visit_outer);
    std::ranges::for_each(graph.outputs, visit_outer);
  });
}

Functions::Functions(onnx::Model& model) : model_(model), uses_(onnx::count_uses(*model.graph)) {
  onnx::for_each_graph(*model.graph, [this](const Graph& graph) {
    for (const Node* node : graph.nodes) {
      if (!node->domain.empty()) names_.emplace(node->domain + "." + node->op_type, 1);
    }
  });
}

// Returns the values that nodes outside `nodes` use.
std::vector<Value*> Functions::results(const std::vector<Node*>& nodes) {
  std::unordered_map<const Value*, int64_t> inside;
  for (const Node* node : nodes) {
    for_each_use(*node, [&inside](const Value* value) { ++inside[value]; });
  }
  std::vector<Value*> results;
  for (const Node* node : nodes) {
    for (Value* output : node->outputs) {
      if (output && uses_[output] > inside[output]) results.push_back(output);
    }
  }
  return results;
}

// Adds the values that the nodes use from outside: small constants become initializers of the body,
// the others become inputs, activations before weights. Returns the outer values of the inputs.
std::vector<Value*> Functions::add_inputs(const std::vector<Node*>& nodes,
                                          const std::string& module, Graph& body,
                                          Replacements& inside) {
  std::unordered_set<const Node*> own(nodes.begin(), nodes.end());
  std::vector<Value*> inputs;
  std::unordered_set<const Value*> seen;
  for (const Node* node : nodes) {
    for_each_use(*node, [&](Value* value) {
      if (own.contains(value->producer) || !seen.insert(value).second) return;
      if (goes_inside(*value)) {
        inside[value] = body.add_initializer("", *value->constant);
      } else {
        inputs.push_back(value);
      }
    });
  }
  std::stable_partition(inputs.begin(), inputs.end(),
                        [](const Value* value) { return !value->is_constant(); });
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string& name = inputs[i]->name;
    const bool is_own = inputs[i]->named && name.starts_with(module + ".");
    Value* input = body.add_input("", inputs[i]->dtype, inputs[i]->shape);
    input->kind = inputs[i]->kind;
    input->name = is_own ? own_name(name, module) : concat("input_", i);
    inside[inputs[i]] = input;
  }
  return inputs;
}

const Function& Functions::function(std::unique_ptr<Graph> body, const std::string& class_name) {
  const auto [known, is_new] =
      known_.emplace(class_name + '\n' + BodyKey().take(*body), model_.functions.size());
  if (!is_new) {
    Function& function = model_.functions[known->second];
    generalize(*function.body, *body);
    return function;
  }
  auto [domain, name] = split_class(class_name);
  int64_t& number = names_[concat(domain, ".", name)];
  const std::string unique = number == 0 ? name : concat(name, "_", number);
  ++number;
  body->name = unique;
  model_.functions.push_back(
      {.name = unique, .domain = std::move(domain), .body = std::move(body), .attributes = {}});
  return model_.functions.back();
}

const Location* Functions::inner_location(const Location* location, size_t scopes) {
  if (!location) return nullptr;
  const Location*& inner = locations_[{location, scopes}];
  if (!inner) inner = &model_.locations.emplace_back(inner_scopes(*location, scopes));
  return inner;
}

Node* Functions::outline(Graph& graph, const std::vector<Node*>& nodes, const ModuleCall& call) {
  const std::vector<Value*> results = this->results(nodes);
  if (results.empty()) return nullptr;
  const std::string& module = call.location->module_names[call.scopes - 1];
  auto body = std::make_unique<Graph>();
  Replacements inside;
  std::vector<Value*> inputs = add_inputs(nodes, module, *body, inside);
  for (const Node* node : nodes) {
    for_each_use(*node, [this](const Value* value) { --uses_[value]; });
  }
  for (const Value* input : inputs) ++uses_[input];

  Node* made = graph.insert_node(nodes.front()->position, "", std::move(inputs), 0);
  made->name = module;
  made->location = &model_.locations.emplace_back(outer_scopes(*call.location, call.scopes));
  made->outputs = results;
  // Outside, the results keep their Value objects.
  for (size_t i = 0; i < results.size(); ++i) {
    Node* producer = std::exchange(results[i]->producer, made);
    Value* own = body->add_value();
    onnx::Typing::copy(*results[i], *own);
    own->name = concat("output_", i);
    own->producer = producer;
    std::ranges::replace(producer->outputs, results[i], own);
    inside[results[i]] = own;
    body->outputs.push_back(own);
  }
  for (Node* node : nodes) {
    body->take_over(graph, node);
    if (node->name.starts_with(module + ".")) node->name.erase(0, module.size() + 1);
    node->location = inner_location(node->location, call.scopes);
    visit_graphs(*node, [&](const Graph& inner) {
      for (Node* part : inner.nodes) part->location = inner_location(part->location, call.scopes);
    });
  }
  onnx::replace_uses(*body, inside);
  const Function& function =
      this->function(std::move(body), call.location->class_names[call.scopes - 1]);
  made->domain = function.domain;
  made->op_type = function.name;
  calls_.insert(made);
  return made;
}

}  // namespace onnx_native::passes
